"""The incident store: incidents, their transitions and notifications in a temporary SQLite file.

The topics are the truth and the file is filled from them at each start, so it needs neither migration nor backup. One
thread writes; each reader has a connection of its own and sees the state after the last commit.
"""

import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from detectors.incident import SEVERITIES, Transition
from sinks.web.site.documents import LoggedNotification
from sinks.web.site.private_folder import private_folder

_SCHEMA = """
CREATE TABLE incidents (
    incident TEXT PRIMARY KEY, cluster TEXT, job TEXT, kind TEXT, severity INTEGER, state TEXT, summary TEXT,
    since INTEGER, opened_at INTEGER, changed_at INTEGER, ended_at INTEGER, seq INTEGER, silenced INTEGER, part_of TEXT
) WITHOUT ROWID;
CREATE INDEX by_end ON incidents (ended_at);
CREATE TABLE transitions (number INTEGER PRIMARY KEY, incident TEXT, seq INTEGER, body BLOB, UNIQUE (incident, seq));
CREATE TABLE notifications (
    incident TEXT, receiver TEXT, seq INTEGER, state TEXT, at INTEGER, reason TEXT, PRIMARY KEY (incident, receiver)
) WITHOUT ROWID;
"""
_PAGE_BYTES = 4096
# What connections keep of the file in memory, in kB.
_WRITER_CACHE_KB, _READER_CACHE_KB = 2_048, 512
_WAIT_S = 5.0
# A transition is about 2 kB when compressed; after fifty changes an incident is updated at ever longer intervals.
MOST_TRANSITIONS = 500
MOST_INCIDENTS = 50_000
_NAME, _TEXT = 1_000, 2_000
_WHOLE = 1 << 53


