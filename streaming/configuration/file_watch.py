"""The configuration file of `flinkwatch run`, published at start and whenever a person changes it.

The newest change wins, wherever it comes from: what `config apply` or `config rollback` published stays in force until
the file says something else than it last did.
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
# What the kernel does not tell of: network file systems, a directory that was replaced.
_LOOK_EVERY_MS = 2_000


def publish_file(topic: ConfigTopic, live: LiveSettings, by: str) -> PublishedConfiguration:
    """Publish what a file says, if it says something else than the file last did; what is in force afterwards.

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
    """Publishes a file again and again; `running` are the settings with which the job started."""

    def __init__(
        self,
        path: Path,
        topic: ConfigTopic,
        running: Settings,
        by: str,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self.path = path
        self._topic = topic
        self._running = running
        self._by = by
        self._environment = environment

    def reload(self, content: bytes) -> PublishedConfiguration:
        """Publish what the file holds now; what is in force afterwards. Raises ConfigError, PublishedError.

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
    """Reloads the file whenever it holds something new, in a thread of its own; `told` hears how it went.

    What it holds at the start is looked at as well.
    Its directory is watched, since editors and ConfigMaps put another file in its place.
    """

    def __init__(self, file: ConfigFile, told: Callable[[bool], None]) -> None:
        super().__init__("configuration file", ends_within_s=5.0)
        self._file = file
        self._told = told
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
                # The directory is missing, for a moment or for good.
                log.debug("directory of the configuration file not watched", error=str(error))
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
        # At the end of the process a file that is still written to may be half of one.
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
            log.info("configuration file read", file=str(self._file.path), in_force=published.hash)
            self._told(True)
        self._seen, self._unpublished = content, ""

    def _settled(self) -> bytes | None:
        """What the file holds once nobody writes to it; None while it is missing."""
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
                # What comes back is read, also when it is what was there before.
                self._seen = None
            return None
        self._missing_since = 0.0
        return content

    def _refused(self, error: str) -> None:
        log.warning("configuration file refused, the last good one stays in force", error=error)
        self._told(False)

    def _not_published(self, error: str) -> None:
        """The file is read again at the next look; said once."""
        if error != self._unpublished:
            log.warning("configuration file not published, trying again", error=error)
            self._told(False)
        self._unpublished = error
