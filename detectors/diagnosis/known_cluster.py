"""What the readings say of a cluster's set-up: its version, the settings that it printed, its checkpoints."""

from collections.abc import Iterable

import msgspec

from detectors.incident import Reading
from detectors.values.durations import flink_duration

_MS = 1_000


class KnownCluster(msgspec.Struct):
    """One cluster. `usual` are the usual durations of its jobs' checkpoints in ms, `sizes` their sizes in bytes.

    `busy_gc` is the largest share of time that one of its TaskManagers spends in garbage collection, 0 to 1.
    """

    name: str
    version: str = ""
    settings: dict[str, str] = {}
    usual: dict[str, int] = {}
    sizes: dict[str, int] = {}
    busy_gc: float = 0.0

    @property
    def printed(self) -> bool:
        """Whether its settings were read, so that one that is absent has its default."""
        return bool(self.settings)

    def setting(self, *keys: str) -> str:
        """The value of the first of these keys that is set; empty if none is."""
        return next((self.settings[key] for key in keys if key in self.settings), "")

    def duration(self, key: str) -> int:
        """A setting in ms, 0 if it is not set or not a duration."""
        return flink_duration(self.settings.get(key, ""))

    def longest(self) -> tuple[str, int]:
        """The job whose checkpoints usually take longest, and how long in ms."""
        return max(self.usual.items(), key=lambda item: (item[1], item[0]), default=("", 0))

    def largest(self) -> tuple[str, int]:
        """The job with the largest checkpoints, and their size in bytes."""
        return max(self.sizes.items(), key=lambda item: (item[1], item[0]), default=("", 0))


def known_clusters(readings: Iterable[Reading]) -> dict[str, KnownCluster]:
    """Every cluster that the newest readings name."""
    found: dict[str, KnownCluster] = {}
    newest = {reading.key(): reading for reading in sorted(readings, key=lambda r: r.at)}
    for reading in sorted(newest.values(), key=lambda r: r.at):
        labels = reading.labels
        if name := labels.get("cluster"):
            _take(found.setdefault(name, KnownCluster(name)), reading.name, labels, reading.value)
    return found


def _take(cluster: KnownCluster, name: str, labels: dict[str, str], value: float) -> None:
    match name:
        case "flink_info":
            cluster.version = labels.get("version", "")
        case "flink_setting_info":
            cluster.settings[labels.get("key", "")] = labels.get("value", "")
        case "checkpoint_size_bytes":
            cluster.sizes[labels.get("job", "")] = round(value)
        case "checkpoint_duration_usual_seconds":
            cluster.usual[labels.get("job", "")] = round(value * _MS)
        case "gc_time_ratio":
            cluster.busy_gc = max(cluster.busy_gc, value)
