"""Settings that take effect only at a start, and the warning when a file changes them."""

from collections.abc import Iterable
from pathlib import Path

import structlog

from sinks.settings import LIVE
from streaming.configuration.diff import leaves
from streaming.configuration.settings import RESTART_ONLY, Settings

log = structlog.get_logger()

_LIVE_SINKS = tuple(f"sinks.{setting}" for setting in LIVE)


def is_live(setting: str) -> bool:
    """Whether a change of a setting, such as `sinks.routing.routes`, applies without a restart."""
    section = setting.partition(".")[0]
    return section not in RESTART_ONLY or any(f"{setting}.".startswith(f"{one}.") for one in _LIVE_SINKS)


def needs_restart(running: Settings, new: Settings, sections: Iterable[str] = RESTART_ONLY) -> list[str]:
    """Keys of the settings that differ and take effect only at a start; without values, which may be secret."""
    names = tuple(sections)
    old, now = (
        {key: value for name in names for key, value in leaves(name, dumped[name])}
        for dumped in (running.model_dump(mode="json"), new.model_dump(mode="json"))
    )
    return sorted(key for key in {**old, **now} if old.get(key) != now.get(key) and not is_live(key))


def warn_ignored(path: Path, running: Settings, new: Settings, sections: Iterable[str] = RESTART_ONLY) -> None:
    """Log which changed settings are ignored until a restart."""
    if ignored := needs_restart(running, new, sections):
        log.warning("changed settings are ignored until a restart", file=str(path), settings=ignored)
