"""What the statistics make of made-up numbers is as before: durations that rise, heaps, collections, checkpoints.

`pytest tests/unit/detectors/test_made_up_numbers.py -n 0 --regenerate` writes the table again after a change on
purpose; each line is one made-up process or job, so that a diff shows which of them are judged in another way.
"""

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from detectors.events.event import Sample
from detectors.flink.checkpointing.checkpoint_durations import CheckpointDurations
from detectors.flink.checkpointing.checkpoints import JobCheckpoints
from detectors.flink.facts import CheckpointCompleted, CheckpointFailed, CheckpointTriggered
from detectors.flink.memory.gc_window import GcWindow
from detectors.flink.memory.heap_floor import HeapFloor
from detectors.incident import Evidence
from detectors.numerics import rise as rises
from detectors.numerics.multiscale import MultiscaleSeries, Point
from tests.unfolded import rounded

FILE = Path(__file__).with_name("golden") / "numbers.txt"
SECOND, MINUTE = 1_000, 60_000
START = 1_700_000_000_000
COLLECTORS = ("G1_Young_Generation", "G1_Old_Generation", "G1_Concurrent_GC", "ConcurrentMarkSweep", "Copy")


def text(*found: Any) -> str:
    return msgspec.json.encode(rounded(msgspec.to_builtins(found))).decode()


def series(seed: int) -> Iterable[Point]:
    """Durations of checkpoints: flat, then rising in one way or another, with noise, spikes, waves or a plateau."""
    chance = Random(seed)
    usual, noise = chance.uniform(50, 5_000), chance.choice([0.01, 0.05, 0.2])
    flat, growth = chance.choice([0, 15, 40, 100]), chance.choice([0, 0.01, 0.03, 0.1])
    shape = chance.choice(["line", "curve", "jump", "plateau", "wave", "late", "none"])
    step = chance.choice([2 * SECOND, MINUTE, 10 * MINUTE])
    for n in range(chance.choice([20, 40, 90, 180])):
        grown = growth * max(0, n - flat)
        level = {
            "line": 1 + grown,
            "curve": math.exp(min(grown, 8)),
            "jump": 3.0 if n > flat else 1.0,
            "plateau": 1 + min(grown, 1.5),
            "wave": 1 + 0.8 * math.sin(n / 10) + grown / 4,
            "late": 1 + 4 * max(0, grown - 1),
            "none": 1.0,
        }[shape]
        spike = 6 if chance.random() < 0.03 else 1
        yield Point(
            START + n * step, usual * level * spike * math.exp(chance.gauss(0, noise)), 1e6 * level, chance.random()
        )


def risen(seed: int) -> str:
    history, found = MultiscaleSeries(), []
    for n, point in enumerate(series(seed)):
        history.add(point)
        if n % 4:
            continue
        rise = rises.rise(history, growth=(0.3, 0.5, 1.0)[seed % 3], p=0.01, only_new=n % 3 != 0)
        if rise is not None and (not found or n % 20 == 0):
            shape = (rise.established, rise.fit.exponential, rise.since(0.25) - START, rise.since(9.0) - START)
            reached = (rise.reaches(rise.usual * 20), rise.reaches(rise.usual))
            found.append((n, rise.scale, len(rise.points), rise.usual, rise.level, *shape, *reached))
    sizes = [len(s) for s in history.scales]
    ends = [history.points(n, 2) for n in range(len(sizes))]
    return text(found[:3], len(found), sizes, [s.waiting for s in history.scales], ends, history.points(99))


def floor(seed: int) -> str:
    """A heap's sawtooth whose floor rises or not, sampled often or seldom, of a process that may begin again."""
    chance, found, ended = Random(seed), [], 0
    own = HeapFloor(START)
    limit, low = 1 << 30, chance.uniform(0.05, 0.4) * (1 << 30)
    rise, tooth = chance.choice([0, 0.01, 0.03]), chance.choice([1, 2, 5, 10])
    own.limit = limit if seed % 9 else 0
    used, at = low, START
    for n in range(chance.choice([60, 400, 800])):
        at += chance.choice([SECOND, 5 * SECOND, 5 * SECOND, 30 * SECOND])
        used += (limit - low) / tooth / 8 * chance.uniform(0.2, 1.5)
        if used > 0.9 * limit or chance.random() < 0.3 / tooth:
            low = min(low * (1 + rise), 0.85 * limit)
            used = low * chance.uniform(1, 1.1)
            if chance.random() < 0.1:
                found.append(("old", own.counted(2, True, at, n)))
        ended += own.take(at - (7 * SECOND if chance.random() < 0.02 else 0), used)
        if n % 50 == 0:
            found.append((own.counted(1, False, at, n if chance.random() < 0.9 else 0), own.floor(), own.now() - START))
        if n == 300 and seed % 5 == 0:
            own.forget()
    risen = [own.rise(warm_up, cycles, 0.05, 0.02) for warm_up, cycles in ((0, 8), (MINUTE, 12), (10 * MINUTE, 20))]
    points = own.series()
    return text(ended, found[-3:], risen, len(points), points[:2], points[-2:], own.floor(), own.after_old, own.tooth)


