"""Flink's log vocabulary: what a line means, whatever version wrote it.

One `Wording` per way a meaning has been written since Flink 1.4. `anchor` is a literal piece that stands in every
line of the wording (and in its JSON-escaped form: letters, digits, blanks and dots only), so that a record can be
passed over without being decoded. Loggers and levels are not part of it: both changed too often.

Sources: the log calls in the Flink release jars 1.4.2 to 2.3.0; `since` and `until` are the versions they were read in.
"""

import re

import msgspec

# Bounded: a longer number is no Flink's, and would not fit into 64 bits.
_N = r"\d{1,18}"
_JOB = r"(?P<job>[0-9a-f]{32})"
_ATTEMPT = r"(?P<attempt>[0-9a-f]{32}(?:_[0-9a-f]{32}_\d+_\d+)?)"
_TASK = rf"(?P<task>.+?) \((?P<subtask>{_N})/(?P<parallelism>{_N})\)(?:#\d+)?"
_AT = r"(?P<tm>\S+) @ (?P<host>\S+)"


class Wording(msgspec.Struct, frozen=True):
    """One wording of one meaning. `pattern` is matched at the start of the message unless `anywhere`."""

    meaning: str
    anchor: str
    pattern: str
    since: str = "1.4"
    until: str = ""
    anywhere: bool = False


WORDINGS: tuple[Wording, ...] = (
    # Checkpoints, as the JobManager's CheckpointCoordinator tells them
    Wording(
        "checkpoint_triggered",
        "Triggering checkpoint ",
        rf"Triggering checkpoint (?P<checkpoint>{_N}) (?:\(type=(?P<type>.+)\) )?@ (?P<epoch>{_N})(?: for job {_JOB})?",
    ),
    Wording(
        "checkpoint_completed",
        "Completed checkpoint ",
        rf"Completed checkpoint (?P<checkpoint>{_N})(?: for job {_JOB})?"
        rf" \((?P<bytes>{_N}) bytes(?: in |, checkpointDuration=)(?P<duration>{_N}) ms",
    ),
    Wording(
        "checkpoint_expired",
        "expired before completing.",
        rf"Checkpoint (?P<checkpoint>{_N})(?: of job {_JOB})? expired before completing\.",
    ),
    Wording(
        "checkpoint_declined",
        "Decline checkpoint ",
        rf"Decline checkpoint (?P<checkpoint>{_N}) by task (?P<attempt>\S+?)\.?(?: of job {_JOB})?(?: at {_AT})?",
    ),
    Wording(
        "checkpoint_failed",
        "Failed to trigger or complete checkpoint ",
        rf"Failed to trigger or complete checkpoint (?P<checkpoint>{_N}) for job {_JOB}",
        since="1.14",
    ),
    Wording(
        "checkpoint_failed",
        "Discarding checkpoint ",
        rf"Discarding checkpoint (?P<checkpoint>{_N})(?: of job {_JOB}| because)",
        until="1.10",
    ),
    Wording(
        "checkpoint_acked_late",
        "Received late message for now expired checkpoint attempt ",
        rf"Received late message for now expired checkpoint attempt (?P<checkpoint>{_N}) from (?:task )?{_ATTEMPT}"
        rf" of job {_JOB}(?: at {_AT})?",
        until="1.10",
    ),
    Wording(
        "checkpoint_abort_noticed",
        "has been notified as aborted",
        rf"Checkpoint (?P<checkpoint>{_N}) has been notified as aborted, would not trigger any checkpoint\.",
        since="1.11",
    ),
    Wording(
        "checkpoints_stopped", "Stopping checkpoint coordinator", rf"Stopping checkpoint coordinator for job {_JOB}"
    ),
    Wording("job_restored", "Restoring job ", rf"Restoring job {_JOB} from", since="1.9"),
    Wording("job_restored", "Starting job ", rf"Starting job {_JOB} from savepoint"),
    Wording(
        "job_restored", "Restoring from latest valid checkpoint", r"Restoring from latest valid checkpoint", until="1.8"
    ),
    # Jobs and their tasks
    Wording(
        "job_state",
        "switched from state ",
        rf"Job (?P<name>.+) \({_JOB}\) switched from state (?P<before>[A-Z]+) to (?P<state>[A-Z]+)",
    ),
    Wording("job_ended", "terminal state ", rf"Job {_JOB} reached (?:globally )?terminal state (?P<state>[A-Z]+)"),
    Wording(
        "task_deploying",
        "Deploying ",
        rf"Deploying {_TASK} \(attempt #\d+\)(?: with attempt id {_ATTEMPT})?(?: and vertex id \S+)?"
        r" to (?:(?P<tm>\S+) @ )?(?P<host>\S+)",
    ),
    Wording(
        "task_state",
        "switched from ",
        rf"{_TASK} \({_ATTEMPT}\) switched from (?P<before>[A-Z]+) to (?P<state>[A-Z]+)(?: on {_AT})?",
    ),
    # TaskManagers, as the JobManager tells them
    Wording("tm_registered", "Registering TaskManager with ", r"Registering TaskManager with ResourceID (?P<tm>\S+)"),
    Wording(
        "tm_registered",
        "Registered TaskManager at ",
        r"Registered TaskManager at (?P<host>\S+) \((?P<address>[^)]*)\) as (?P<tm>[0-9a-f]{32})",
        until="1.8",
    ),
    Wording(
        "tm_unreachable",
        "is no longer reachable",
        r"TaskManager with id (?P<tm>\S+) is no longer reachable",
        since="1.14",
    ),
    Wording(
        "tm_timed_out",
        "heartbeat of TaskManager with id ",
        r"The heartbeat of TaskManager with id (?P<tm>\S+) +timed out",
    ),
    Wording(
        "tm_timed_out",
        "Heartbeat of TaskManager with id ",
        r"Heartbeat of TaskManager with id (?P<tm>\S+) timed out",
        until="1.13",
        anywhere=True,
    ),
    Wording(
        "tm_closed",
        "Closing TaskExecutor connection ",
        r"Closing TaskExecutor connection (?P<tm>\S+) because: (?P<reason>.*)",
    ),
    Wording(
        "tm_closed",
        "Disconnect TaskExecutor ",
        r"Disconnect TaskExecutor (?P<tm>\S+) because: (?P<reason>.*)",
        since="1.17",
    ),
    Wording(
        "tm_closed",
        "is terminated. Diagnostics",
        r"Worker (?P<tm>\S+) is terminated\. Diagnostics: (?P<reason>.*)",
        since="1.12",
    ),
    Wording(
        "tm_terminated", "Task manager akka.tcp", r"Task manager (?P<address>akka\.tcp://\S+) terminated", until="1.8"
    ),
    Wording(
        "tm_connection_closed",
        "Connection unexpectedly closed by remote task manager ",
        r"Connection unexpectedly closed by remote task manager '(?P<address>[^' ]+)(?: \[ (?P<tm>\S+) \])?",
        anywhere=True,
    ),
    Wording(
        "rpc_gated",
        "address is now gated for",
        r"Association with remote system \[(?:akka|pekko)(?:\.ssl)?\.tcp://flink@(?P<address>[^\]]+)\] has failed",
    ),
    # A process's own words
    Wording("process_signalled", "RECEIVED SIGNAL ", rf"RECEIVED SIGNAL (?P<signal>{_N})"),
    Wording("tm_started", "Starting TaskManager with ResourceID", r"Starting TaskManager with ResourceID: (?P<tm>\S+)"),
    Wording("process_version", "Starting ", r" *Starting (?P<what>.+) \(Version: (?P<version>[0-9][0-9A-Za-z.\-]*)"),
    Wording(
        "cluster_ending",
        "down with application status ",
        r"Shutting (?P<what>\S+) down with application status (?P<status>\w+)",
    ),
)

