"""The topic of the configuration in memory."""

import time
from collections.abc import Iterable

from detectors.incidents.silences import Silence
from detectors.settings.live import (
    CONFIG_KEY,
    RESOLVE_KEY,
    SILENCE_KEY,
    PublishedConfiguration,
    PublishedResolution,
    PublishedSilence,
    encode_published,
    publish_silence,
)
from streaming.configuration.topic import ConfigHistory, encode_silence
from streaming.errors import PublishedError


class MemoryTopic:
    """A ConfigTopic over a list of records; `down` as long as no broker answers."""

    name = "flinkwatch.config"

    def __init__(self, *published: PublishedConfiguration) -> None:
        self.records: list[tuple[bytes, bytes]] = [(CONFIG_KEY, encode_published(p)) for p in published]
        self.down = False

    def history(self) -> ConfigHistory:
        self._answer()
        history = ConfigHistory()
        for key, value in self.records:
            history.add(key, value)
        return history

    def publish(self, published: PublishedConfiguration) -> None:
        self._answer()
        self.records.append((CONFIG_KEY, encode_published(published)))

    def restore(self, published: PublishedConfiguration, silences: Iterable[PublishedSilence]) -> None:
        self.publish(published)
        self.records += [(SILENCE_KEY + s.read().id.encode(), encode_silence(s)) for s in silences]

    def publish_silence(self, silence: Silence, by: str) -> None:
        self._answer()
        record = publish_silence(silence, int(time.time() * 1000), by)
        self.records.append((SILENCE_KEY + silence.id.encode(), encode_silence(record)))

    def publish_resolution(self, resolution: PublishedResolution) -> None:
        self._answer()
        self.records.append((RESOLVE_KEY + resolution.last.incident.encode(), encode_silence(resolution)))

    def _answer(self) -> None:
        if self.down:
            raise PublishedError("no broker answers")

    def hashes(self) -> list[str]:
        return [p.hash for p in self.history().configurations]
