"""Lines of a JobManager whose job makes checkpoints, dated as they are sent: for clusters that live in real time."""

from datetime import UTC, datetime

from detectors.events.event import Record

JOB = "4f2d1c0b9a8877665544332211ffeedd"
EVERY_MS = 5_000
_COORDINATOR = "INFO  org.apache.flink.runtime.checkpoint.CheckpointCoordinator [] -"
_TYPE = "CheckpointType{name='Checkpoint', sharingFilesStrategy=FORWARD_BACKWARD}"


def line(cluster: str, at: int, text: str) -> Record:
    """One line, as its shipper sends it 100 ms later."""
    printed = datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]
    value = f"{printed} {_COORDINATOR} {text}".encode()
    return Record("flink.logs", 0, 0, at + 100, f"{cluster}/jm-1".encode(), value, (("cluster", cluster.encode()),))


def triggered(cluster: str, at: int, number: int) -> Record:
    """A checkpoint begins."""
    return line(cluster, at, f"Triggering checkpoint {number} (type={_TYPE}) @ {at} for job {JOB}.")


def checkpoint(cluster: str, at: int, number: int) -> list[Record]:
    """A checkpoint that takes 300 ms."""
    return [triggered(cluster, at, number), _done(cluster, at + 300, number)]


def _done(cluster: str, at: int, number: int) -> Record:
    told = (
        f"Completed checkpoint {number} for job {JOB} (4096 bytes, checkpointDuration=300 ms, finalizationTime=4 ms)."
    )
    return line(cluster, at, told)


def hung(cluster: str, now: int) -> list[Record]:
    """Ten checkpoints that completed, and one that began a moment before `now` and never ends."""
    past = [r for n in range(10) for r in checkpoint(cluster, now - (10 - n) * EVERY_MS - 500, n + 1)]
    return [*past, triggered(cluster, now - 500, 11)]


def completed(cluster: str, now: int) -> list[Record]:
    """The one that hung has completed."""
    return [_done(cluster, now - 500, 11)]