MEANINGS: frozenset[str] = frozenset(w.meaning for w in WORDINGS)

# "Starting " alone would let half of every start-up through; its wording always goes on with the version.
_GATE_INSTEAD = {"Starting ": "Version: "}
GATE: tuple[str, ...] = tuple(dict.fromkeys(_GATE_INSTEAD.get(w.anchor, w.anchor) for w in WORDINGS))
"""The literals of which every record that matters holds at least one: search them before decoding anything."""

_AT_START = [(w, re.compile(w.pattern)) for w in WORDINGS if not w.anywhere]
_ANYWHERE = [(w, re.compile(w.pattern)) for w in WORDINGS if w.anywhere]


def _first_word(pattern: str) -> str:
    word = re.match(r"[A-Za-z]+(?= )", pattern)
    return word[0] if word else ""


_Candidates = tuple[tuple[Wording, re.Pattern[str]], ...]

_NO_FIRST_WORD: _Candidates = tuple(e for e in _AT_START if not _first_word(e[0].pattern))
_BY_FIRST_WORD: dict[str, _Candidates] = {
    word: (*(e for e in _AT_START if _first_word(e[0].pattern) == word), *_NO_FIRST_WORD)
    for word in {_first_word(w.pattern) for w, _ in _AT_START} - {""}
}


def match(message: str) -> tuple[str, dict[str, str]] | None:
    """The meaning of one physical line's message and its named fields, or None when it says nothing that matters.

    >>> match("Checkpoint 6 of job e04f0bd47405a7a169914793d27ced1f expired before completing.")
    ('checkpoint_expired', {'checkpoint': '6', 'job': 'e04f0bd47405a7a169914793d27ced1f'})
    """
    for wording, pattern in _BY_FIRST_WORD.get(message[: message.find(" ")], _NO_FIRST_WORD):
        # Looking for the anchor first costs a tenth of a pattern that fails.
        if wording.anchor in message and (found := pattern.match(message)):
            return wording.meaning, _fields(found)
    return match_anywhere(message)


def match_anywhere(text: str) -> tuple[str, dict[str, str]] | None:
    """As `match`, for a line without a head: the stack of a throwable, or a continuation."""
    for wording, pattern in _ANYWHERE:
        if wording.anchor in text:
            found = pattern.search(text)
            if found:
                return wording.meaning, _fields(found)
    return None


def _fields(found: re.Match[str]) -> dict[str, str]:
    """The groups that took part; most often all of them do."""
    fields = found.groupdict()
    return {k: v for k, v in fields.items() if v is not None} if None in fields.values() else fields
