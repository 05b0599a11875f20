"""The configuration file of `flinkwatch run`: published at start and whenever its content changes.

The newest change wins: a configuration published by `config apply` or `config rollback` stays in force until the
content of the file changes again.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

import structlog
from watchfiles import watch

from detectors.settings.live import LiveSettings, PublishedConfiguration, publish
from streaming.configuration.restart_only import warn_ignored
from streaming.configuration.settings import SECTIONS, Settings, validate
from streaming.configuration.sinks_file import Prepare, prepared
from streaming.configuration.topic import ConfigTopic
from streaming.configuration.yaml_document import parse_document
from streaming.errors import ConfigError, PublishedError
from streaming.threads import Background

log = structlog.get_logger()

_SETTLED_S = 0.3
_MISSING_S = 5.0
# The kernel reports no changes on network file systems, nor after a directory was replaced.
_LOOK_EVERY_MS = 2_000


def publish_file(topic: ConfigTopic, live: LiveSettings, by: str) -> PublishedConfiguration:
    """Publish the settings of a file unless it is the last published file; return the configuration in force.

    Raises PublishedError.
    """
    history = topic.history()
    last, in_force = history.from_file, history.in_force
    new = publish(live, int(time.time() * 1000), by, "file")
    if last is not None and in_force is not None and last.hash == new.hash:
        return in_force
    topic.publish(new)
    return new


class ConfigFile:
    """Publishes a file after each change; `running` are the settings with which the job started.

    `prepare` takes the routes, quiet hours and mentions, None if another process delivers.
    """

    def __init__(
        self,
        path: Path,
        topic: ConfigTopic,
        running: Settings,
        by: str,
        prepare: Prepare | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self.path = path
        self._topic = topic
        self._running = running
        self._by = by
        self._prepare = prepare
        self._environment = environment

    def reload(self, content: bytes) -> PublishedConfiguration:
        """Publish the new content and return the configuration in force. Raises ConfigError, PublishedError.

        Settings that need a restart are ignored until then, with a warning in the log.
        """
        settings = validate(parse_document(str(self.path), content, SECTIONS), self._environment)
        # Routes are checked before anything is published, so that a file applies as a whole or not at all.
        put_in_force = None if self._prepare is None else prepared(self._prepare, settings.sinks, self.path)
        published = publish_file(self._topic, settings.live, self._by)
        if put_in_force is not None:
            put_in_force()
        warn_ignored(self.path, self._running, settings)
        return published


class WatchedFile(Protocol):
    """A file and what its content changes. `reload` raises ConfigError, or PublishedError if Kafka does not answer."""

    path: Path

    def reload(self, content: bytes) -> object: ...


class FileWatch(Background):
    """Reloads the file at the start and after each change, in a thread of its own.

    `reloaded` is called with the success of each reload. The directory is watched, since editors and ConfigMaps
    replace the file by another one.
    """

    def __init__(self, file: WatchedFile, reloaded: Callable[[bool], None]) -> None:
        super().__init__("configuration file", ends_within_s=5.0)
        self._file = file
        self._reloaded = reloaded
        self._seen: bytes | None = None
        self._missing_since = 0.0
        self._unpublished = ""

    def _run(self) -> None:
        self._look()
        while not self._stop.is_set():
            try:
                for _ in self._changes():
                    self._look()
            except (OSError, RuntimeError) as error:
                # The directory may be missing only for a moment.
                log.debug("cannot watch the directory of the configuration file", error=str(error))
                self._stop.wait(_SETTLED_S)
                self._look()

    def _changes(self) -> Iterator[object]:
        return watch(
            self._file.path.parent,
            watch_filter=None,
            recursive=False,
            step=100,
            stop_event=self._stop,
            rust_timeout=_LOOK_EVERY_MS,
            yield_on_timeout=True,
            raise_interrupt=False,
        )

    def _look(self) -> None:
        content = self._settled()
        # When the process stops, the file may still be half written.
        if content is None or content == self._seen or self._stop.is_set():
            return
        try:
            self._file.reload(content)
        except PublishedError as error:
            self._not_published(str(error))
            return
        except ConfigError as error:
            self._refused(str(error))
        else:
            log.info("configuration file was read", file=str(self._file.path))
            self._reloaded(True)
        self._seen, self._unpublished = content, ""

    def _settled(self) -> bytes | None:
        """The content of the file once it no longer changes; None while the file is missing."""
        before = self._read()
        while before != self._seen and not self._stop.wait(_SETTLED_S) and (now := self._read()) != before:
            before = now
        return before

    def _read(self) -> bytes | None:
        try:
            content = self._file.path.read_bytes()
        except OSError as error:
            now = time.monotonic()
            self._missing_since = self._missing_since or now
            if now - self._missing_since > _MISSING_S and self._seen is not None:
                self._refused(f"{self._file.path}: {error.strerror}")
                # When the file exists again, it is read even if its content is the same.
                self._seen = None
            return None
        self._missing_since = 0.0
        return content

    def _refused(self, error: str) -> None:
        log.warning("configuration file is not valid, the last valid configuration stays in force", error=error)
        self._reloaded(False)

    def _not_published(self, error: str) -> None:
        """Warn once; the file is read again at the next check."""
        if error != self._unpublished:
            log.warning(
                "changed configuration file could not be written to Kafka, trying again; the last one stays in force",
                error=error,
            )
            self._reloaded(False)
        self._unpublished = error
