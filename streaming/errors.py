"""Errors that a person can mend: the command line prints their message alone.

UserError
├── ConfigError       streaming.configuration.settings: the file, key by key
│   └── RefusedError  streaming.cli.config: it changes more than is allowed
├── PreflightError    streaming.job.preflight: brokers, topics, checkpoint
│   └── TopicMissingError
├── PublishedError    streaming.configuration.topic: the topic of the configuration, or what it holds
├── RecordingError    streaming.recordings.replay: a file that is no recording
├── TopicMadeAgainError  streaming.job.data_loss: the query reads a topic that is no longer the one it began with
└── JobError          streaming.job: the query failed; its cause in one line
"""


class UserError(Exception):
    """The message says what is wrong, where, and what to do; a traceback would only hide it.

    `exit_status` is 2 for what was typed or written wrongly, as click has it, and 1 for what failed.
    """

    exit_status = 1


class ConfigError(UserError):
    """The configuration cannot be used: one line per error, each with file, key and what is allowed."""

    exit_status = 2


class RefusedError(ConfigError):
    """A configuration is valid, and changes more than its caller allows."""

    exit_status = 1


class PreflightError(UserError):
    """The job cannot start: what is missing and what to do."""


class TopicMissingError(PreflightError):
    """Kafka does not have a topic that others write: waiting for it is not flinkwatch's decision."""


class PublishedError(UserError):
    """The topic of the configuration cannot be read or written, or does not hold what is asked for."""


class RecordingError(UserError):
    """A file cannot be replayed: file and line."""

    exit_status = 2


class JobError(UserError):
    """The job has failed: one line that says why."""


class ClockSetBackError(UserError):
    """The clock of this host was set back under the query, which has to be started again."""


class TopicMadeAgainError(UserError):
    """An input topic was deleted and made again under the query, which must start again to read the new one whole."""
