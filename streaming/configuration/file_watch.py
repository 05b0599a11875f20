"""The configuration file of `flinkwatch run`: published at start and whenever its content changes.

The newest change wins: a configuration published by `config apply` or `config rollback` stays in force until the
content of the file changes again.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import structlog
from watchfiles import watch

from detectors.settings.live import LiveSettings, PublishedConfiguration, publish
from streaming.configuration.diff import leaves
from streaming.configuration.settings import RESTART_ONLY, SECTIONS, Settings, validate
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
    """Publishes a file after each change; `running` are the settings with which the job started."""

    def __init__(
        self, path: Path, topic: ConfigTopic, running: Settings, by: str, environment: Mapping[str, str] = os.environ
    ) -> None:
        self.path = path
        self._topic = topic
        self._running = running
        self._by = by
        self._environment = environment

    def reload(self, content: bytes) -> PublishedConfiguration:
        """Publish the new content and return the configuration in force. Raises ConfigError, PublishedError.

        Settings that need a restart are ignored until then, with a warning in the log.
        """
        settings = validate(parse_document(str(self.path), content, SECTIONS), self._environment)
        published = publish_file(self._topic, settings.live, self._by)
        if ignored := needs_restart(self._running, settings):
            log.warning("changed settings are ignored until the job restarts", file=str(self.path), settings=ignored)
        return published


def needs_restart(running: Settings, new: Settings) -> list[str]:
    """Keys of the settings that differ and take effect only at a start; without values, which may be secret."""
    old, now = (
        {key: value for name in RESTART_ONLY for key, value in leaves(name, dumped[name])}
        for dumped in (running.model_dump(mode="json"), new.model_dump(mode="json"))
    )
    return sorted(key for key in {**old, **now} if old.get(key) != now.get(key))


class FileWatch(Background):
    """Reloads the file at the start and after each change, in a thread of its own.

    `reloaded` is called with the success of each reload. The directory is watched, since editors and ConfigMaps
    replace the file by another one.
    """

    def __init__(self, file: ConfigFile, reloaded: Callable[[bool], None]) -> None:
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
            published = self._file.reload(content)
        except PublishedError as error:
            self._not_published(str(error))
            return
        except ConfigError as error:
            self._refused(str(error))
        else:
            log.info("configuration file was read", file=str(self._file.path), in_force=published.hash)
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
