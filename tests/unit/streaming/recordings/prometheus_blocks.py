"""The scrapes of a scenario in the database of a Prometheus server, as if it had made them."""

from pathlib import Path

from tests.bench.neutral import samples, scrapes
from tests.prometheus_server import import_samples
from tests.recorded import records


def import_scenario(name: str, cluster: str, folder: Path) -> None:
    """Make blocks of the scenario's Prometheus pages; each target is at port 9249 of its host."""
    series: dict[str, list[tuple[int, str]]] = {}
    for entry in scrapes(cluster, records(name)).entries:
        target = f'instance="{entry.host}:9249",cluster="{cluster}"'
        for metric, labels, value in samples(entry.body or ""):
            series.setdefault(f"{metric}{{{labels + ',' if labels else ''}{target}}}", []).append((entry.t, value))
    page = folder / "samples.txt"
    with page.open("w", encoding="utf-8") as file:
        for text, found in sorted(series.items()):
            file.writelines(f"{text} {value} {at / 1000:.3f}\n" for at, value in found)
        file.write("# EOF\n")
    import_samples(page, folder)
