"""Three brokers, replicated three times: one may be lost for good, two stop the stream until one of them is back."""

import time
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaAdminClient

from tests.e2e.harness import Installation
from tests.e2e.test_job import essence, replayed
from tests.reliability.job_chain import portions
from tests.reliability.three_brokers import ThreeBrokers

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1_800)]

_WITHIN_S = 500.0
_STANDS_STILL_S = 20.0


def create_inputs(here: Installation) -> None:
    configs = {"retention.ms": "-1"}
    with closing(KafkaAdminClient(bootstrap_servers=here.bootstrap)) as admin:
        for topic in (here.logs, here.metrics, f"{here.prefix}.heartbeat"):
            admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 3, "configs": configs}})
        admin.wait_for_topics([here.logs, here.metrics, f"{here.prefix}.heartbeat"])


def test_with_one_of_three_brokers_lost_the_job_goes_on_and_with_two_it_waits_for_one(tmp_path: Path) -> None:
    with ThreeBrokers() as cluster:
        here = Installation(cluster.bootstrap, tmp_path, "three", {})
        create_inputs(here)
        opens, changes, ends_it = portions()
        stored = here.send(opens)
        here.job.start()
        first = here.job.pid

        def said_all() -> bool:
            return len(here.transitions()) >= len(replayed(stored, here.metrics))

        try:
            here.wait_for(said_all, _WITHIN_S)

            cluster.brokers[2].kill()
            stored += here.send(changes)
            here.wait_for(said_all, _WITHIN_S)
            assert here.job.pid == first

            cluster.brokers[1].kill()
            deadline = time.monotonic() + _STANDS_STILL_S
            while here.job.exit_status() is None and time.monotonic() < deadline:
                time.sleep(0.2)
            cluster.brokers[1].start()
            stored += here.send(ends_it)
            if here.job.exit_status() is not None:
                # What an orchestrator does.
                assert here.job.exit_status() == 1
                assert here.job.log_tail(1).startswith("flinkwatch: ")
                here.job.start()
            here.wait_for(said_all, _WITHIN_S)
            assert here.job.terminate() == 0
            assert essence(here.transitions()) == essence(replayed(stored, here.metrics))
        finally:
            here.job.kill()
