"""The configuration in force, as the configuration topic has it: for the page of the configuration and for thresholds.

The topic has only the sections that are reloaded without a restart, so it contains neither addresses nor secrets.
"""

from collections import deque
from typing import Any, NamedTuple

from detectors.detector import DetectorConfig
from detectors.incident import Transition
from detectors.incidents.maintenance import MaintenanceWindow
from detectors.incidents.silences import Silence
from detectors.settings.live import (
    DetectorSettings,
    LiveSettings,
    PublishedConfiguration,
    PublishedSilence,
    read_change,
)
from detectors.settings.overrides import Override, matching, resolve
from detectors.values.name_pattern import NamePatterns
from detectors.values.weekly_hours import DAYS
from sinks.web.page_context import ThresholdInForce
from sinks.web.site.documents import ConfigurationChange, ConfigurationDocument, Setting, SilenceNow, WindowNow
from sinks.web.thresholds import thresholds_of

_CHANGES_SHOWN = 50
_MOST_KNOWN = 200
_PATTERNS = ("cluster", "namespace", "job")


class Effective(NamedTuple):
    """The settings of one detector for a job or cluster; `overridden` are the names that an override sets."""

    config: DetectorConfig
    written: dict[str, Any]
    overridden: frozenset[str]


class PublishedSettings:
    """What the records of the topic have added up to. One thread adds records, others read."""

    def __init__(self) -> None:
        self._changes: deque[ConfigurationChange] = deque(maxlen=_CHANGES_SHOWN)
        self._silences: dict[str, Silence] = {}
        self._published: PublishedConfiguration | None = None
        self._live = LiveSettings()
        # By the numbers of the overrides that apply; it begins empty with each configuration.
        self._known: dict[tuple[int, ...], dict[str, Effective]] = {}

    def add(self, key: bytes | None, value: bytes | None, now: int) -> None:
        """Add a record. Raises UndecodableError, and then changes nothing."""
        change = read_change(key, value)
        if isinstance(change, PublishedConfiguration):
            self._changes.append(ConfigurationChange(change.hash, change.at, change.by, change.origin))
            # A reader that still has the old settings fills the old cache.
            self._live, self._known = change.live(), {}
            self._published = change
        elif isinstance(change, PublishedSilence):
            silence = change.read()
            kept = {name: one for name, one in self._silences.items() if one.edges()[1] > now}
            self._silences = kept | {silence.id: silence}

    @property
    def hash(self) -> str:
        """The hash of the configuration in force; empty if there is none yet."""
        published = self._published
        return published.hash if published is not None else ""

    def effective(self, cluster: str, job: str) -> dict[str, Effective]:
        """The settings of all detectors for a job of a cluster, by kind. `job` is empty where there is none."""
        known, live = self._known, self._live
        chosen = tuple(matching(live.overrides, cluster, job))
        found = known.get(chosen)
        if found is None:
            if len(known) >= _MOST_KNOWN:
                known.clear()
            found = known[chosen] = _effective(live, chosen)
        return found

    def thresholds(self, transition: Transition) -> list[ThresholdInForce]:
        """The settings that decided the transition, if they are those now in force."""
        return thresholds_of(self._live, transition) if transition.config == self.hash else []

    def document(self, now: int, problem: str | None) -> ConfigurationDocument | None:
        """What is in force; None if no configuration was published yet."""
        published, live = self._published, self._live
        if published is None:
            return None
        usual = DetectorSettings().model_dump(mode="json")
        return ConfigurationDocument(
            problem=problem,
            hash=published.hash,
            at=published.at,
            by=published.by,
            origin=published.origin,
            changed=[
                Setting(f"{kind}.{name}", value, usual[kind][name])
                for kind, block in published.detectors.items()
                for name, value in block.items()
                if value != usual[kind][name]
            ],
            detectors=published.detectors,
            overrides=[_override(one) for one in live.overrides],
            silences=[_silence(one) for one in (*live.silences, *self._silences.values()) if one.edges()[1] > now],
            maintenance=sorted((_window(one, now) for one in live.maintenance), key=lambda one: one.begins),
            changes=list(self._changes)[::-1],
        )


def _effective(live: LiveSettings, chosen: tuple[int, ...]) -> dict[str, Effective]:
    found = resolve(live.detectors.model_dump(mode="json"), live.overrides, chosen)
    written = {kind: {name: one.value for name, one in block.items()} for kind, block in found.items()}
    typed = DetectorSettings.model_validate(written)
    return {
        kind: Effective(
            getattr(typed, kind),
            written[kind],
            frozenset(name for name, one in block.items() if one.override is not None),
        )
        for kind, block in found.items()
    }


def _override(one: Override) -> dict[str, Any]:
    return one.model_dump(mode="json")


def _window(one: MaintenanceWindow, now: int) -> WindowNow:
    begins, until = next(period for period in one.periods(now) if period[1] > now)
    days = "every day" if one.days == DAYS else ", ".join(one.days)
    return WindowNow(
        begins=begins,
        until=until,
        in_force=begins <= now,
        hours=f"{days} {one.begin:%H:%M} to {one.end:%H:%M} {one.time_zone}",
        comment=one.comment,
        matches=_matches(one, one.kinds),
    )


def _silence(one: Silence) -> SilenceNow:
    begins, until = one.edges()
    matches = _matches(one, one.kinds)
    return SilenceNow(id=one.id, begins=begins, until=until, author=one.author, comment=one.comment, matches=matches)


def _matches(one: NamePatterns, kinds: tuple[str, ...]) -> dict[str, str]:
    """The patterns that not every incident matches."""
    matches = {name: pattern for name in _PATTERNS if (pattern := getattr(one, name)) != "*"}
    if kinds != ("*",):
        matches["kind"] = ", ".join(kinds)
    return matches
