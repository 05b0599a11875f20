"""Small robust statistics over series kept in state."""

from collections.abc import Sequence


def quantile(values: Sequence[float], q: float) -> float:
    """The q-quantile (0..1) of a non-empty sequence, linear between order statistics.

    >>> quantile([1, 2, 3, 4], 0.5)
    2.5
    """
    ordered = sorted(values)
    position = q * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)
