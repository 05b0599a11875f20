"""Renders a transition as a Slack message. A pure function, so that tests can compare it with golden files.

The message shows the person on call what is broken, where, how severe it is, what happens next and what to do. All text
from logs passes through `escape`.
"""

from collections.abc import Sequence

from detectors.incident import Transition
from sinks.contract import phrases
from sinks.contract.wording import clock_time, late_words, silence_words
from sinks.integrations.slack.message.blocks import MESSAGE_LIMIT, Block, Message
from sinks.integrations.slack.message.escape import prose
from sinks.integrations.slack.message.links import NO_LINKS, Links
from sinks.integrations.slack.message.phrases import identity
from sinks.integrations.slack.message.sections import sections

_TEXT_LIMIT = 400
_PLAIN_LIMIT = 3000
# Shares of each part's limit, tried in turn. The small ones are for texts of quotes and backslashes, which JSON
# doubles.
_SCALES = (1.0, 0.6, 0.35, 0.15)


def render(transition: Transition, links: Links = NO_LINKS, note: str = "", extra: Sequence[Block] = ()) -> Message:
    """The message of an incident after a transition, at most MESSAGE_LIMIT characters.

    `note` is a sentence put in front, such as the reason why this is a new message and not an edit. `extra`
    blocks follow the sections.
    """
    text = prose(f"{phrases.title(transition)} — {transition.summary}", _TEXT_LIMIT)
    for scale in _SCALES:
        message = Message(text, [*sections(transition, links, note, scale), *extra])
        if message.size() <= MESSAGE_LIMIT:
            break
    return message


def render_plain(transition: Transition) -> Message:
    """The same message without blocks, for use if Slack refuses them."""
    lines = [
        phrases.title(transition),
        silence_words(transition),
        transition.summary,
        late_words(transition),
        phrases.reason(transition),
        *(f"Changed in Flink: {line}" for line in phrases.adjustment_lines(transition)),
        phrases.forecast_words(transition),
    ]
    if again := phrases.recurrence(transition):
        lines.append(f"Recurring: {again}")
    if transition.transition != "resolved":
        lines += [transition.advice, phrases.issue_words(transition)]
    shown = [line for line in lines if line]
    text = "\n".join(prose(line, _PLAIN_LIMIT // len(shown)) for line in shown)
    return Message(f"{text}\n{identity(transition, 1.0)}", [])


def render_reply(transition: Transition, *, broadcast: bool = False, unsilenced: bool = False) -> Message:
    """One short line for the incident's thread: what changed, or with `unsilenced` that a silence ended.

    With `broadcast`, the line can be understood outside of the thread.
    """
    what = (unsilenced and silence_words(transition)) or phrases.reason(transition) or transition.summary
    head = phrases.title(transition) if broadcast else f"{phrases.mark(transition)} {phrases.state(transition)}"
    text = f"{head} at {clock_time(transition.at, transition.at)} UTC: {what}"
    return Message(prose(text, _TEXT_LIMIT), [])
