"""One installation whose job is killed again and again while records come in."""

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from detectors.events.event import Record
from detectors.incident import Transition
from tests.e2e.harness import Installation
from tests.e2e.test_job import recorded, replayed
from tests.embedded.job_process import JobProcess
from tests.reliability import killed_job

SCENARIO = "checkpoint-declined"
_DAY_MS = 86_400_000
_WITHIN_S = 600.0


def portions() -> list[list[Record]]:
    """The records of an incident's life, cut so that each portion brings a transition: opened, updated, resolved."""
    records = recorded(SCENARIO)
    ends = []
    for count in range(1, len(records) + 1):
        if len(replayed(records[:count], "flink.metrics")) > len(ends):
            ends.append(count)
    ends[-1] = len(records)
    return [records[a:b] for a, b in zip([0, *ends], ends, strict=False)]


def of_another(record: Record, cluster: str, day: int) -> Record:
    """The record as another cluster would have written it, so many days later."""
    date = time.strftime("%Y-%m-%d", time.gmtime(1_763_712_000 + 86_400 * day)).encode()
    value = (record.value or b"").replace(b"billing", cluster.encode()).replace(b"2025-11-21", date)
    return msgspec.structs.replace(record, timestamp=record.timestamp + day * _DAY_MS, value=value)


class JobChain:
    """Each life of the job gets the next portion; every third life another cluster fails, a day later."""

    def __init__(self, make: Callable[..., Installation]) -> None:
        self.here = make()
        self.here.create_inputs()
        self.stored: list[Record] = []
        self.kills = 0
        self.not_committed = 0
        """Kills that met a batch whose output was in Kafka and whose commit was not."""
        self._portions = portions()
        self._armed = self.here.folder / "armed"
        self.here.job = JobProcess(
            self.here.folder,
            self.here.configuration,
            "--no-deliver",
            environment={killed_job.ARMED: str(self._armed)},
            module="tests.reliability.killed_job",
        )

    def expected(self) -> list[Transition]:
        """What has to be said of everything sent so far."""
        return replayed(self.stored, self.here.metrics)

    def send(self) -> None:
        """The next portion."""
        day, portion = divmod(self.kills, len(self._portions))
        self.stored += self.here.send(of_another(r, f"billing-{day}", day) for r in self._portions[portion])

    def live_until(self, point: str, number: int = signal.SIGKILL) -> None:
        """A life of the job, ended at a point by kill -9; with SIGTERM it may end in order."""
        said = len(self.here.transitions()) if self.kills else 0
        self.here.job.start()
        if point in killed_job.POINTS:
            order = {"point": point, "signal": int(number), "job": self.here.job.pid}
            self._armed.write_text(json.dumps(order))
            self.send()
            status = self.here.job.wait(_WITHIN_S)
            assert not self._armed.exists(), self.here.job.log_tail()
            assert status == (-number if number == signal.SIGKILL else 0), self.here.job.log_tail()
        else:
            self.send()
            self._await_said(said + 1, committed=point == "after the state commit")
            self.here.job.kill()
            self.not_committed += self._open_batch()
        self.kills += 1

    def finish(self, within: float = _WITHIN_S) -> None:
        """A last life says what is missing and something more, and ends in order."""
        self.here.job.start()
        self.send()
        expected = len(self.expected())
        self.here.wait_for(lambda: len(self.here.transitions()) >= expected, within)
        self.here.wait_for(lambda: not self._open_batch())
        assert self.here.job.terminate() == 0

    def _await_said(self, count: int, committed: bool) -> None:
        deadline = time.monotonic() + _WITHIN_S
        while len(self.here.transitions()) < count or (committed and self._open_batch()):
            assert time.monotonic() < deadline, self.here.job.log_tail()
            assert self.here.job.exit_status() is None, self.here.job.log_tail()
            time.sleep(0.005)

    def _open_batch(self) -> bool:
        """Whether the newest batch is planned and not committed."""
        newest = [_newest(self.here.folder / "checkpoint" / name) for name in ("offsets", "commits")]
        return newest[0] != newest[1]


def _newest(folder: Path) -> int:
    files = folder.iterdir() if folder.exists() else ()
    return max((int(file.name) for file in files if file.name.isdigit()), default=-1)
