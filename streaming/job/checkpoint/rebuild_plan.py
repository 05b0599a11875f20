"""What `flinkwatch rebuild` and `flinkwatch state import` leave in a new checkpoint for the job that starts with it."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from detectors.incident import Transition
from streaming.errors import PreflightError
from streaming.job.checkpoint.files import local_path
from streaming.job.checkpoint.imported_state import FOLDER

FILE = "flinkwatch.rebuild.json"
EARLIEST = -2
"""Kafka's first offset, in the form of Spark."""


class RebuildPlan(msgspec.Struct, frozen=True):
    """How far the previous job had come, and where the new one starts to read.

    `until` is the time (epoch ms) that the previous job had reached, `read` the offsets to which it had read, if its
    checkpoint still had them. `known` has the number of the newest transition of each incident that may still change.
    `offsets` are the starting offsets. Offsets are by topic and partition. `state` is the folder with imported state,
    empty if there is none.
    """

    until: int = 0
    read: dict[str, dict[str, int]] = {}
    known: dict[str, int] = {}
    offsets: dict[str, dict[str, int]] = {}
    state: str = ""

    def starting_offsets(self, otherwise: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
        """Where to start: `otherwise` for other topics, and at the beginning of partitions that were added later."""
        known = {t: {**dict.fromkeys(otherwise.get(t, {}), EARLIEST), **own} for t, own in self.offsets.items()}
        return {**otherwise, **known}

    def unwritten(self, transitions: Iterable[Transition]) -> Iterator[Transition]:
        """The transitions that the previous job has not written, with numbers above those that it has written.

        With less history, an incident may have fewer transitions than before. Without the offset, the number of its
        next transition would be one that was delivered already.
        """
        for transition in transitions:
            if transition.at < self.until and not self._has_news(transition):
                continue
            before = self.known.get(transition.incident, 0)
            yield msgspec.structs.replace(transition, seq=transition.seq + before) if before else transition

    def _has_news(self, transition: Transition) -> bool:
        """Whether its evidence has a record that the previous job had not read, such as one of a lagging partition."""
        return bool(self.read) and any(
            each.offset >= self.read.get(each.topic, {}).get(str(each.partition), 0) for each in transition.evidence
        )


NO_PLAN = RebuildPlan()


def read_plan(checkpoint: str) -> RebuildPlan:
    """The plan in a checkpoint, NO_PLAN if it has none. Raises PreflightError."""
    folder = local_path(checkpoint)
    if folder is None or not (folder / FILE).is_file():
        return NO_PLAN
    file = folder / FILE
    try:
        plan = msgspec.json.decode(file.read_bytes(), type=RebuildPlan)
    except (msgspec.DecodeError, OSError) as error:
        raise PreflightError(f"{file} cannot be read, run `flinkwatch rebuild` again: {error}") from error
    state = (folder / FOLDER).resolve()
    return msgspec.structs.replace(plan, state=str(state)) if state.is_dir() else plan


def write_plan(folder: Path, plan: RebuildPlan) -> None:
    """Write the plan into a checkpoint. Raises OSError."""
    (folder / FILE).write_bytes(msgspec.json.encode(plan))
