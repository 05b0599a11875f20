"""Calls of the bot, against a server that answers as Teams is documented to: tokens, errors, and their outcomes."""

from collections.abc import Iterator

import pytest

from sinks.contract.outcome import Delivered, Outcome, Refused, RetryAfter, Unknown
from sinks.integrations.teams.client import TeamsClient
from sinks.integrations.teams.elements import text_activity
from sinks.integrations.teams.settings import TeamsConfig
from sinks.integrations.teams.token import BotToken
from tests.fake_teams.server import CONVERSATION, SECRET, TeamsServer

HELLO = text_activity("hello")


@pytest.fixture
def teams(monkeypatch: pytest.MonkeyPatch) -> Iterator[TeamsServer]:
    monkeypatch.setenv("TEAMS_CLIENT_SECRET", SECRET)
    with TeamsServer() as server:
        yield server


class Bot:
    """A client whose clock is set by hand."""

    def __init__(self, teams: TeamsServer, **changes: object) -> None:
        self.now = 0.0
        config = TeamsConfig.model_validate(teams.settings | changes)
        self.client = TeamsClient(config, BotToken(config, lambda: self.now))

    def post(self) -> Outcome:
        return self.client.post(HELLO)


def tokens(teams: TeamsServer) -> int:
    return sum(call.method == "token" for call in teams.calls)


def posted(outcome: Outcome) -> str:
    assert isinstance(outcome, Delivered)
    return outcome.ts


def test_a_message_is_posted_edited_and_answered_in_its_thread(teams: TeamsServer) -> None:
    client = Bot(teams).client
    name = posted(client.post(HELLO))
    assert client.edit(CONVERSATION, name, text_activity("changed")) == Delivered(CONVERSATION, name)
    assert isinstance(client.reply(CONVERSATION, name, text_activity("a line")), Delivered)
    assert teams.messages == {name: text_activity("changed")}
    assert teams.replies == {name: [text_activity("a line")]}


def test_a_token_is_kept_until_five_minutes_before_it_expires(teams: TeamsServer) -> None:
    bot = Bot(teams)
    for bot.now in (0.0, 3_298.0, 3_300.0, 3_400.0):
        posted(bot.post())
    assert tokens(teams) == 2


def test_a_token_that_teams_does_not_take_any_more_is_renewed_once(teams: TeamsServer) -> None:
    bot = Bot(teams)
    posted(bot.post())
    teams.expire_tokens()
    posted(bot.post())
    assert (tokens(teams), len(teams.messages)) == (2, 2)
    teams.on_call = lambda call: teams.expire_tokens() if call.method == "token" else None
    teams.fail_next("post", 401, "BotNotRegistered")
    teams.fail_next("post", 401, "BotNotRegistered")
    outcome = bot.post()
    assert outcome == Refused("BotNotRegistered", "the bot is not registered: check app_id", "setup", "authError"), (
        "a second rejection is reported"
    )
    assert tokens(teams) == 3


def test_a_wrong_secret_is_reported_by_its_number_and_never_shown(
    teams: TeamsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEAMS_CLIENT_SECRET", "hunter2")
    outcome = Bot(teams).post()
    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.because, outcome.failure) == ("AADSTS7000215", "setup", "authError")
    assert "hunter2" not in repr(outcome)
    monkeypatch.delenv("TEAMS_CLIENT_SECRET")
    missing = Bot(teams).post()
    assert isinstance(missing, Refused)
    assert missing.code == "no_secret"


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (429, RetryAfter(9.0, "rate limited", "rateLimited")),
        (503, RetryAfter(None, "no access token: HTTP status 503", "serverError")),
        (0, RetryAfter(None, "no access token: connection lost: RemoteDisconnected", "other")),
    ],
)
def test_without_a_token_nothing_was_sent(teams: TeamsServer, status: int, expected: Outcome) -> None:
    teams.fail_next("token", status, headers={"Retry-After": "9"} if status == 429 else {})
    bot = Bot(teams)
    assert bot.post() == expected
    assert teams.messages == {}
    posted(bot.post())


ANSWERS: list[tuple[int, str, Outcome | str]] = [
    (429, "Throttled", RetryAfter(7.0, "rate limited", "rateLimited")),
    (412, "PreconditionFailed", RetryAfter(7.0, "Teams is not available: HTTP status 412", "serverError")),
    (502, "Unknown", RetryAfter(7.0, "Teams is not available: HTTP status 502", "serverError")),
    (504, "Unknown", RetryAfter(7.0, "Teams is not available: HTTP status 504", "serverError")),
    (500, "ServiceError", Unknown("HTTP status 500", "serverError")),
    (0, "", Unknown("connection lost: RemoteDisconnected", "other")),
    (403, "BotNotInConversationRoster", "setup"),
    (403, "BotDisabledByAdmin", "setup"),
    (400, "BadSyntax", "message"),
    (413, "MessageSizeTooBig", "message"),
]


@pytest.mark.parametrize("edited", [False, True])
@pytest.mark.parametrize(("status", "code", "expected"), [*ANSWERS, (404, "ConversationNotFound", "setup")])
def test_each_answer_has_its_outcome(
    teams: TeamsServer, status: int, code: str, expected: Outcome | str, edited: bool
) -> None:
    client = Bot(teams).client
    name = posted(client.post(HELLO))
    teams.fail_next("edit" if edited else "post", status, code, {"Retry-After": "7"})
    outcome = client.edit(CONVERSATION, name, HELLO) if edited else client.post(HELLO)
    if not isinstance(expected, str):
        assert outcome == expected
        return
    assert isinstance(outcome, Refused)
    because = "target" if edited and status == 404 else expected
    assert (outcome.because, outcome.code) == (because, code)


@pytest.mark.parametrize("code", ["", "not JSON <html>", "x" * 90])
def test_an_answer_that_is_not_from_teams_is_judged_by_its_status(teams: TeamsServer, code: str) -> None:
    teams.fail_next("post", 403, code)
    outcome = Bot(teams).post()
    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.because) == ("http_403", "setup")


@pytest.mark.parametrize("deleted", [True, False])
def test_an_edit_of_a_message_that_is_gone_says_so(teams: TeamsServer, deleted: bool) -> None:
    client = Bot(teams).client
    name = posted(client.post(HELLO))
    if deleted:
        teams.delete(name)
    outcome = client.edit(CONVERSATION, name if deleted else "1", HELLO)
    assert isinstance(outcome, Refused)
    assert outcome.because == "target"
