"""Sources, as their readers tell them in the TaskManagers' logs."""

from detectors.events.vocabulary.pattern import LogPattern, N

WORDINGS: tuple[LogPattern, ...] = (
    # By the reader where commit.offsets.on.checkpoint is off, by the builder where no group.id is set
    LogPattern(
        "offset_commit_disabled",
        "Offset commit on checkpoint is disabled",
        r"Offset commit on checkpoint is disabled",
        since="1.12",
    ),
    LogPattern(
        "offset_commit_failed",
        "Failed to commit consumer offsets",
        rf"Failed to commit consumer offsets for checkpoint (?P<checkpoint>{N})",
        since="1.12",
    ),
)
