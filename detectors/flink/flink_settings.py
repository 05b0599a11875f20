"""The settings of Flink that its processes have printed at their start."""

import msgspec

from detectors.flink.facts import CheckpointTimeoutSet, Configured

_RETENTION = "execution.checkpointing.externalized-checkpoint-retention"
CHECKPOINT_TIMEOUT = "execution.checkpointing.timeout"
_MAX_VALUE = 100


class FlinkSettings(msgspec.Struct, array_like=True):
    """The value of each setting of the vocabulary that a line has shown, as Flink prints it.

    Processes of a cluster have the same configuration, or nearly: the last one that started counts.
    """

    values: dict[str, str] = {}

    def learn(self, fact: Configured | CheckpointTimeoutSet) -> None:
        """Learn a setting from its line."""
        key = fact.key if isinstance(fact, Configured) else CHECKPOINT_TIMEOUT
        self.values[key] = fact.value.strip()[:_MAX_VALUE]

    def retains_checkpoints(self) -> bool:
        """Whether checkpoints are kept if their job is cancelled. A job may set it otherwise, in its program."""
        return self.values.get(_RETENTION, "").upper() == "RETAIN_ON_CANCELLATION"
