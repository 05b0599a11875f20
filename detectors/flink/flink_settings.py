"""The settings of Flink that its processes have printed at their start."""

import msgspec

from detectors.flink.facts import CheckpointTimeoutSet, Configured, Fact, ProcessStarted
from detectors.incident import ChangedSetting

_RETENTION = "execution.checkpointing.externalized-checkpoint-retention"
CHECKPOINT_TIMEOUT = "execution.checkpointing.timeout"
VERSION = "version"
"""The key of Flink's version in a `ChangedSetting`."""
_MAX_VALUE = 100
# A start prints the whole configuration within seconds. Processes of one deployment start within minutes.
_ONE_START_MS = 600_000


class FlinkSettings(msgspec.Struct, array_like=True):
    """The value of each setting of the vocabulary that a line has shown, as Flink prints it.

    Processes of a cluster have the same configuration, or nearly: the last one that started counts. `started` is the
    event time of the first start that was seen (0: none).
    """

    values: dict[str, str] = {}
    started: int = 0

    def learn(self, fact: Configured | CheckpointTimeoutSet) -> None:
        """Learn a setting from its line."""
        key, value = _setting(fact)
        self.values[key] = value

    def retains_checkpoints(self) -> bool:
        """Whether checkpoints are kept if their job is cancelled. A job may set it otherwise, in its program."""
        return self.values.get(_RETENTION, "").upper() == "RETAIN_ON_CANCELLATION"

    def start(self, time: int) -> None:
        """A process starts."""
        self.started = self.started or time

    def changed_by(self, fact: Fact, version: str, time: int) -> ChangedSetting | None:
        """What differs from the settings and the version known so far; None if nothing does or the old is not known.

        A setting that an earlier start has not printed was not set then.
        """
        match fact:
            case ProcessStarted():
                key, before, after = VERSION, version[:_MAX_VALUE], fact.version[:_MAX_VALUE]
                known = bool(before)
            case Configured() | CheckpointTimeoutSet():
                key, after = _setting(fact)
                before = self.values.get(key, "")
                known = key in self.values or (self.started > 0 and time - self.started >= _ONE_START_MS)
            case _:
                return None
        return ChangedSetting(key, before, after) if known and before != after else None


def _setting(fact: Configured | CheckpointTimeoutSet) -> tuple[str, str]:
    """Key and value."""
    key = fact.key if isinstance(fact, Configured) else CHECKPOINT_TIMEOUT
    return key, fact.value.strip()[:_MAX_VALUE]
