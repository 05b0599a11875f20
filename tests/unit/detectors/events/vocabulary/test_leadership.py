"""Wordings about leaders, ZooKeeper, Kubernetes and nodes of which no real line is at hand, as the jars print them."""

import pytest

from detectors.events.vocabulary import match

JOB = "e04f0bd47405a7a169914793d27ced1f"


@pytest.mark.parametrize(
    ("event_type", "message"),
    [
        ("jm_fatal", "Fatal error occurred on JobManager."),
        ("leader_granted", "ResourceManager akka.tcp://flink@h:1/user/rm was granted leadership with fencing token a"),
        ("leader_granted", "Dispatcher akka.tcp://flink@h:1/user/d was granted leadership with fencing token a"),
        ("leader_revoked", "ResourceManager akka.tcp://flink@h:1/x was revoked leadership. Clearing fencing token."),
        ("leader_revoked", "Dispatcher akka.tcp://flink@h:1/user/d was revoked leadership."),
        ("jm_unreachable", "JobManager with id 5c8a is no longer reachable."),
        ("jm_unreachable", "ResourceManager with id 5c8a is no longer reachable."),
        ("ha_suspended", "Connection to ZooKeeper suspended. The contender x no longer participates in the leader el."),
        ("ha_suspended", "Connection to ZooKeeper suspended. Can no longer retrieve the leader from ZooKeeper."),
        (
            "ha_lost",
            "Connection to ZooKeeper lost. None of the contenders participates in the leader election anymore.",
        ),
        ("ha_lost", "Connection to ZooKeeper lost. Can no longer retrieve the leader from ZooKeeper."),
        ("ha_connected", "State change: RECONNECTED"),
        ("ha_connected", "Connection to ZooKeeper was reconnected. Leader election can be restarted."),
        ("ha_gave_up", "Ensure path threw exception"),
        ("ha_lock_failed", "Exception occurred while renewing lock 'ConfigMapLock: flink - cluster (a)'"),
        ("node_lost", "h-1.example:45454 Node Transitioned from UNHEALTHY to LOST"),
        ("node_lost", "Node ip-10-0-0-7.ec2.internal status is now: NodeNotReady"),
        ("node_back", "h-1.example:45454 Node Transitioned from NEW to RUNNING"),
        ("node_back", "Node ip-10-0-0-7.ec2.internal status is now: NodeReady"),
    ],
)
def test_a_wording_of_the_release_jars_is_read(event_type: str, message: str) -> None:
    found = match.match(message)
    assert found is not None
    assert found[0] == event_type


@pytest.mark.parametrize(
    "message",
    [
        "Authentication failed",
        "State change: READ_ONLY",
        "Expired:container_e1_1652757164854_0006_11_000001 Timed out after 600 secs",
        "Deactivating Node h:45454 as it is now DECOMMISSIONED",
        "h:45454 Node Transitioned from RUNNING to DECOMMISSIONED",
        "container_1652757164854_0006_11_000001 Container Transitioned from RUNNING to COMPLETED",
        "Close ResourceManager connection 27c66057868b763b46426beea8666578: the JobMaster ends.",
        "Loading configuration property: heartbeat.timeout.of.mine, 5",
        f"Job leader for job id {JOB} lost leadership.",
    ],
)
def test_a_near_miss_means_nothing(message: str) -> None:
    assert match.match(message) is None
