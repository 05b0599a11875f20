"""The settings that decided an incident: with overrides, and only if they were in force."""

from detectors.settings.live import LiveSettings, settings_hash
from sinks.web.thresholds import thresholds_in_force, thresholds_of
from tests.unit.sinks.samples import make_transition

LIVE = LiveSettings.model_validate(
    {
        "detectors": {"restart_loop": {"count": 7}},
        "overrides": [{"job": "orders-*", "detectors": {"restart_loop": {"count": 9}}}],
    }
)


def test_a_setting_has_its_value_its_default_its_meaning_and_its_override() -> None:
    found = {one.key: one for one in thresholds_in_force(LIVE, "prod", "orders-eu", ["restart_loop"])}
    count = found["restart_loop.count"]
    assert (count.value, count.origin) == ("9", "overrides[0]")
    assert count.default != count.value
    assert count.meaning
    other = {one.key: one.value for one in thresholds_in_force(LIVE, "prod", "clicks", ["restart_loop"])}
    assert other["restart_loop.count"] == "7"


def test_the_settings_of_the_cause_come_first_and_each_kind_once() -> None:
    transition = make_transition(cause="late_barrier_acks", config=settings_hash(LIVE))
    kinds = list(dict.fromkeys(one.key.split(".")[0] for one in thresholds_of(LIVE, transition)))
    assert kinds == ["late_barrier_acks", "checkpoint_overdue"]


def test_settings_of_another_configuration_are_not_shown() -> None:
    assert thresholds_of(LIVE, make_transition(config="00000000")) == []


def test_a_kind_of_another_version_has_no_settings() -> None:
    assert thresholds_in_force(LIVE, "prod", "", ["no_such_kind"]) == []
