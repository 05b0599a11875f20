"""What `flinkwatch rebuild` leaves in a new checkpoint for the job that begins with it."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from detectors.incident import Transition
from streaming.errors import PreflightError
from streaming.job.checkpoint.files import local_path

FILE = "flinkwatch.rebuild.json"


class RebuildPlan(msgspec.Struct, frozen=True):
    """What the job before had done, and where the new one begins to read.

    `until` is the clock (epoch ms) to which the job before had come, `read` the offsets to which it had read, where its
    checkpoint still told. `known` has the number of the newest transition of each incident that may still change.
    `offsets` are where reading begins. Offsets are by topic and partition.
    """

    until: int = 0
    read: dict[str, dict[str, int]] = {}
    known: dict[str, int] = {}
    offsets: dict[str, dict[str, int]] = {}

    def new(self, transitions: Iterable[Transition]) -> Iterator[Transition]:
        """Those that the job before has not written, numbered above what it has written.

        An incident that was found with less history may have had fewer changes than before: numbered as it counts them
        itself, its next change would pass for one that was delivered long ago.
        """
        for transition in transitions:
            if transition.at < self.until and not self._has_news(transition):
                continue
            before = self.known.get(transition.incident, 0)
            yield msgspec.structs.replace(transition, seq=transition.seq + before) if before else transition

    def _has_news(self, transition: Transition) -> bool:
        """Whether it shows a record that the job before has not read, such as one of a partition that lagged."""
        return bool(self.read) and any(
            each.offset >= self.read.get(each.topic, {}).get(str(each.partition), 0) for each in transition.evidence
        )


NOT_REBUILT = RebuildPlan()


def rebuilt_in(checkpoint: str) -> RebuildPlan:
    """What the checkpoint holds of it; nothing in one that was never rebuilt. Raises PreflightError."""
    folder = local_path(checkpoint)
    file = folder / FILE if folder is not None else None
    if file is None or not file.is_file():
        return NOT_REBUILT
    try:
        return msgspec.json.decode(file.read_bytes(), type=RebuildPlan)
    except (msgspec.DecodeError, OSError) as error:
        raise PreflightError(f"{file} cannot be read, run `flinkwatch rebuild` again: {error}") from error


def write(folder: Path, rebuilt: RebuildPlan) -> None:
    """Raises OSError."""
    (folder / FILE).write_bytes(msgspec.json.encode(rebuilt))