class IncidentStore:
    """`most_bytes` bounds the file, and half of it the transitions. `folder` is where the file is made, by default
    that of temporary files. Every method raises sqlite3.Error if the file fails, or if the store is not open.
    """

    def __init__(
        self,
        retention_ms: int,
        *,
        most_bytes: int = 1 << 30,
        folder: Path | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._retention_ms = retention_ms
        self._most_bytes = most_bytes
        self._parent = folder
        self._wall = wall
        self._written = 0
        self._exits = ExitStack()
        self._path: Path | None = None
        self._opened: sqlite3.Connection | None = None

    def open(self) -> None:
        """Begin with an empty file, unless one is open. Raises OSError if it cannot be made."""
        if self._opened is not None:
            return
        try:
            folder = self._exits.enter_context(private_folder(self._parent))
            self._path = folder / "incidents.sqlite"
            self._opened = self._exits.enter_context(closing(_connect(self._path, self._most_bytes)))
            self._opened.executescript(_SCHEMA)
        except BaseException:
            self.close()
            raise
        self._written = 0

    def close(self) -> None:
        """Remove the file. The next `open` makes an empty one."""
        self._path = self._opened = None
        self._exits.close()

    @property
    def _writer(self) -> sqlite3.Connection:
        if self._opened is None:
            raise sqlite3.OperationalError("the incident store is not open")
        return self._opened

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection that cannot write and that sees one state of the file throughout."""
        path = self._path
        if path is None:
            raise sqlite3.OperationalError("the incident store is not open")
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=_WAIT_S)) as connection:
            connection.execute(f"PRAGMA cache_size=-{_READER_CACHE_KB}")
            connection.execute("BEGIN")
            yield connection

    def add(self, transition: Transition, body: bytes) -> None:
        """The newest transition of an incident; `body` is its record. `commit` makes it visible."""
        one = transition
        since = min((finding.since for finding in one.findings), default=one.opened_at or one.at)
        resolved = one.transition == "resolved"
        self._writer.execute(
            f"INSERT OR REPLACE INTO incidents VALUES ({','.join('?' * 14)})",  # noqa: S608 - only question marks
            (
                one.incident[:_NAME],
                one.cluster[:_NAME],
                (one.job_name or one.job_id)[:_NAME],
                one.cause[:_NAME],
                SEVERITIES.index(one.severity),
                "resolved" if resolved else "stale" if one.transition == "stale" else "open",
                one.summary[:_TEXT],
                _whole(since),
                _whole(one.opened_at or one.at),
                _whole(one.at),
                _whole(one.ended_at or one.at) if resolved else None,
                _whole(one.seq),
                _whole(one.silence.until) if one.silence is not None else 0,
                one.part_of[:_NAME],
            ),
        )
        self._writer.execute(
            "INSERT OR REPLACE INTO transitions (incident, seq, body) VALUES (?, ?, ?)",
            (one.incident[:_NAME], _whole(one.seq), packed := zlib.compress(body, 1)),
        )
        self._written += len(packed)
        if one.seq > MOST_TRANSITIONS:
            # The first one stays: it says how the incident began.
            span = (one.incident[:_NAME], 2, _whole(one.seq) - MOST_TRANSITIONS + 1)
            self._writer.execute("DELETE FROM transitions WHERE incident = ? AND seq BETWEEN ? AND ?", span)

    def remove(self, incident: str) -> None:
        """Its record was deleted from the topic."""
        for table in ("incidents", "transitions", "notifications"):
            self._writer.execute(f"DELETE FROM {table} WHERE incident = ?", (incident,))  # noqa: S608  # nosec B608

    def notified(self, sent: LoggedNotification) -> None:
        row = (sent.incident[:_NAME], sent.receiver[:_NAME], _whole(sent.seq), sent.state, _whole(sent.at))
        self._writer.execute(
            "INSERT OR REPLACE INTO notifications VALUES (?, ?, ?, ?, ?, ?)", (*row, sent.reason[:_TEXT])
        )

    def not_notified(self, key: str) -> None:
        """The entry with this key, which is receiver/incident, was removed from the notification log."""
        # Either name may contain a slash.
        pairs = [(key[:at], key[at + 1 :]) for at, character in enumerate(key[:_NAME]) if character == "/"]
        self._writer.executemany("DELETE FROM notifications WHERE receiver = ? AND incident = ?", pairs)

    def commit(self) -> None:
        self._writer.commit()

    def prune(self) -> None:
        """Remove what the bounds do not permit: the incidents that ended first, and the oldest transitions, but for the
        newest of each incident.
        """
        before = int(self._wall() * 1000) - self._retention_ms
        ended = self._writer.execute("DELETE FROM incidents WHERE ended_at < ?", (before,)).rowcount
        (count,) = self._writer.execute("SELECT count(*) FROM incidents").fetchone()
        if count > MOST_INCIDENTS:
            self._writer.execute(
                "DELETE FROM incidents WHERE incident IN "
                "(SELECT incident FROM incidents ORDER BY ended_at IS NULL, ended_at, changed_at LIMIT ?)",
                (count - MOST_INCIDENTS,),
            )
        if ended or count > MOST_INCIDENTS:
            self._writer.execute("DELETE FROM transitions WHERE incident NOT IN (SELECT incident FROM incidents)")
        # Newer entries of unknown incidents stay: the two topics are read side by side.
        self._writer.execute(
            "DELETE FROM notifications WHERE at < ? AND incident NOT IN (SELECT incident FROM incidents)", (before,)
        )
        if self._written > self._most_bytes // 2:
            self._bound_transitions()
        self._writer.commit()

    def _bound_transitions(self) -> None:
        """Keep about half of what the transitions may take, so that this is rare."""
        count, size = self._writer.execute(
            "SELECT count(*), coalesce(sum(length(body)), 0) FROM transitions"
        ).fetchone()
        if size > self._most_bytes // 2:
            self._writer.execute(
                "DELETE FROM transitions WHERE number IN (SELECT number FROM transitions ORDER BY number LIMIT ?) "
                "AND seq <> (SELECT seq FROM incidents WHERE incidents.incident = transitions.incident)",
                (count - count * self._most_bytes // (4 * size),),
            )
            (size,) = self._writer.execute("SELECT coalesce(sum(length(body)), 0) FROM transitions").fetchone()
        self._written = size


def _connect(path: Path, most_bytes: int) -> sqlite3.Connection:
    made = sqlite3.connect(path, timeout=_WAIT_S, check_same_thread=False)
    # Without WAL readers and the writer would wait for each other. After a crash, the file is made again.
    for pragma in ("journal_mode=WAL", "synchronous=OFF", f"cache_size=-{_WRITER_CACHE_KB}"):
        made.execute(f"PRAGMA {pragma}")
    made.execute(f"PRAGMA max_page_count={max(most_bytes // _PAGE_BYTES, 100)}")
    return made


def _whole(number: int) -> int:
    """The number, within the bounds of JavaScript's: what a column and every reader of JSON can hold."""
    return max(-_WHOLE, min(number, _WHOLE))
