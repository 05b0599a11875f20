"""Numbers with their unit, as Grafana shows them."""


def humanize(value: float, unit: str) -> str:
    """A number as Grafana shows it, more or less."""
    match unit:
        case "s":
            steps = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"), (0.001, "ms"))
            size, name = next(((s, n) for s, n in steps if abs(value) >= s), (1, "s"))
            return f"{value / size:.3g} {name}"
        case "percentunit":
            return f"{100 * value:.3g} %"
        case "bytes":
            steps = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))
            size, name = next(((s, n) for s, n in steps if abs(value) >= s), (1, "B"))
            return f"{value / size:.3g} {name}"
        case _:
            steps = ((1e9, " Bil"), (1e6, " Mil"), (1e3, " K"), (1, ""))
            size, name = next(((s, n) for s, n in steps if abs(value) >= s), (1, ""))
            return f"{value / size:.3g}{name}"
