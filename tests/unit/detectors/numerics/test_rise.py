"""The quick look that spares most stretches the rank test hides no rise."""

import math
import random

import pytest

from detectors.numerics import rise
from detectors.numerics.multiscale import MultiscaleSeries, Point


def history(chance: random.Random) -> MultiscaleSeries:
    """Durations of some hundreds of checkpoints: flat or rising, quiet or noisy, with or without a daily wave."""
    found, time = MultiscaleSeries(), 0
    usual, noise = chance.uniform(300, 5000), chance.uniform(0.01, 0.4)
    slope, flat, wave = chance.choice([0, 0.003, 0.01, 0.05]), chance.choice([0, 50]), chance.choice([0, 0.5])
    for number in range(chance.randrange(30, 500)):
        time += chance.randrange(5_000, 60_000)
        level = usual * (1 + slope * max(0, number - flat)) * (1 + wave * math.sin(number / 60))
        found.add(Point(time, level * math.exp(chance.gauss(0, noise))))
    return found


def test_what_does_not_stand_out_is_no_rise(monkeypatch: pytest.MonkeyPatch) -> None:
    histories = [history(random.Random(seed)) for seed in range(400)]
    quick = [rise.rise(h, growth=0.5, p=0.01) for h in histories]
    monkeypatch.setattr(rise, "_stands_out", lambda *_: True)
    thorough = [rise.rise(h, growth=0.5, p=0.01) for h in histories]
    assert quick == thorough
    assert 40 < sum(r is not None for r in thorough) < 360
