"""Reads what Slack sends when someone presses a button or gives a command. Pure; anything may be in it."""

import re
from typing import Annotated, Any, NamedTuple, get_args

import msgspec

from detectors.values.decoding import LAST_MS
from sinks.contract.action_request import ActionRequest, Wish
from sinks.integrations.slack.actions.buttons import ACTION_PREFIX

_NAME_LIMIT, _WORDS_LIMIT = 80, 500
_USER = re.compile(r"[UW][A-Z0-9]{1,20}")
_BLANK = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
USAGE = (
    "/flinkwatch status [CLUSTER] lists open incidents. /flinkwatch not-an-incident INCIDENT [WORDS] records that an "
    "incident was none, and why."
)

Short = Annotated[str, msgspec.Meta(max_length=1_000)]


class EnvelopeError(ValueError):
    """The payload is not one that flinkwatch has asked for. The text has nothing of the payload."""


class EnvelopeContent(NamedTuple):
    """A request, the workspace it comes from, and where to answer. `problem`: it is none, and this is the answer."""

    request: ActionRequest | None
    user: str
    team: str
    answer_to: str
    problem: str = ""


class _Option(msgspec.Struct):
    value: Short = ""


class _Action(msgspec.Struct):
    action_id: Short
    action_ts: Short
    value: Short | None = None
    selected_option: _Option | None = None


class _User(msgspec.Struct):
    id: Short
    username: Short = ""
    name: Short = ""
    team_id: Short = ""


class _Team(msgspec.Struct):
    id: Short = ""


class _Container(msgspec.Struct):
    channel_id: Short = ""
    message_ts: Short = ""


class _Click(msgspec.Struct):
    user: _User
    actions: list[_Action]
    team: _Team | None = None
    container: _Container | None = None
    response_url: Annotated[str, msgspec.Meta(max_length=2_000)] = ""


class _Command(msgspec.Struct):
    user_id: Short
    team_id: Short
    user_name: Short = ""
    text: Annotated[str, msgspec.Meta(max_length=10_000)] = ""
    response_url: Annotated[str, msgspec.Meta(max_length=2_000)] = ""


def read_envelope(kind: str, payload: Any, now: int) -> EnvelopeContent | None:
    """What a payload asks for. None for what is nothing to flinkwatch, such as a link that was opened.

    `now` is epoch ms. Raises EnvelopeError.
    """
    if not isinstance(payload, dict):
        raise EnvelopeError("the payload is no object")
    try:
        if kind == "slash_commands":
            return _command(msgspec.convert(payload, _Command), now)
        if kind == "interactive" and payload.get("type") == "block_actions":
            return _click(msgspec.convert(payload, _Click))
    except msgspec.ValidationError as error:
        raise EnvelopeError(str(error)) from None
    return None


def _click(click: _Click) -> EnvelopeContent | None:
    if len(click.actions) != 1:
        raise EnvelopeError(f"{len(click.actions)} actions instead of 1")
    action = click.actions[0]
    wish = action.action_id.removeprefix(ACTION_PREFIX)
    if not action.action_id.startswith(ACTION_PREFIX) or wish not in get_args(Wish):
        return None
    value = (action.selected_option.value if action.selected_option is not None else action.value) or ""
    incident, _, choice = value.partition("/")
    if not incident:
        raise EnvelopeError("the button names no incident")
    place = click.container or _Container()
    user = _user(click.user.id)
    request = ActionRequest(
        wish=wish,  # type: ignore[arg-type]  # checked above
        person=_name(click.user.username or click.user.name, user),
        user=user,
        at=_moment(action.action_ts),
        incident=incident,
        choice=choice,
        message=f"{place.channel_id}/{place.message_ts}",
    )
    team = click.team.id if click.team is not None and click.team.id else click.user.team_id
    return EnvelopeContent(request, user, team, click.response_url)


def _command(command: _Command, now: int) -> EnvelopeContent:
    user = _user(command.user_id)
    verb, _, rest = _one_line(command.text, _WORDS_LIMIT).partition(" ")
    common: dict[str, Any] = {"person": _name(command.user_name, user), "user": user, "at": now}
    request = None
    if verb == "status":
        request = ActionRequest(wish="status", choice=rest, **common)
    elif verb == "not-an-incident" and rest:
        incident, _, words = rest.partition(" ")
        request = ActionRequest(wish="not_an_incident", incident=incident, words=words, **common)
    return EnvelopeContent(request, user, command.team_id, command.response_url, "" if request is not None else USAGE)


def _user(text: str) -> str:
    if not _USER.fullmatch(text):
        raise EnvelopeError("the user has no ID of Slack")
    return text


def _name(text: str, user: str) -> str:
    return _one_line(text, _NAME_LIMIT) or user


def _one_line(text: str, limit: int) -> str:
    return _BLANK.sub(" ", text.encode("utf-8", "replace").decode()).strip()[:limit]


def _moment(ts: str) -> int:
    try:
        at = int(float(ts) * 1000)
    except (ValueError, OverflowError):
        at = -1
    if not 0 < at <= LAST_MS:
        raise EnvelopeError("the action has no time")
    return at
