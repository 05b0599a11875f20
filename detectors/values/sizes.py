"""Sizes of memory and of state in words."""


def mib(size: float) -> str:
    """A size of memory in MiB, as the JVM counts it.

    >>> mib(3 << 30)
    '3,072 MiB'
    """
    return f"{size / 1024**2:,.0f} MiB"


def si(size: float) -> str:
    """A size with three digits and a decimal unit, as Flink's UI shows state.

    >>> si(1_234_567), si(12)
    ('1.23 MB', '12 B')
    """
    unit, scale = next((u, s) for u, s in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1)) if size >= s or s == 1)
    return f"{size / scale:.3g} {unit}"
