"""Version, settings and sizes are published when they change, and otherwise every two minutes."""

from detectors.engine.cluster_profile import REPEAT_MS, ClusterProfile
from detectors.flink.checkpointing.checkpoints import JobCheckpoints
from detectors.flink.facts import CheckpointTimeoutSet, Configured
from detectors.flink.topology import Job, Topology

NOW = 1_000_000


def topology(version: str = "1.20.5", *settings: tuple[str, str]) -> Topology:
    made = Topology(version=version)
    for key, value in settings:
        made.settings.learn(Configured(key, value))
    return made


def keys(profile: ClusterProfile, of: Topology, now: int = NOW) -> tuple[list[str], list[str]]:
    readings, gone = profile.publish("prod", of, now)
    return [reading.key() for reading in readings], gone


def test_the_version_and_each_setting_are_a_reading() -> None:
    found = topology("1.20.5", ("heartbeat.timeout", " 50 s "))
    found.settings.learn(CheckpointTimeoutSet("x" * 200))
    assert keys(ClusterProfile(), found)[0] == [
        "flink_info|cluster=prod|version=1.20.5",
        f"flink_setting_info|cluster=prod|key=execution.checkpointing.timeout|value={'x' * 100}",
        "flink_setting_info|cluster=prod|key=heartbeat.timeout|value=50 s",
    ]


def test_nothing_is_published_again_before_it_changes_or_two_minutes_have_passed() -> None:
    profile, found = ClusterProfile(), topology()
    assert keys(profile, found)[0]
    assert keys(profile, found, NOW + REPEAT_MS - 1) == ([], [])
    assert keys(profile, found, NOW + REPEAT_MS)[0]
    assert keys(profile, found, NOW - 1)[0]


def test_a_new_version_ends_the_series_of_the_old_one_at_once() -> None:
    profile = ClusterProfile()
    keys(profile, topology("1.20.4"))
    assert keys(profile, topology("1.20.5"), NOW + 1) == (
        ["flink_info|cluster=prod|version=1.20.5"],
        ["flink_info|cluster=prod|version=1.20.4"],
    )


def test_a_cluster_of_which_nothing_is_known_publishes_nothing() -> None:
    assert keys(ClusterProfile(), Topology()) == ([], [])


def test_the_size_of_a_job_is_that_of_its_largest_checkpoint_while_it_runs() -> None:
    found = Topology(jobs={"b": Job("orders", "RUNNING"), "c": Job("done", "FINISHED")})
    for job, sizes in (("a", []), ("b", [5, 9, 7]), ("c", [1])):
        found.checkpoints[job] = JobCheckpoints(sizes=sizes)
    (reading,) = ClusterProfile().publish("prod", found, NOW)[0]
    assert (reading.name, reading.labels, reading.value) == (
        "checkpoint_size_bytes",
        {"cluster": "prod", "job": "orders"},
        9.0,
    )
