"""Who may act, as Slack names the members of groups, and where answers may go."""

from types import SimpleNamespace
from typing import Any

import pytest

from sinks.contract.action_request import ActionError
from sinks.contract.outcome import Refused, RetryAfter
from sinks.integrations.slack.actions.people import SlackPeople
from sinks.integrations.slack.actions.settings import SlackActionsConfig
from sinks.integrations.slack.settings import SlackConfig


class Groups:
    """A client that knows the members of user groups, and how often it was asked."""

    def __init__(self, **members: list[str]) -> None:
        self.members, self.asked, self.down = members, 0, False

    def ask(self, method: str, parameters: dict[str, Any]) -> Any:
        assert method == "usergroups.users.list"
        self.asked += 1
        if self.down:
            return RetryAfter(None, "Slack is not available", "serverError")
        return {"ok": True, "users": self.members[parameters["usergroup"]]}


def people(groups: Groups, *allowed: str, base_url: str = "https://slack.com/api/") -> tuple[SlackPeople, Any]:
    clock = SimpleNamespace(now=0.0)
    actions = SlackActionsConfig(enabled=True, allowed=allowed)
    config = SlackConfig(enabled=True, channel="C1", base_url=base_url, actions=actions)
    return SlackPeople(config, groups, lambda: clock.now), clock  # type: ignore[arg-type]


def test_a_named_user_and_everyone_may_without_a_question_to_slack() -> None:
    groups = Groups()
    people(groups, "U0ANN1")[0].check("U0ANN1")
    people(groups, "*")[0].check("U0EVE1")
    assert groups.asked == 0


def test_members_of_a_group_are_asked_for_once_in_five_minutes() -> None:
    groups = Groups(S0ONCALL=["U0BEN1"])
    who, clock = people(groups, "S0ONCALL")
    who.check("U0BEN1")
    with pytest.raises(ActionError, match="You may not do this"):
        who.check("U0EVE1")
    assert groups.asked == 1
    clock.now, groups.members["S0ONCALL"] = 301.0, ["U0EVE1"]
    who.check("U0EVE1")
    with pytest.raises(ActionError):
        who.check("U0BEN1")


def test_while_slack_does_not_answer_the_members_known_last_may_and_no_one_else() -> None:
    groups = Groups(S0ONCALL=["U0BEN1"])
    who, clock = people(groups, "S0ONCALL")
    who.check("U0BEN1")
    clock.now, groups.down = 301.0, True
    who.check("U0BEN1")
    with pytest.raises(ActionError):
        who.check("U0EVE1")


def test_a_group_that_was_never_known_allows_no_one() -> None:
    groups = Groups()
    groups.down = True
    with pytest.raises(ActionError, match="not known who is in the user group S0ONCALL: Slack is not available"):
        people(groups, "S0ONCALL")[0].check("U0BEN1")


@pytest.mark.parametrize(
    "address",
    [
        "",
        "http://hooks.slack.com/actions/1",
        "https://hooks.slack.com.evil.example/1",
        "https://evil.example/hooks.slack.com",
        "https://hooks.slack.com@evil.example/",
        "https://[",
        "https://slack.com:8443/api/",
        "file:///etc/passwd",
    ],
)
def test_an_answer_goes_nowhere_but_to_slack(address: str) -> None:
    outcome = people(Groups(), "*")[0].answer(address, "text")
    assert isinstance(outcome, Refused)
    assert outcome.code == "bad_response_url"
