"""`flinkwatch feedback` prints what people answered to incidents in Slack."""

from collections.abc import Iterable
from pathlib import Path

import click

from detectors.values.decoding import UndecodableError
from sinks.contract.feedback import Feedback, decode_feedback
from streaming.cli.incidents import known_incidents
from streaming.cli.options import asking, config_option, json_option, settings_of, timeout_option
from streaming.terminal import UTC_CLOCK, echo, echo_json

_WORDS = {"acknowledged": "acknowledged", "not_an_incident": "not an incident"}


@click.command(short_help="Print what people answered to messages.")
@config_option
@click.option("--kind", default="", help="Print only answers to incidents of this kind, such as restart_loop.")
@json_option
@timeout_option
def feedback(config_file: Path | None, kind: str, as_json: bool, timeout: int) -> None:
    """Print acknowledgements and incidents marked as not an incident, oldest first.

    An incident that people marked as not an incident is an example of healthy history: `flinkwatch capture` its time,
    and `flinkwatch tune` shows which thresholds would not have reported it.
    """
    settings = settings_of(config_file)
    kafka = settings.kafka
    with asking(settings, timeout):
        values = known_incidents.newest(kafka.access, kafka.topics.feedback, timeout).values()
    found = sorted(_answers(values, kind), key=lambda one: (one.at, one.incident))
    for one in found:
        if as_json:
            echo_json(one.encoded())
        else:
            echo(_line(one))
    if not found and not as_json:
        echo("No answers.")


def _answers(values: Iterable[bytes], kind: str) -> Iterable[Feedback]:
    """The answers that hold. Those of another version that cannot be read are skipped."""
    for value in values:
        try:
            one = decode_feedback(value)
        except UndecodableError:
            continue
        if not one.withdrawn and kind in ("", one.kind):
            yield one


def _line(one: Feedback) -> str:
    where = f"{one.cluster} {one.job}".strip()
    words = f": {one.words}" if one.words else ""
    return (
        f"{UTC_CLOCK.time(one.at)}  {one.incident}  {one.kind} on {where}  {_WORDS[one.answer]} by {one.person}{words}"
    )
