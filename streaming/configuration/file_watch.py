"""The configuration file of `flinkwatch run`, published at start and whenever a person changes it.

The newest change wins, wherever it comes from: what `config apply` or `config rollback` published stays in force until
the file says something else than it last did.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec
import structlog
from watchfiles import watch

from detectors.settings.live import LiveSettings, PublishedConfiguration, publish
from streaming.configuration.restart_only import Values, fixed_values, hashes, refuse_changes
from streaming.configuration.settings import SECTIONS, validate
from streaming.configuration.topic import ConfigTopic
from streaming.configuration.yaml_document import parse_document, read_document
from streaming.errors import ConfigError, PublishedError
from streaming.threads import Background

log = structlog.get_logger()

_SETTLED_S = 0.3
_MISSING_S = 5.0
# What the kernel does not tell of: network file systems, a directory that was replaced.
_LOOK_EVERY_MS = 2_000


def publish_file(topic: ConfigTopic, live: LiveSettings, fixed: Values, by: str) -> PublishedConfiguration:
    """Publish what a file says, if it says something else than the file last did; what is in force afterwards.

    Raises PublishedError.
    """
    history = topic.history()
    last, in_force = history.from_file, history.in_force
    new = publish(live, int(time.time() * 1000), by, "file", hashes(fixed))
    if last is not None and in_force is not None and last.hash == new.hash:
        if in_force.fixed == new.fixed:
            return in_force
        # The job was restarted with other sections: the settings in force stay whose they are.
        new = msgspec.structs.replace(in_force, fixed=new.fixed)
    topic.publish(new)
    return new


class ConfigFile:
    """Publishes a file again and again: `fixed` are the settings with which the job began that cannot change."""

    def __init__(
        self, path: Path, topic: ConfigTopic, fixed: Values, by: str, environment: Mapping[str, str] = os.environ
    ) -> None:
        self.path = path
        self._topic = topic
        self._fixed = fixed
        self._by = by
        self._environment = environment

    def reload(self, content: bytes) -> PublishedConfiguration:
        """Take over what the file holds now, whole; what is in force afterwards. Raises ConfigError, PublishedError."""
        document = parse_document(str(self.path), content, SECTIONS)
        settings = validate(document, self._environment)
        refuse_changes(document, fixed_values(document, self._environment), self._fixed)
        return publish_file(self._topic, settings.live, self._fixed, self._by)


def fixed_of(path: Path | None, environment: Mapping[str, str] = os.environ) -> Values:
    """The settings of a file that cannot change while the job runs. Raises ConfigError."""
    return fixed_values(read_document(path, SECTIONS) if path else None, environment)


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
