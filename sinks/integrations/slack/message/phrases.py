"""Phrases about an incident in Slack's markup. All are escaped."""

from detectors.incident import Transition
from sinks.contract.wording import kind_words
from sinks.integrations.slack.message.escape import code, prose

_NAMES_SHOWN = 3


def kind(name: str) -> str:
    """A kind as words."""
    return prose(kind_words(name), 60)


def codes(names: list[str], limit: int) -> str:
    """The first few names as code, and the number of others."""
    shown = ", ".join(f"`{code(name, limit // _NAMES_SHOWN)}`" for name in names[:_NAMES_SHOWN])
    more = len(names) - _NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def identity(transition: Transition, scale: float) -> str:
    """ID of the incident, number of the change, and hash of the configuration."""
    limit = int(100 * scale)
    config = f" · config `{code(transition.config, limit)}`" if transition.config else ""
    return f"incident `{code(transition.incident, limit)}` · change {transition.seq}{config}"
