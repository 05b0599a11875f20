"""Tables that show the configuration on a terminal."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from detectors.settings.live import LiveSettings, PublishedConfiguration
from detectors.values.durations import humanize
from streaming.configuration.diff import SettingChange, changes
from streaming.configuration.effective import EffectiveSetting, about
from streaming.configuration.silences import SilenceRow, listed
from streaming.configuration.topic import ConfigHistory
from streaming.terminal import UTC_CLOCK, echo, echo_json, print_table


def difference(found: Sequence[SettingChange]) -> None:
    if not found:
        echo("No setting changes.")
        return
    print_table([(c.key, c.before, c.after) for c in found], "setting", "in force", "new")


def in_force(found: ConfigHistory, published: PublishedConfiguration, now: int) -> None:
    echo(_head(published))
    live = published.live()
    usual = LiveSettings()
    detectors = changes(usual, usual.model_copy(update={"detectors": live.detectors}))
    if detectors:
        print_table([(c.key, c.after, c.before) for c in detectors], "setting", "value", "default")
    else:
        echo("Every detector is at its defaults.")
    if live.overrides:
        rows = [(str(i), about(o), _settings_text(o.detectors)) for i, o in enumerate(live.overrides)]
        print_table(rows, "override", "for", "settings")
    silences(listed(found, now), now, ended=False)


def settings_for(
    found: list[EffectiveSetting], cluster: str, job: str, published: PublishedConfiguration, as_json: bool
) -> None:
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
    print_table(rows, "setting", "value", "default", "from")


def history(found: list[PublishedConfiguration]) -> None:
    rows = []
    before = LiveSettings()
    for published in found:
        after = published.live()
        text = "\n".join(str(change) for change in changes(before, after)) or "nothing"
        rows.append((UTC_CLOCK.time(published.at), published.hash, published.origin, published.by, text))
        before = after
    print_table(rows, "published", "hash", "origin", "by", "changes")


def silences(found: list[SilenceRow], now: int, ended: bool = True) -> None:
    """Silences with their state; expired ones only if `ended`."""
    shown = [s for s in found if ended or s.state != "ended"]
    if not shown:
        echo("No silences.")
        return
    mutes = ["" if s.mutes is None else str(s.mutes) for s in shown]
    rows = [
        (s.id, s.state, s.match, _until(s, now), count, f"{s.author}: {s.comment}", s.origin)
        for s, count in zip(shown, mutes, strict=True)
    ]
    print_table(rows, "silence", "state", "for", "until", "open incidents", "comment", "from")


def _until(silence: SilenceRow, now: int) -> str:
    begins, end = _ms(silence.begins), _ms(silence.until)
    if silence.state == "pending":
        return f"{UTC_CLOCK.time(begins)} – {UTC_CLOCK.time(end)}"
    return UTC_CLOCK.time(end) + (f", {humanize(end - now)} left" if silence.state == "active" else "")


def _ms(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp() * 1000) if time else 0


def _head(published: PublishedConfiguration) -> str:
    return f"{published.hash}, published {UTC_CLOCK.time(published.at)} by {published.by} (origin: {published.origin})"


def _settings_text(blocks: dict[str, dict[str, Any]]) -> str:
    return "\n".join(f"{kind}.{key}: {value}" for kind, block in blocks.items() for key, value in block.items())
