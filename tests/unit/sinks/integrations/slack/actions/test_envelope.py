"""Whatever Slack, or someone in its name, sends becomes a request or an error; nothing else is raised."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sinks.contract.action_request import ActionRequest
from sinks.integrations.slack.actions.envelope import EnvelopeContent, EnvelopeError, read_envelope

NOW = 1_772_373_780_000


def click(**changes: Any) -> dict[str, Any]:
    action = {"action_id": "flinkwatch_silence", "action_ts": "1772373780.5", "selected_option": {"value": "i1/1h"}}
    payload: dict[str, Any] = {
        "type": "block_actions",
        "user": {"id": "U0ANN", "username": "ann"},
        "team": {"id": "T0LOCAL"},
        "container": {"channel_id": "C1", "message_ts": "5.1"},
        "response_url": "https://hooks.slack.com/actions/1",
        "actions": [action],
    }
    return payload | changes


def one_action(**changes: Any) -> dict[str, Any]:
    return click(actions=[{"action_id": "flinkwatch_acknowledge", "action_ts": "1.5", "value": "i1"} | changes])


def command(text: str, **changes: Any) -> dict[str, Any]:
    payload = {"text": text, "user_id": "U0ANN", "user_name": "ann", "team_id": "T1", "response_url": "https://x"}
    return payload | changes


def request_of(kind: str, payload: dict[str, Any]) -> ActionRequest:
    asked = read_envelope(kind, payload, NOW)
    assert asked is not None
    assert asked.request is not None
    return asked.request


def test_a_choice_of_the_menu_is_a_request_with_the_time_of_the_action() -> None:
    assert read_envelope("interactive", click(), 0) == EnvelopeContent(
        ActionRequest(
            wish="silence",
            person="ann",
            user="U0ANN",
            at=1_772_373_780_500,
            incident="i1",
            choice="1h",
            message="C1/5.1",
        ),
        "U0ANN",
        "T0LOCAL",
        "https://hooks.slack.com/actions/1",
    )


def test_the_id_of_a_silence_may_have_slashes() -> None:
    asked = request_of("interactive", one_action(action_id="flinkwatch_end_silence", value="i1/a/b"))
    assert (asked.incident, asked.choice) == ("i1", "a/b")


def test_commands_are_requests_at_the_time_they_came() -> None:
    status = request_of("slash_commands", command("status prod eu"))
    assert (status.wish, status.choice, status.at) == ("status", "prod eu", NOW)
    label = request_of("slash_commands", command("not-an-incident  i1  a\nload\ttest"))
    assert (label.wish, label.incident, label.words) == ("not_an_incident", "i1", "a load test")


@pytest.mark.parametrize("text", ["", "help", "not-an-incident", "STATUS"])
def test_another_command_is_answered_with_how_to_use_it(text: str) -> None:
    asked = read_envelope("slash_commands", command(text), NOW)
    assert asked is not None
    assert asked.request is None
    assert "/flinkwatch status" in asked.problem


def test_a_person_without_a_name_is_named_by_the_id_and_a_long_name_is_cut() -> None:
    assert request_of("interactive", click(user={"id": "U0ANN", "username": " \n"})).person == "U0ANN"
    assert len(request_of("interactive", click(user={"id": "U0ANN", "username": "x" * 900})).person) == 80


@pytest.mark.parametrize(
    "payload",
    [
        None,
        [],
        click(actions=[]),
        click(actions=[{}, {}]),
        click(actions="no"),
        click(user=None),
        click(user={"id": "<!channel>"}),
        click(response_url=5),
        click(container=[]),
        one_action(action_ts="NaN"),
        one_action(action_ts="1e999"),
        one_action(action_ts="-1"),
        one_action(value=""),
        one_action(value="x" * 100_000),
        one_action(value="/1h"),
    ],
)
def test_a_payload_with_wrong_fields_is_an_error(payload: Any) -> None:
    with pytest.raises(EnvelopeError):
        read_envelope("interactive", payload, NOW)


@pytest.mark.parametrize("action", ["other_app", "flinkwatch_dance", "acknowledge", ""])
def test_a_button_that_is_not_flinkwatchs_is_nothing(action: str) -> None:
    assert read_envelope("interactive", one_action(action_id=action), NOW) is None


@pytest.mark.parametrize(("kind", "payload"), [("interactive", {"type": "view_submission"}), ("events_api", {"a": 1})])
def test_another_envelope_is_nothing(kind: str, payload: dict[str, Any]) -> None:
    assert read_envelope(kind, payload, NOW) is None


VALUES = st.none() | st.integers() | st.floats() | st.text(max_size=20)
JSON = VALUES | st.lists(VALUES, max_size=2) | st.dictionaries(st.sampled_from(["id", "value"]), VALUES, max_size=2)


@settings(max_examples=30)
@given(
    st.sampled_from(["interactive", "slash_commands"]),
    st.dictionaries(st.sampled_from(sorted(click() | command(""))), JSON),
)
def test_any_payload_is_a_request_nothing_or_an_error(kind: str, changes: dict[str, Any]) -> None:
    base = click() if kind == "interactive" else command("status")
    try:
        read_envelope(kind, base | changes, NOW)
    except EnvelopeError:
        return
