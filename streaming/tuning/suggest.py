"""Thresholds at which healthy history stays silent and recorded incidents are still found: `flinkwatch tune --suggest`.

What is suggested has been replayed: each row by its own trial, and the overrides once more together.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from detectors.settings.live import LiveSettings
from detectors.settings.overrides import Override
from streaming.configuration.settings import Settings
from streaming.tuning.events import DecodedRecording
from streaming.tuning.incidents import paired
from streaming.tuning.threshold import Threshold, Written, thresholds
from streaming.tuning.trial import Scope, Suggestion, Trial, alone, incidents_of


class Suggestions(msgspec.Struct):
    """All suggestions, the overrides they make, and what a replay under these said."""

    suggestions: list[Suggestion]
    overrides: list[Override]
    alarms: int
    found: int
    incidents: int


def suggest(
    files: Iterable[Path],
    healthy: Iterable[Path],
    settings: Settings,
    kinds: Iterable[str],
    progress: Callable[[str], None] = lambda _: None,
) -> Suggestions:
    """Suggestions for `kinds` under the configuration of `settings`. Raises RecordingError."""
    progress("reading")
    kept = DecodedRecording(files, settings), DecodedRecording(healthy, settings)
    made = Suggestions([], [], 0, 0, 0)
    chosen: dict[Scope, dict[str, dict[str, Written]]] = {}
    for kind in kinds:
        trial = Trial(kind, settings.live, kept, progress)
        rows = [trial.row(t, scope) for scope in trial.scopes() for t in thresholds(kind)]
        for scope in trial.scopes():
            best = _best([r for r in rows if (r.cluster, r.job) == scope])
            if best is not None and best.suggested is not None:
                best.chosen = True
                chosen.setdefault(scope, {})[kind] = {best.setting: best.suggested}
        made.suggestions += rows
    made.overrides = [_override(scope, blocks) for scope, blocks in sorted(chosen.items())]
    for kind in sorted({r.kind for r in made.suggestions}):
        _prove(kind, settings.live, kept, made)
    return made


def _prove(kind: str, live: LiveSettings, kept: tuple[DecodedRecording, DecodedRecording], made: Suggestions) -> None:
    """Replay under the overrides, and count the incidents that are found, and the alarms on healthy history."""
    before, after = (alone(kind, live, own) for own in ((), made.overrides))
    for stream in range(len(kept[0])):
        old, new = (incidents_of(one, kept[0], stream) for one in (before, after))
        made.incidents += len(old)
        made.found += len(list(paired(old, new)))
    made.alarms += sum(len(incidents_of(after, kept[1], stream)) for stream in range(len(kept[1])))


def _override(scope: Scope, blocks: dict[str, dict[str, Written]]) -> Override:
    names = {"cluster": _exactly(scope[0])} | ({"job": _exactly(scope[1])} if scope[1] else {})
    return Override.model_validate({**names, "detectors": blocks})


def _exactly(name: str) -> str:
    return f"~\\Q{name}\\E" if name.startswith("~") else name


def _best(rows: list[Suggestion]) -> Suggestion | None:
    """Of the thresholds of a kind the one with most room, and of equal ones the one that changes least.

    One is enough, and only one at a time has been tried.
    """
    changed = [r for r in rows if r.suggested is not None and r.suggested != r.current]
    return max(changed, key=lambda r: (_room(r), -_change(r)), default=None)


def _room(row: Suggestion) -> float:
    return round(min(m for m in (row.margin_healthy, row.margin_incidents, 1e9) if m), 1)


def _change(row: Suggestion) -> float:
    threshold = Threshold(row.kind, row.setting)
    old, new = threshold.number(row.current), threshold.number(row.suggested or row.current)
    return max(old, new) / min(old, new)
