"""Who may act, and how they are answered."""

import re
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import msgspec

from sinks.contract.action_request import ActionError
from sinks.contract.outcome import Outcome, Refused
from sinks.integrations.http_post import post_json
from sinks.integrations.slack.actions.settings import ANYONE
from sinks.integrations.slack.client import SlackClient
from sinks.integrations.slack.message.escape import prose
from sinks.integrations.slack.settings import SlackConfig

NOT_ALLOWED = (
    "You may not do this: ask the operators of flinkwatch to add you, or a user group that you are in, to "
    "sinks.slack.actions.allowed."
)
_MEMBERS_FOR_S = 300.0
_TEXT_LIMIT = 3_000
_SLACKS = re.compile(r"hooks\.slack(-gov)?\.com")


class SlackPeople:
    """Used from one thread. The members of a user group are asked for at most every five minutes."""

    def __init__(self, config: SlackConfig, client: SlackClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._config, self._client, self._clock = config, client, clock
        self._members: dict[str, tuple[float, frozenset[str]]] = {}

    def check(self, user: str) -> None:
        """Raises ActionError if a user may not act, or if Slack does not name the members of a group."""
        allowed = self._config.actions.allowed
        if ANYONE in allowed or user in allowed:
            return
        if not any(user in self._members_of(group) for group in allowed if group.startswith("S")):
            raise ActionError(NOT_ALLOWED)

    def answer(self, address: str, text: str) -> Outcome:
        """Shows one person a text in the channel where they acted."""
        if not self._is_slacks(address):
            return Refused("bad_response_url", "the address of the answer is not Slack's", "message", "clientError")
        shown = "\n".join(prose(line, _TEXT_LIMIT) for line in text[:_TEXT_LIMIT].splitlines())
        body = msgspec.json.encode({"response_type": "ephemeral", "replace_original": False, "text": shown})
        return post_json(address, body, {}, self._config.timeout / 1000)

    def _members_of(self, group: str) -> frozenset[str]:
        until, members = self._members.get(group, (0.0, frozenset[str]()))
        if self._clock() < until:
            return members
        answer = self._client.ask("usergroups.users.list", {"usergroup": group})
        if not isinstance(answer, dict):
            if group in self._members:
                return members
            raise ActionError(f"It is not known who is in the user group {group}: {answer.reason}. Try again later.")
        users = answer.get("users")
        found = frozenset(str(user) for user in users) if isinstance(users, list) else frozenset[str]()
        self._members[group] = self._clock() + _MEMBERS_FOR_S, found
        return found

    def _is_slacks(self, address: str) -> bool:
        """An answer goes to Slack alone, whatever the payload names; a stand-in answers for itself."""
        try:
            there, base = urlsplit(address), urlsplit(self._config.base_url)
            own = (there.scheme, there.hostname, there.port) == (base.scheme, base.hostname, base.port)
        except ValueError:
            return False
        return own or (there.scheme == "https" and _SLACKS.fullmatch(there.hostname or "") is not None)
