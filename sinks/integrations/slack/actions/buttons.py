"""The buttons of a message, the answers that it shows, and the reminder. Pure, as the rest of the message is."""

from collections.abc import Iterable
from typing import Any

from detectors.incident import Transition
from detectors.values.durations import humanize
from sinks.contract.action_request import UNTIL_RESOLVED
from sinks.contract.feedback import Mark, Marks
from sinks.contract.phrases import answers, title
from sinks.contract.wording import clock_time
from sinks.integrations.slack.message.blocks import Block, Message, mrkdwn, plain_object
from sinks.integrations.slack.message.escape import prose

ACTION_PREFIX = "flinkwatch_"
"""Begins the ID of each button; the rest is the wish."""

SILENCES = {
    "1h": "for 1 hour",
    "4h": "for 4 hours",
    "1d": "for 1 day",
    "7d": "for 7 days",
    UNTIL_RESOLVED: "until it resolves",
}
"""The silences to choose from: durations as in the configuration, and their words."""

_NAME_LIMIT, _LINE_LIMIT = 80, 400
# Slack takes 150 characters in an option, which has the choice, too. IDs of incidents have twelve.
_VALUE_LIMIT = 100


def action_blocks(transition: Transition, marks: Marks) -> list[Block]:
    """Who has answered, and while the incident is open, the buttons."""
    shown = [mrkdwn(_line(words, mark, transition.at)) for words, mark in answers(marks)]
    blocks: list[Block] = [{"type": "context", "elements": shown}] if shown else []
    if transition.transition != "resolved" and len(transition.incident) <= _VALUE_LIMIT:
        blocks.append({"type": "actions", "block_id": "flinkwatch", "elements": _buttons(transition, marks)})
    return blocks


def render_reminder(transition: Transition, remind_after: int, mention: Iterable[str]) -> Message:
    """One line for the thread and the channel, with the mentions. `remind_after` is in ms."""
    mentions = " ".join(f"<!subteam^{one}>" if one.startswith("S") else f"<@{one}>" for one in mention)
    text = f"Not acknowledged for {humanize(remind_after)}: {title(transition)} — {transition.summary}"
    return Message(f"{mentions} {prose(text, _LINE_LIMIT)}".strip(), [])


def _line(words: str, mark: Mark, now: int) -> str:
    sign = "✔" if words.startswith("Acknowledged") else "✘"
    return f"{sign} {words} {prose(mark.by, _NAME_LIMIT)} at {clock_time(mark.at, now)} UTC"


def _buttons(transition: Transition, marks: Marks) -> list[Any]:
    incident = transition.incident
    found = [] if marks.acknowledged is not None else [_button("acknowledge", "Acknowledge", incident, primary=True)]
    if transition.silence is None:
        found.append(_silences(incident))
    else:
        found.append(_button("end_silence", "End the silence", f"{incident}/{transition.silence.id}"))
    if marks.not_an_incident is None:
        found.append(_button("not_an_incident", "Not an incident", incident))
    else:
        found.append(_button("withdraw", "Undo: it is an incident", incident))
    return found


def _button(wish: str, words: str, value: str, *, primary: bool = False) -> dict[str, Any]:
    style = {"style": "primary"} if primary else {}
    return {
        "type": "button",
        "action_id": ACTION_PREFIX + wish,
        "text": plain_object(words),
        "value": value,
        **style,
    }


def _silences(incident: str) -> dict[str, Any]:
    return {
        "type": "static_select",
        "action_id": f"{ACTION_PREFIX}silence",
        "placeholder": plain_object("Silence …"),
        "options": [
            {"text": plain_object(words), "value": f"{incident}/{choice}"} for choice, words in SILENCES.items()
        ],
    }
