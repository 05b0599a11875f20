"""Errors that a person can mend: the command line prints their message alone.

UserError
├── ConfigError       streaming.settings: the file, key by key
├── PreflightError    streaming.preflight: brokers, topics, checkpoint
│   └── TopicMissingError
├── PublishedError    streaming.configuration.published: the topic of the configuration, or what it holds
├── RecordingError    streaming.replay: a file that is no recording
└── JobError          streaming.job: the query failed; its cause in one line
"""


class UserError(Exception):
    """The message says what is wrong, where, and what to do; a traceback would only hide it."""


class ConfigError(UserError):
    """The configuration cannot be used: one line per error, each with file, key and what is allowed."""


class PreflightError(UserError):
    """The job cannot start: what is missing and what to do."""


class TopicMissingError(PreflightError):
    """Kafka does not have a topic that others write: waiting for it is not flinkwatch's decision."""


class PublishedError(UserError):
    """The topic of the configuration cannot be read or written, or does not hold what is asked for."""


class RecordingError(UserError):
    """A file cannot be replayed: file and line."""


class JobError(UserError):
    """The job has failed: one line that says why."""
