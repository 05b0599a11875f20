"""The buttons fit the state of the incident and Slack's limits."""

import pytest

from detectors.incident import Silenced
from sinks.contract.feedback import NO_MARKS, Mark, Marks
from sinks.integrations.slack.actions.buttons import action_blocks, render_reminder
from tests.fake_slack.limits import blocks_problem
from tests.fake_slack.objects import buttons
from tests.unit.sinks.samples import OPENED_AT, make_transition

SILENCED = make_transition(silence=Silenced("a1", OPENED_AT * 2, "ann", "why"))


def labels(marks: Marks = NO_MARKS, transition: object = None) -> list[str]:
    blocks = action_blocks(make_transition() if transition is None else transition, marks)  # type: ignore[arg-type]
    assert blocks_problem(blocks) == ""
    return [(one.get("text") or one["placeholder"])["text"] for one in buttons(blocks)]


def test_an_open_incident_can_be_acknowledged_silenced_and_marked() -> None:
    assert labels() == ["Acknowledge", "Silence …", "Not an incident"]


def test_what_was_done_can_be_undone_and_is_not_offered_again() -> None:
    ann = Mark("ann", OPENED_AT)
    assert labels(Marks(acknowledged=ann, not_an_incident=ann)) == ["Silence …", "Undo: it is an incident"]
    assert labels(transition=SILENCED) == ["Acknowledge", "End the silence", "Not an incident"]


def test_a_resolved_incident_has_no_buttons() -> None:
    assert labels(transition=make_transition(transition="resolved")) == []


def test_names_of_people_mention_no_one() -> None:
    blocks = action_blocks(make_transition(), Marks(acknowledged=Mark("<!channel> *x*", OPENED_AT)))
    assert "<!channel>" not in str(blocks)


def test_an_id_that_slack_would_refuse_has_no_buttons() -> None:
    assert labels(transition=make_transition(incident="x" * 200)) == []


@pytest.mark.parametrize(("one", "markup"), [("S0GROUP", "<!subteam^S0GROUP>"), ("U0ANN1", "<@U0ANN1>")])
def test_a_reminder_mentions_users_and_groups(one: str, markup: str) -> None:
    hostile = make_transition(summary="<!channel> is on fire")
    text = render_reminder(hostile, 900_000, (one,)).text
    assert text.startswith(f"{markup} Not acknowledged for 15 min:")
    assert "<!channel>" not in text
