"""Log lines of Kafka source readers in TaskManagers."""

from detectors.events.vocabulary.pattern import LogPattern, N

PATTERNS: tuple[LogPattern, ...] = (
    # From the reader if commit.offsets.on.checkpoint is false, from the builder if no group.id is set
    LogPattern("offset_commit_disabled", "Offset commit on checkpoint is disabled", since="1.12"),
    LogPattern(
        "offset_commit_failed", rf"Failed to commit consumer offsets for checkpoint (?P<checkpoint>{N})", since="1.12"
    ),
)
