"""The sentence about an incident's silence."""

from detectors.incident import Transition
from sinks.contract.wording import moment


def silence_words(transition: Transition) -> str:
    """Until when it is silenced, by whom and why, or that it no longer is; empty without a silence. Not escaped."""
    now, before = transition.silence, transition.silenced_before
    if transition.transition == "resolved":
        return ""
    if now is not None:
        return f"Silenced until {moment(now.until)} by {now.author}: {now.comment}"
    if before is not None:
        opened = moment(transition.opened_at or transition.at)
        return f"The silence by {before.author} ended, the incident has been open since {opened}: {before.comment}"
    return ""
