"""The configuration for a person at a terminal."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from rich import box
from rich.table import Table
from rich.text import Text

from detectors.settings.live import LiveSettings, PublishedConfiguration
from detectors.values.durations import humanize
from streaming.configuration.diff import SettingChange, changes
from streaming.configuration.effective import EffectiveSetting, about
from streaming.configuration.silences import SilenceRow, listed
from streaming.configuration.topic import ConfigHistory
from streaming.terminal import Console, echo, echo_json

_WIDE = 200


def clock(ms: int) -> str:
    """A time in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def difference(found: Sequence[SettingChange]) -> None:
    """Keys with their values before and after."""
    if not found:
        echo("No setting changes.")
        return
    _print(_table([(c.key, c.before, c.after) for c in found], "setting", "in force", "new"))


def in_force(found: ConfigHistory, published: PublishedConfiguration, now: int) -> None:
    """What is in force: settings that are not default, overrides, silences."""
    echo(_head(published))
    live = published.live()
    usual = LiveSettings()
    detectors = changes(usual, usual.model_copy(update={"detectors": live.detectors}))
    if detectors:
        _print(_table([(c.key, c.after, c.before) for c in detectors], "setting", "value", "default"))
    else:
        echo("Every detector is at its defaults.")
    if live.overrides:
        rows = [(str(i), about(o), _said(o.detectors)) for i, o in enumerate(live.overrides)]
        _print(_table(rows, "override", "for", "settings"))
    silences(listed(found, now), now, ended=False)


def settings_for(
    found: list[EffectiveSetting], cluster: str, job: str, published: PublishedConfiguration, as_json: bool
) -> None:
    """Settings of one job or cluster that are not default."""
    origins = ["detectors" if s.override is None else f"overrides[{s.override}]" for s in found]
    if as_json:
        body = [{**s._asdict(), "from": origin} for s, origin in zip(found, origins, strict=True)]
        echo_json(msgspec.json.encode({"cluster": cluster, "job": job, "hash": published.hash, "settings": body}))
        return
    echo(_head(published))
    if not found:
        echo(f"Every setting for {cluster}/{job} is at its default.")
        return
    rows = [(s.key, s.value, s.default, origin) for s, origin in zip(found, origins, strict=True)]
    _print(_table(rows, "setting", "value", "default", "from"))


def history(found: list[PublishedConfiguration]) -> None:
    rows = []
    before = LiveSettings()
    for published in found:
        after = published.live()
        said = "\n".join(str(change) for change in changes(before, after)) or "nothing"
        rows.append((clock(published.at), published.hash, published.origin, published.by, said))
        before = after
    _print(_table(rows, "published", "hash", "origin", "by", "changes"))


def silences(found: list[SilenceRow], now: int, ended: bool = True) -> None:
    """Silences with their state; those that have ended only when asked for."""
    shown = [s for s in found if ended or s.state != "ended"]
    if not shown:
        echo("No silences.")
        return
    rows = [
        (
            s.id,
            s.state,
            s.match,
            _until(s, now),
            "" if s.mutes is None else str(s.mutes),
            f"{s.author}: {s.comment}",
            s.origin,
        )
        for s in shown
    ]
    _print(_table(rows, "silence", "state", "for", "until", "open incidents", "comment", "from"))


def _until(silence: SilenceRow, now: int) -> str:
    begins, until = (datetime.fromisoformat(t) if t else None for t in (silence.begins, silence.until))
    if until is None:
        return ""
    end = round(until.timestamp() * 1000)
    if silence.state == "pending" and begins is not None:
        return f"{clock(round(begins.timestamp() * 1000))} – {clock(end)}"
    return f"{clock(end)}, for {humanize(end - now)} more" if silence.state == "active" else clock(end)


def _head(published: PublishedConfiguration) -> str:
    return f"{published.hash}, published {clock(published.at)} by {published.by} (origin: {published.origin})"


def _said(blocks: dict[str, dict[str, Any]]) -> str:
    return "\n".join(f"{kind}.{key}: {value}" for kind, block in blocks.items() for key, value in block.items())


def _table(rows: Sequence[tuple[str, ...]], *titles: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in titles:
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _print(table: Table) -> None:
    # Whoever reads a pipe has no columns that end.
    Console(highlight=False, width=None if sys.stdout.isatty() else _WIDE).print(table)
