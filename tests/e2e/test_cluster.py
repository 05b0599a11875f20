"""On a Spark cluster the job says what it says on one host, also when executors are killed while records come."""

import json
import os
import signal
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.harness import Installation
from tests.e2e.standalone import StandaloneCluster
from tests.e2e.test_job import essence, recorded, replayed
from tests.embedded.job_process import JobProcess

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

PARTS = 4


def bare_python(folder: Path) -> Path:
    """An interpreter that has the dependencies and not flinkwatch, as on nodes with a packed environment."""
    packages = sysconfig.get_path("purelib")
    script = folder / "python"
    # Without site there is no editable install.
    script.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec {sys.executable} -S "$@"\n')
    script.chmod(0o755)
    return script


def test_killed_executors_lose_nothing(installation: Callable[..., Installation], tmp_path: Path) -> None:
    """A recording in parts; between them all executors are killed with -9, in the middle of batches."""
    here = installation(spark={"spark.executor.memory": "512m", "spark.cores.max": "2"})
    here.create_inputs()
    records = recorded("late-barrier-acks")
    with StandaloneCluster(tmp_path) as cluster:
        # The configuration names one host; the option wins.
        master = ("--master", cluster.master)
        environment = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": str(bare_python(tmp_path))}
        here.job = JobProcess(here.folder, here.configuration, "--no-deliver", *master, environment=environment)
        here.job.start()
        here.wait_for(lambda: len(cluster.executors()) == 2)
        stored, killed = [], set()
        for part in range(PARTS):
            stored += here.send(records[part * len(records) // PARTS : (part + 1) * len(records) // PARTS])
            time.sleep(1)
            for executor in cluster.executors() if part < PARTS - 1 else ():
                os.kill(executor, signal.SIGKILL)
                killed.add(executor)
            here.wait_for(lambda: len(set(cluster.executors()) - killed) == 2)
        expected = replayed(stored, here.metrics)
        here.wait_for(lambda: len(here.transitions()) >= len(expected))
        assert here.job.terminate() == 0
    assert len(killed) >= 2 * (PARTS - 1)
    assert len(expected) > 1
    said = here.transitions()
    assert [t.seq for t in said] == list(range(1, len(said) + 1))
    assert essence(said) == essence(expected)


def test_a_master_that_is_not_there_is_one_line(installation: Callable[..., Installation]) -> None:
    """At once: Spark itself would try for a minute, and then speak of a context that was stopped."""
    here = installation()
    here.create_inputs()
    here.job = JobProcess(here.folder, here.configuration, "--no-deliver", "--master", "spark://127.0.0.1:1")
    here.job.start()
    assert here.job.wait(100) == 1
    expected = "flinkwatch: no Spark master answers (streaming.master): 127.0.0.1:1: Connection refused"
    assert json.loads(here.job.log_tail(1))["event"] == expected
