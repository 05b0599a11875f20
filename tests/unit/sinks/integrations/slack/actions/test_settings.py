"""The section says who may act before anyone can."""

from typing import Any

import pytest
from pydantic import ValidationError

from sinks.integrations.slack.actions.settings import SlackActionsConfig


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ({"enabled": True}, "allowed is needed when enabled"),
        ({"enabled": True, "allowed": ["ann"]}, "String should match pattern"),
        ({"enabled": True, "allowed": ["*"], "mention": ["*"]}, "String should match pattern"),
        ({"remind_after": "15m"}, "remind_after needs enabled"),
    ],
)
def test_a_section_that_could_not_work_is_refused(section: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        SlackActionsConfig.model_validate(section)


def test_users_groups_and_everyone_may_be_allowed() -> None:
    section = {"enabled": True, "allowed": ["U0123ABCD", "W0123ABCD", "S0123ABCD", "*"], "remind_after": "15m"}
    assert SlackActionsConfig.model_validate(section).remind_after == 900_000
