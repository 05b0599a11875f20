"""Renders a transition as a Slack message. A pure function, so that tests can compare it with golden files.

The message shows the person on call what is broken, where, how severe it is, what happens next and what to do. All text
from logs passes through `escape`.
"""

from detectors.incident import Transition
from sinks.contract.silence_note import silence_words
from sinks.contract.wording import clock_time
from sinks.integrations.slack.message.blocks import MESSAGE_LIMIT, Block, Message, plain_object
from sinks.integrations.slack.message.escape import plain, prose
from sinks.integrations.slack.message.links import NO_LINKS, Links
from sinks.integrations.slack.message.phrases import (
    forecast_words,
    identity,
    issue_words,
    mark,
    reason,
    recurrence,
    state,
    title,
)
from sinks.integrations.slack.message.sections import (
    advice_part,
    context_part,
    evidence_part,
    fields_part,
    forecast_part,
    known_issue_part,
    note_part,
    silence_part,
    summary_part,
    timeline_part,
)

_HEADER_LIMIT = 150
_TEXT_LIMIT = 400
_PLAIN_LIMIT = 3000
# Shares of each part's limit, tried in turn. The small ones are for texts of quotes and backslashes, which JSON
# doubles.
_SCALES = (1.0, 0.6, 0.35, 0.15)


def render(transition: Transition, links: Links = NO_LINKS, note: str = "") -> Message:
    """The message of an incident after a transition, at most MESSAGE_LIMIT characters.

    `note` is a sentence put in front, such as the reason why this is a new message and not an edit.
    """
    text = prose(f"{title(transition)} — {transition.summary}", _TEXT_LIMIT)
    for scale in _SCALES:
        message = Message(text, _blocks(transition, links, note, scale))
        if message.size() <= MESSAGE_LIMIT:
            break
    return message


def render_plain(transition: Transition) -> Message:
    """The same message without blocks, for use if Slack refuses them."""
    ended = transition.transition == "resolved"
    lines = [
        title(transition),
        silence_words(transition),
        transition.summary,
        reason(transition),
        forecast_words(transition),
    ]
    again = recurrence(transition)
    lines += [
        f"Recurring: {again}" if again else "",
        "" if ended else transition.advice,
        "" if ended else issue_words(transition),
    ]
    shown = [line for line in lines if line]
    text = "\n".join(prose(line, _PLAIN_LIMIT // len(shown)) for line in shown)
    return Message(f"{text}\n{identity(transition, 1.0)}", [])


def render_reply(transition: Transition, *, broadcast: bool = False, unsilenced: bool = False) -> Message:
    """One short line for the incident's thread: what changed, or with `unsilenced` that a silence ended.

    With `broadcast`, the line can be understood outside of the thread.
    """
    what = (unsilenced and silence_words(transition)) or reason(transition) or transition.summary
    head = title(transition) if broadcast else f"{mark(transition)} {state(transition)}"
    text = f"{head} at {clock_time(transition.at, transition.at)} UTC: {what}"
    return Message(prose(text, _TEXT_LIMIT), [])


def _blocks(transition: Transition, links: Links, note: str, scale: float) -> list[Block]:
    parts: tuple[list[Block], ...] = (
        [{"type": "header", "text": plain_object(plain(title(transition), _HEADER_LIMIT))}],
        note_part(note),
        silence_part(transition, scale),
        summary_part(transition, scale),
        fields_part(transition, scale),
        forecast_part(transition, scale),
        advice_part(transition, scale),
        known_issue_part(transition, scale),
        evidence_part(transition, scale),
        timeline_part(transition, scale),
        context_part(transition, links, scale),
    )
    return [block for part in parts for block in part]
