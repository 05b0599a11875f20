"""Errors that a user can fix. The command line prints only their message, without a traceback.

Errors of one module are defined in it: `RebuildError`, `CaptureError`.
"""


class UserError(Exception):
    """The message says what is wrong, where, and what to do.

    `exit_status` is 2 for wrong input, as in click, and 1 for a failure.
    """

    exit_status = 1


class ConfigError(UserError):
    """The configuration is not valid: one line per error, with file, key and allowed values."""

    exit_status = 2


class RefusedError(ConfigError):
    """A configuration is valid, but changes more incidents than its caller allows."""

    exit_status = 1


class RecordingError(UserError):
    """A file cannot be replayed; the message names file and line."""

    exit_status = 2


class ReportError(UserError):
    """There is no incident to report on, or more than one; the message names them."""


class PublishedError(UserError):
    """The configuration topic cannot be read or written, or does not contain what was requested."""


class PreflightError(UserError):
    """The job cannot start; the message says what is missing and what to do."""


class TopicMissingError(PreflightError):
    """Kafka has no topic of an input that others write. flinkwatch neither creates it nor waits for it."""


class JobError(UserError):
    """The job has failed; the message is its cause in one line."""


class RestartNeededError(UserError):
    """Something changed under the query, such as the host's clock or a topic, and only a restart of it helps."""
