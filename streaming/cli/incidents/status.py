"""`flinkwatch status` shows the incidents that are open now."""

import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Event

import click
import msgspec
from rich.text import Text

from detectors.incident import SEVERITIES, Transition
from detectors.values.durations import humanize
from detectors.values.name_pattern import fits
from sinks.contract.wording import kind_words
from streaming.cli import options
from streaming.cli.incidents import known_incidents
from streaming.cli.options import (
    Duration,
    asking,
    cluster_option,
    config_option,
    json_option,
    settings_of,
    timeout_option,
)
from streaming.configuration.settings import Settings
from streaming.stored_incidents import followed_transitions
from streaming.terminal import UTC_CLOCK, clear_screen, echo, echo_json, print_table

_STYLES = {"critical": "bold red", "warning": "yellow", "info": "dim"}
# Ages on the screen are at most this old.
_REDRAW_S = 10.0


@click.command()
@config_option
@cluster_option
@click.option("--since", type=Duration(), default=None, help="Also incidents resolved in this time, such as 2h or 1d.")
@click.option("--watch", is_flag=True, help="Keep running and show each change. Ctrl-C ends it.")
@json_option
@timeout_option
def status(config_file: Path | None, cluster: str, since: int | None, watch: bool, as_json: bool, timeout: int) -> None:
    """Show open incidents, the most severe first.

    They are read from the topic flinkwatch.incidents. --json prints the newest transition of each as one line, as it is
    in the topic; with --watch every further transition follows.
    """
    settings = settings_of(config_file)
    if watch:
        _watch(settings, timeout, cluster, since, as_json)
        return
    with asking(settings, timeout):
        found = known_incidents.incidents(settings.kafka, timeout)
    _show(found, cluster, since, as_json)


def _watch(settings: Settings, timeout: int, cluster: str, since: int | None, as_json: bool) -> None:
    newest: dict[str, Transition] = {}
    shown_at = 0.0
    for number, found in enumerate(followed_transitions(settings.kafka, timeout, Event())):
        newest |= {t.incident: t for t in sorted(found, key=lambda t: t.seq)}
        if as_json:
            _print_json(found if number else shown(newest.values(), cluster, since, options.now()), cluster)
        elif found or not number or (sys.stdout.isatty() and time.monotonic() - shown_at > _REDRAW_S):
            shown_at = time.monotonic()
            clear_screen()
            echo(f"{UTC_CLOCK.time(options.now())}, Ctrl-C ends")
            _show(newest.values(), cluster, since, as_json=False)


def _show(found: Iterable[Transition], cluster: str, since: int | None, as_json: bool) -> None:
    now = options.now()
    incidents = shown(found, cluster, since, now)
    if as_json:
        _print_json(incidents, cluster)
        return
    is_open = [t for t in incidents if t.transition != "resolved"]
    ended = [t for t in incidents if t.transition == "resolved"]
    if is_open:
        print_table([_row(t, now) for t in is_open], "severity", "for", "where", "what", "incident")
    echo(conclusion(is_open))
    if since is not None:
        echo(f"{len(ended) or 'No'} incident{'s' * (len(ended) != 1)} resolved in the last {humanize(since)}.")
    if ended:
        print_table([_ended_row(t) for t in ended], "severity", "resolved", "where", "what", "incident")


def shown(found: Iterable[Transition], cluster: str, since: int | None, now: int) -> list[Transition]:
    """Open incidents, the most severe and then the oldest first, and after them those resolved in the last `since` ms.

    An incident that became part of another one is neither.
    """
    own = [t for t in found if fits(cluster, t.cluster) and not t.part_of]
    is_open = [t for t in own if t.transition != "resolved"]
    ended = [t for t in own if t.transition == "resolved" and since is not None and now - _ended_at(t) <= since]
    return [
        *sorted(is_open, key=lambda t: (-SEVERITIES.index(t.severity), t.opened_at, t.incident)),
        *sorted(ended, key=lambda t: (-_ended_at(t), t.incident)),
    ]


def conclusion(is_open: list[Transition]) -> str:
    """How many incidents are open, by severity."""
    if not is_open:
        return "No open incidents."
    counts = [(s, sum(t.severity == s for t in is_open)) for s in reversed(SEVERITIES)]
    by_severity = ", ".join(f"{count} {severity}" for severity, count in counts if count)
    return f"{len(is_open)} open incident{'s' * (len(is_open) > 1)}: {by_severity}."


def _print_json(found: Iterable[Transition], cluster: str) -> None:
    for t in found:
        if fits(cluster, t.cluster):
            echo_json(msgspec.json.encode(t))
    sys.stdout.flush()


def _row(t: Transition, now: int) -> tuple[str | Text, ...]:
    since = min((f.since for f in t.findings), default=t.opened_at or t.at)
    age = "\n".join([humanize(now - since), f"since {UTC_CLOCK.time(since)}", *_state(t)])
    return Text(t.severity, _STYLES[t.severity]), age, _where(t), _what(t), t.incident


def _ended_row(t: Transition) -> tuple[str | Text, ...]:
    return Text(t.severity, "dim"), UTC_CLOCK.time(_ended_at(t)), _where(t), _what(t), t.incident


def _state(t: Transition) -> Iterator[str]:
    if t.transition == "stale":
        yield f"stale: no data since {UTC_CLOCK.time(t.at)}"
    if t.silence is not None:
        yield f"silenced until {UTC_CLOCK.time(t.silence.until)}"


def _where(t: Transition) -> str:
    return "\n".join(part for part in (t.cluster, t.job_name or t.job_id) if part)


def _what(t: Transition) -> str:
    return f"{kind_words(t.cause)}: {t.summary}"


def _ended_at(t: Transition) -> int:
    return t.ended_at or t.at
