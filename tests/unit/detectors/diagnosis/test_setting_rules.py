"""Each rule is met by what its reason describes, and not by the nearest healthy setting."""

from pathlib import Path
from typing import Any

import pytest

from detectors.diagnosis.known_cluster import KnownCluster, known_clusters
from detectors.diagnosis.setting_rules import RULES, memory_bytes
from detectors.events.vocabulary.flink_settings import SETTINGS
from detectors.flink.flink_settings import CHECKPOINT_TIMEOUT
from detectors.incident import Reading

PROJECT = Path(__file__).parents[4]
SLOTS = {"taskmanager.numberOfTaskSlots": "2"}
INTERVAL = "execution.checkpointing.interval"
TOLERABLE = "execution.checkpointing.tolerable-failed-checkpoints"
RETENTION = "execution.checkpointing.externalized-checkpoint-retention"
METASPACE = "taskmanager.memory.jvm-metaspace.size"
LARGE = {"orders": 1_000_000_000}


def rules_of(settings: dict[str, str], **known: Any) -> set[str]:
    cluster = KnownCluster("prod", "1.20.5", settings, **known)
    return {rule.name for rule in RULES if rule.seen(cluster)}


@pytest.mark.parametrize(
    ("rule", "bad", "good"),
    [
        ("no-high-availability", SLOTS, {"high-availability.type": "kubernetes"}),
        ("no-high-availability", {"high-availability": "NONE"}, {"high-availability": "zookeeper"}),
        ("checkpoints-deleted", {INTERVAL: "1 min"}, {INTERVAL: "1 min", RETENTION: "RETAIN_ON_CANCELLATION"}),
        ("checkpoints-deleted", {RETENTION: "DELETE_ON_CANCELLATION"}, SLOTS),
        ("no-failed-checkpoint-tolerated", {INTERVAL: "1 min"}, {INTERVAL: "1 min", TOLERABLE: "3"}),
        ("no-failed-checkpoint-tolerated", {INTERVAL: "1 min", TOLERABLE: "0"}, SLOTS),
        (
            "timeout-below-interval",
            {INTERVAL: "1 min", CHECKPOINT_TIMEOUT: "30 s"},
            {INTERVAL: "1 min", CHECKPOINT_TIMEOUT: "1 min"},
        ),
        ("heartbeat-shorter-than-pauses", {"heartbeat.timeout": "10000"}, {"heartbeat.timeout": "50 s"}),
        ("no-restarts", {"restart-strategy.type": "none"}, {"restart-strategy.type": "fixed-delay"}),
        ("small-metaspace", {METASPACE: "160m"}, {METASPACE: "256 mb"}),
    ],
)
def test_a_rule_is_met_by_settings(rule: str, bad: dict[str, str], good: dict[str, str]) -> None:
    assert rule in rules_of(bad)
    assert rule not in rules_of(good)


@pytest.mark.parametrize(
    ("rule", "settings", "bad", "good"),
    [
        ("checkpoint-timeout-near", {CHECKPOINT_TIMEOUT: "60 s"}, {"orders": 40_000}, {"orders": 30_000}),
        ("checkpoint-timeout-near", {}, {"orders": 400_000}, {"orders": 200_000}),
        ("checkpoints-back-to-back", {INTERVAL: "10 s"}, {"orders": 10_000}, {"orders": 9_000}),
    ],
)
def test_a_rule_is_met_by_usual_durations(
    rule: str, settings: dict[str, str], bad: dict[str, int], good: dict[str, int]
) -> None:
    assert rule in rules_of(settings, usual=bad)
    assert rule not in rules_of(settings, usual=good)


def test_large_state_matters_on_the_heap_alone() -> None:
    assert "state-on-heap" in rules_of({"state.backend.type": "hashmap"}, sizes=LARGE)
    assert "state-on-heap" in rules_of(SLOTS, sizes=LARGE)
    assert "state-on-heap" not in rules_of({"state.backend.type": "hashmap"}, sizes={"orders": 1_000_000})
    assert "state-on-heap" not in rules_of({"state.backend": "rocksdb"}, sizes=LARGE)
    assert "state-on-heap" not in rules_of({}, sizes=LARGE)


def test_collections_matter_from_a_tenth_of_the_time_on() -> None:
    assert rules_of({}, busy_gc=0.2) == {"long-collections"}
    assert rules_of({}, busy_gc=0.05) == set()


def test_nothing_is_assumed_of_settings_that_were_not_read() -> None:
    assert rules_of({}, usual={"orders": 1_000}) == set()


def test_every_rule_is_tested_and_has_a_reason_a_remedy_and_a_runbook() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    for rule in RULES:
        assert f'"{rule.name}"' in text
        assert rule.why.endswith(".")
        assert rule.to_do.endswith(".")
        assert (PROJECT / "docs" / "runbooks" / f"{rule.runbook}.md").exists()
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_a_rule_sees_a_value_in_every_unit_and_none_in_nonsense() -> None:
    assert memory_bytes("262144k") == memory_bytes("256 MB") == 1 << 28
    assert memory_bytes("256 parsecs") == memory_bytes("") == memory_bytes("-1m") == 0


def reading(name: str, value: float = 1.0, at: int = 1, **labels: str) -> Reading:
    own = {key.removesuffix("_"): label for key, label in labels.items()}
    return Reading(name=name, labels={"cluster": "prod", **own}, value=value, at=at)


def test_readings_give_what_is_known_of_each_cluster() -> None:
    found = known_clusters(
        [
            reading("flink_info", version="1.20.5", at=2),
            reading("flink_info", version="1.19.1", at=1),
            Reading(
                name="flink_setting_info", labels={"cluster": "prod", "key": SETTINGS[0], "value": "x"}, value=1, at=1
            ),
            reading("checkpoint_size_bytes", 5.0, job="orders"),
            reading("checkpoint_duration_usual_seconds", 1.5, job="orders"),
            reading("gc_time_ratio", 0.2, tm="a"),
            reading("gc_time_ratio", 0.1, tm="b"),
            Reading(name="records_read_total", labels={"bucket": "1"}, value=1, at=1),
        ]
    )
    assert found == {
        "prod": KnownCluster("prod", "1.20.5", {SETTINGS[0]: "x"}, {"orders": 1_500}, {"orders": 5}, busy_gc=0.2)
    }
