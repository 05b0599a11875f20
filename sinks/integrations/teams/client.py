"""Calls the Bot Connector service and classifies the responses. It does not format messages, retry later, or wait."""

from http import HTTPStatus
from urllib.parse import quote

import msgspec

from sinks.contract.outcome import Delivered, Outcome, Refused, RetryAfter, Unknown
from sinks.integrations.http_post import Response, request
from sinks.integrations.teams.elements import Element
from sinks.integrations.teams.errors import classify_refusal
from sinks.integrations.teams.settings import TeamsConfig
from sinks.integrations.teams.token import BotToken


class _Resource(msgspec.Struct):
    id: str = ""


class TeamsClient:
    """Posts and edits messages in one conversation. Used from one thread."""

    def __init__(self, config: TeamsConfig, token: BotToken) -> None:
        self._config = config
        self._token = token

    def post(self, activity: Element) -> Outcome:
        return self._post(self._config.conversation, activity)

    def reply(self, conversation: str, root: str, activity: Element) -> Outcome:
        """Post in the thread of the message `root`."""
        return self._post(f"{conversation};messageid={root}", activity)

    def edit(self, conversation: str, message: str, activity: Element) -> Outcome:
        """Replace the content of a message. Doing it twice changes nothing."""
        answer = self._call("PUT", f"{_path(conversation)}/{quote(message, safe='')}", activity)
        if not isinstance(answer, Response):
            return answer
        return Delivered(conversation, message) if answer.ok else classify_refusal(answer, edited=True)

    def _post(self, conversation: str, activity: Element) -> Outcome:
        answer = self._call("POST", _path(conversation), activity)
        if not isinstance(answer, Response):
            return answer
        if not answer.ok:
            return classify_refusal(answer, edited=False)
        try:
            message = msgspec.json.decode(answer.body, type=_Resource).id
        except (msgspec.DecodeError, UnicodeDecodeError):
            message = ""
        return Delivered(conversation, message) if message else Unknown("accepted without an ID", "other")

    def _call(self, method: str, path: str, activity: Element) -> Response | RetryAfter | Unknown | Refused:
        """One call; a second one with another token if Teams does not accept the token that is kept."""
        answer = self._call_once(method, path, activity)
        if isinstance(answer, Response) and answer.status == HTTPStatus.UNAUTHORIZED:
            self._token.forget()
            return self._call_once(method, path, activity)
        return answer

    def _call_once(self, method: str, path: str, activity: Element) -> Response | RetryAfter | Unknown | Refused:
        token = self._token.get()
        if isinstance(token, RetryAfter | Refused):
            return token
        # Without the character set, Teams shows no emoji.
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json; charset=utf-8"}
        url = f"{self._config.service_url.rstrip('/')}/{path}"
        return request(method, url, msgspec.json.encode(activity), headers, self._config.timeout / 1000)


def _path(conversation: str) -> str:
    return f"v3/conversations/{quote(conversation, safe='')}/activities"
