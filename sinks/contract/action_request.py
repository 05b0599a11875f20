"""What a person asks flinkwatch to do, whichever button or command it came from."""

from typing import Literal

import msgspec

Wish = Literal["acknowledge", "not_an_incident", "withdraw", "silence", "end_silence", "status"]

UNTIL_RESOLVED = "resolved"
"""The choice of a silence that ends with its incident."""


class ActionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`person` is a name and `user` the ID at Slack. `at` is when it was asked (epoch ms), and is the same if the
    request arrives twice.

    `choice` is the duration of a silence or UNTIL_RESOLVED, the ID of the silence to end, or the cluster of a status.
    """

    wish: Wish
    person: str
    user: str
    at: int
    incident: str = ""
    choice: str = ""
    words: str = ""
    message: str = ""
    """The channel and `ts` of the message with the button; empty for a command."""

    def key(self) -> tuple[str, ...]:
        """Equal for two arrivals of the same request."""
        return self.wish, self.incident, self.choice, self.user, self.message, str(self.at)


class ActionError(Exception):
    """A request that cannot be carried out; the text is for the person who asked."""