def collections(seed: int) -> str:
    """Counters of collectors and the heap in use, whole scrapes or sample by sample, with restarts and late samples."""
    chance, own, found = Random(seed), GcWindow(), []
    spent, count = dict.fromkeys(COLLECTORS, 0), dict.fromkeys(COLLECTORS, 0)
    every, busy = chance.choice([SECOND, 5 * SECOND, 15 * SECOND]), chance.choice([0.0, 0.1, 0.5, 0.95])
    for n in range(60):
        time = START + n * every - (chance.choice([0, 0, 0, 20 * SECOND]) if chance.random() < 0.1 else 0)
        if chance.random() < 0.02:
            spent, count = dict.fromkeys(COLLECTORS, 0), dict.fromkeys(COLLECTORS, 0)
        for collector in chance.sample(COLLECTORS, 3):
            number = COLLECTORS.index(collector) + (10 if seed % 7 == 0 else 0)
            spent[collector] += int(every * busy * chance.random())
            count[collector] += chance.choice([0, 1, 1, 3])
            own.collected("gc_time", collector, number, spent[collector], time, time + 50)
            own.collected("gc_count", collector, number, count[collector], time, time + 50)
        if chance.random() < 0.9:
            own.take("heap_used", chance.uniform(0.3, 1) * (1 << 30), time, time + 50)
        if chance.random() < 0.5:
            own.take("heap_max", float(1 << 30), time, time + 60)
        if n % 6 == 5:
            found += [
                (own.share(over), own.left(over), own.old_collections(over), own.used())
                for over in (20 * SECOND, MINUTE)
            ]
    points = [(at - START, used) for at, used in own.points()]
    return text(found, len(points), points[:1], points[-1:], own.at - START, own.interval, own.limit)


def checkpoints(seed: int) -> str:
    """Lines or gauges of a job's checkpoints, with savepoints, restores, expiries and numbers that jump back."""
    chance, own, job, found = Random(seed), CheckpointDurations(), JobCheckpoints(), []
    number, time, every = 1, START, chance.choice([5 * SECOND, MINUTE])
    gauges = seed % 3 == 0
    for n in range(80):
        time += every + chance.choice([0, 0, 10, every])
        number += 1
        took = int(every * chance.choice([0.1, 0.2, 0.5, 0.9, 2.0]))
        record = Evidence("flink.logs", 0, n, time + took, f"checkpoint {number}")
        if gauges:
            size = chance.uniform(1, 9e6)
            for name, value in (
                ("last_checkpoint_duration", float(took)),
                ("last_checkpoint_size", size),
                *([("last_checkpoint_full_size", 2 * size)] if seed % 2 else []),
                ("completed_checkpoints", float(number)),
            ):
                if chance.random() < 0.85:
                    scraped = Evidence("flink.metrics", 0, n, time, "")
                    found.append(own.measure(scraped, Sample(name, {}, value), 0.5))
        else:
            kind = "SAVEPOINT" if chance.random() < 0.05 else "CHECKPOINT"
            begun = job.trigger(CheckpointTriggered(number, type=kind), time, record)
            if begun is not None and not begun.savepoint:
                own.triggered(number, job.completed, time)
            if chance.random() < 0.1:
                job.fail(CheckpointFailed(number, "expired"), time + took)
            elif chance.random() < 0.95:
                size = chance.choice([1_000, 1_100, 1_200, 90_000])
                done = job.complete(CheckpointCompleted(number, took, size), time + took)
                found.append(done is not None and own.complete(done, record, 0.3))
        if chance.random() < 0.03:
            job.restart(time + chance.choice([0, -10 * MINUTE]), restored=True)
            found.append(own.start_fresh(time) if chance.random() < 0.5 else own.restart())
            number = chance.choice([number, 1])
        if seed % 4 == 1 and n == 50:
            own.log()
    return text(
        "".join("ny"[bool(x)] for x in found),
        own.interval(),
        job.timeout,
        own.history.points(0, 3),
        own.gaps[-3:],
        own.sizes[-3:],
        own.records,
        own.seen,
        len(job.in_progress),
        job.completed,
        own.last,
        own.gauge,
    )


MADE_UP: dict[str, tuple[Callable[[int], str], int]] = {
    "rise": (risen, 60),
    "floor": (floor, 40),
    "collections": (collections, 30),
    "checkpoints": (checkpoints, 40),
}


@pytest.mark.parametrize("what", MADE_UP)
def test_what_is_made_of_made_up_numbers_is_as_before(what: str, request: pytest.FixtureRequest) -> None:
    judge, count = MADE_UP[what]
    found = [f"{what} {seed:2}: {judge(seed)}\n" for seed in range(count)]
    known = FILE.read_text(encoding="utf-8").splitlines(keepends=True) if FILE.exists() else []
    if request.config.getoption("--regenerate"):
        known = sorted([*(line for line in known if line.split()[0] != what), *found])
        FILE.write_text("".join(known), encoding="utf-8")
    assert found == [line for line in known if line.split()[0] == what]
