"""Errors that a user can fix. The command line prints only their message.

UserError
├── ConfigError       streaming.configuration.settings: the file, key by key
│   └── RefusedError  streaming.cli.config: the change is larger than allowed
├── PreflightError    streaming.job.preflight: brokers, topics, checkpoint
│   └── TopicMissingError
├── PublishedError    streaming.configuration.topic: the configuration topic or its content
├── RecordingError    streaming.recordings.replay: a file that is not a recording
├── TopicMadeAgainError  streaming.job.data_loss: an input topic was deleted and created again
├── ClockSetBackError  streaming.job.clock_set_back: the clock of the host was set back
└── JobError          streaming.job: the query failed, with its cause in one line
"""


class UserError(Exception):
    """The message says what is wrong, where, and what to do, so no traceback is printed.

    `exit_status` is 2 for wrong input, as in click, and 1 for a failure.
    """

    exit_status = 1


class ConfigError(UserError):
    """The configuration is not valid: one line per error, with file, key and allowed values."""

    exit_status = 2


class RefusedError(ConfigError):
    """A configuration is valid, but changes more incidents than its caller allows."""

    exit_status = 1


class PreflightError(UserError):
    """The job cannot start; the message says what is missing and what to do."""


class TopicMissingError(PreflightError):
    """Kafka has no topic of an input that others write. flinkwatch neither creates it nor waits for it."""


class PublishedError(UserError):
    """The configuration topic cannot be read or written, or does not contain what was requested."""


class RecordingError(UserError):
    """A file cannot be replayed; the message names file and line."""

    exit_status = 2


class JobError(UserError):
    """The job has failed; the message is its cause in one line."""


class ClockSetBackError(UserError):
    """The clock of this host was set back while the query ran; the query must be restarted."""


class TopicMadeAgainError(UserError):
    """An input topic was deleted and created again; the query must be restarted to read all of the new one."""
