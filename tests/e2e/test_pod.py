"""The `single` overlay as a real pod: ready, given another ConfigMap, ended in order; and what it says when it cannot.

Run by k8s/test.sh, which names the image.
"""

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from kafka import KafkaAdminClient

from tests.e2e.pod import IMAGE, Pod, podman
from tests.embedded.broker import Broker
from tests.embedded.job_process import free_port

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not IMAGE, reason="needs podman and the image: k8s/test.sh"),
]

Make = Callable[..., Pod]
_numbers = itertools.count(1)


@pytest.fixture
def pod(broker: Broker, tmp_path: Path) -> Iterator[Make]:
    """Makes a pod with topics of its own."""
    with ExitStack() as exits:

        def make(bootstrap: str = broker.bootstrap, **sections: Any) -> Pod:
            logs, metrics = (f"pod{next(_numbers)}.{name}" for name in ("logs", "metrics"))
            create(broker.bootstrap, logs, metrics)
            kafka = {"logs": [logs], "metrics": [metrics], "topics": {"prefix": logs}}
            sections["kafka"] = kafka | {"access": {"bootstrap_servers": bootstrap}} | sections.get("kafka", {})
            return exits.enter_context(Pod(tmp_path, bootstrap, sections))

        yield make


def create(bootstrap: str, *topics: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics({t: {"num_partitions": 1, "replication_factor": 1} for t in topics})
    admin.close()


def test_a_changed_configmap_reaches_the_running_pod_and_a_bad_one_changes_nothing(pod: Make) -> None:
    here = pod()
    here.play()
    here.wait_for(lambda: here.probe("/-/healthy")[0] == 200)
    here.wait_for(lambda: here.probe("/-/ready")[0] == 200)
    before = here.metric("flinkwatch_config_info{")
    assert len(before) == 1

    changed = here.configuration | {"detectors": {"restart_loop": {"count": 7}}}
    here.change(yaml.safe_dump(changed))
    here.wait_for(lambda: here.metric("flinkwatch_config_info{") not in (before, []))
    in_force = here.metric("flinkwatch_config_info{")

    here.change(yaml.safe_dump(changed | {"detectors": {"restart_lop": {"count": 5}}}))
    here.wait_for(lambda: here.metric("flinkwatch_config_last_reload_successful") == [REFUSED])
    assert "detectors.restart_lop" in here.log()
    assert "did you mean restart_loop" in here.log()
    assert here.metric("flinkwatch_config_info{") == in_force
    assert here.probe("/-/ready")[0] == 200

    here.change(yaml.safe_dump(changed))
    here.wait_for(lambda: here.metric("flinkwatch_config_last_reload_successful") == [TAKEN])
    assert here.stop() == 0


TAKEN = "flinkwatch_config_last_reload_successful 1.0"
REFUSED = "flinkwatch_config_last_reload_successful 0.0"


def test_a_configmap_with_a_bad_file_is_one_line_and_exit_2(pod: Make) -> None:
    here = pod(streaming={"trigger": "fast"})
    here.play()
    assert here.exit_status() == 2
    last = here.log().strip().splitlines()[-1]
    assert "/etc/flinkwatch/flinkwatch.yaml" in last
    assert "streaming.trigger" in last


def test_a_missing_secret_is_one_line_and_exit_1(pod: Make) -> None:
    here = pod(sinks={"slack": SLACK})
    here.play()
    assert here.exit_status() == 1
    last = here.log().strip().splitlines()[-1]
    assert "sinks.slack.token_file: cannot read /etc/flinkwatch-secrets/slack-bot-token" in last


SLACK = {"enabled": True, "channel": "C0123456789", "token_file": "/etc/flinkwatch-secrets/slack-bot-token"}


def test_a_checkpoint_volume_that_cannot_be_written_is_one_line_and_exit_1(pod: Make) -> None:
    here = pod()
    podman("volume", "create", "flinkwatch-state")
    mount = Path(podman("volume", "inspect", "--format", "{{.Mountpoint}}", "flinkwatch-state").strip())
    # Podman gives the volume itself to the container's user; what another user left in it stays as it was.
    (mount / "checkpoint").mkdir(mode=0o700)
    here.play()
    assert here.exit_status() == 1
    last = here.log().strip().splitlines()[-1]
    assert "streaming.checkpoint: /var/lib/flinkwatch/checkpoint cannot be read or written as user 185" in last


def test_a_wrong_broker_address_is_one_line_and_exit_1_after_the_wait(pod: Make) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    here = pod(bootstrap=nobody, streaming={"wait_for_brokers": "10s"})
    here.play()
    here.wait_for(lambda: here.probe("/-/ready")[0] == 503)
    assert nobody in here.probe("/-/ready")[1]
    assert here.probe("/-/healthy")[0] == 200
    assert here.exit_status() == 1
    assert f"no Kafka broker answers: {nobody}" in here.log().strip().splitlines()[-1]


def test_a_broker_that_comes_up_later_is_waited_for(pod: Make) -> None:
    port = free_port()
    here = pod(bootstrap=f"127.0.0.1:{port}")
    here.play()
    here.wait_for(lambda: here.probe("/-/ready")[0] == 503)
    with Broker(port=port) as late:
        create(late.bootstrap, *here.configuration["kafka"]["logs"], *here.configuration["kafka"]["metrics"])
        here.wait_for(lambda: here.probe("/-/ready")[0] == 200)
        assert here.stop() == 0
