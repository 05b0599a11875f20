"""Processes of the job that are killed or frozen, and its end by signals.

The kernel's OOM killer sends SIGKILL to one process, so kill -9 of each process stands for it.
"""

import json
import os
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient

from tests.e2e.conftest import installation as installation  # noqa: PLC0414 - a fixture
from tests.e2e.harness import Installation
from tests.e2e.test_job import essence, recorded
from tests.embedded.job_process import JobProcess
from tests.reliability.job_chain import JobChain
from tests.reliability.processes import daemons_of, descendants, jvm_of, send, workers_of
from tests.reliability.test_kill_job import judge

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1_800)]

Make = Callable[..., Installation]
_WITHIN_S = 300.0
# 120 and 600 in a full run: FLINKWATCH_FREEZE_SECONDS=600.
_FREEZE_S = float(os.environ.get("FLINKWATCH_FREEZE_SECONDS", "20"))


def lines(here: Installation) -> list[dict[str, Any]]:
    """Everything on stderr; fails where a line is not a JSON object."""
    found = []
    for line in here.job.log.read_text().splitlines():
        if line:
            found.append(json.loads(line))
            assert isinstance(found[-1], dict), line
    return found


def readiness(here: Installation) -> str:
    """What /-/ready says is wrong; empty when all is well."""
    try:
        with urllib.request.urlopen(f"{here.job.page_url}/-/ready", timeout=5):
            return ""
    except urllib.error.HTTPError as error:
        return error.read().decode()


def restarts(here: Installation) -> float:
    with urllib.request.urlopen(f"{here.job.page_url}/metrics", timeout=10) as page:
        for line in page.read().decode().splitlines():
            if line.startswith("flinkwatch_query_restarts_total "):
                return float(line.split()[1])
    return -1.0


def running(make: Make) -> JobChain:
    """A job that has written the first change of an incident."""
    chain = JobChain(make)
    chain.here.job.start()
    advance(chain)
    return chain


def advance(chain: JobChain) -> None:
    """The next portion comes, and what it brings is written."""
    chain.send()
    chain.kills += 1
    expected = len(chain.expected())
    chain.here.wait_for(lambda: len(chain.here.transitions()) >= expected, _WITHIN_S)


@pytest.mark.slow
def test_a_job_whose_processes_are_killed_restarts_its_query_and_goes_on(installation: Make) -> None:
    """Workers and daemons, then the JVM: the same process goes on, says not ready meanwhile, and loses nothing."""
    chain = running(installation)
    here, pid = chain.here, chain.here.job.pid
    # The daemon dies first: it would start other workers.
    send(daemons_of(pid) + workers_of(pid), signal.SIGKILL)
    advance(chain)
    before = restarts(here)
    os.kill(jvm_of(pid), signal.SIGKILL)
    here.wait_for(lambda: "is being restarted" in readiness(here), _WITHIN_S)
    advance(chain)
    assert here.job.pid == pid
    assert restarts(here) == before + 1
    assert here.job.terminate() == 0
    judge(chain)
    said = [line for line in lines(here) if line["event"] == "the query failed and is being restarted"]
    assert "Spark's JVM was killed (signal 9)" in said[-1]["reason"]
    assert not [line for line in lines(here) if "Traceback" in json.dumps(line)]


@pytest.mark.slow
def test_a_frozen_job_goes_on_where_it_was(installation: Make) -> None:
    """SIGSTOP of all its processes, as a paused machine does; without a restart of the process."""
    chain = running(installation)
    pid = chain.here.job.pid
    everything = [pid, *descendants(pid)]
    send(everything, signal.SIGSTOP)
    chain.send()
    chain.kills += 1
    time.sleep(_FREEZE_S)
    send(everything, signal.SIGCONT)
    advance(chain)
    assert chain.here.job.pid == pid
    assert chain.here.job.terminate() == 0
    judge(chain)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("to_all", [False, True], ids=["process", "group"])
def test_a_signal_while_it_runs_ends_in_good_order(installation: Make, number: signal.Signals, to_all: bool) -> None:
    """Exit status 0, nothing but JSON, no traceback, no error of Spark; Ctrl-C of a terminal goes to the group."""
    chain = running(installation)
    job = chain.here.job
    if to_all:
        os.killpg(job.pid, number)
    else:
        os.kill(job.pid, number)
    assert job.wait(_WITHIN_S) == 0, job.log_tail()
    said = lines(chain.here)
    assert said[-1]["event"] == "stopping after the current batch"
    assert not [line for line in said if str(line.get("level", "")).lower() == "error" or "Traceback" in str(line)]
    assert essence(chain.here.transitions()) == essence(chain.expected())


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_any_moment_of_the_start_ends_in_good_order(installation: Make, number: signal.Signals) -> None:
    """To the group, as soon as each line of the start was logged: exit status 0 and no traceback."""
    for event in ("HTTP server is listening", "starting Spark", "configuration is in force", "the job is running"):
        here = installation()
        here.create_inputs()
        here.job.start()
        here.job.await_condition(lambda e=event, h=here: any(x["event"] == e for x in lines(h)), _WITHIN_S)  # type: ignore[misc]
        os.killpg(here.job.pid, number)
        assert here.job.wait(_WITHIN_S) == 0, (event, here.job.log_tail())
        assert not [x for x in lines(here) if str(x.get("level", "")).lower() == "error" or "Traceback" in str(x)]


@pytest.mark.slow
def test_a_second_signal_ends_at_once(installation: Make) -> None:
    """Its status says so, and no process is left."""
    chain = running(installation)
    job = chain.here.job
    left = descendants(job.pid)
    # A JVM that does not answer holds the orderly end.
    os.kill(jvm_of(job.pid), signal.SIGSTOP)
    deadline = time.monotonic() + 30
    while job.exit_status() is None:
        send([job.pid], signal.SIGTERM)
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert job.exit_status() == 128 + signal.SIGTERM
    send(left, signal.SIGCONT)
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in left):
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.slow
def test_a_python_worker_that_takes_longer_than_spark_waits_is_no_failure(installation: Make, tmp_path: Path) -> None:
    """As on a host with a load of 40: everything that a worker does after its start takes 15 s, Spark waits 10 s."""
    slow = "import os, time; time.sleep(15 * ('PYTHON_WORKER_FACTORY_SOCK_PATH' in os.environ))"
    (tmp_path / "sitecustomize.py").write_text(slow)
    here = installation()
    here.create_inputs()
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])])
    here.job = JobProcess(here.folder, here.configuration, "--no-deliver", environment={"PYTHONPATH": path})
    here.send(recorded("late-barrier-acks"))
    here.job.start()
    here.wait_for(lambda: bool(here.transitions()), _WITHIN_S)
    assert restarts(here) == 0
    assert here.job.terminate() == 0


@pytest.mark.slow
def test_an_input_topic_that_is_deleted_ends_the_job_with_its_name(installation: Make) -> None:
    """Exit status 1 and one line; whether the topic comes back is not for flinkwatch to decide."""
    chain = running(installation)
    here = chain.here
    admin = KafkaAdminClient(bootstrap_servers=here.bootstrap)
    admin.delete_topics([here.logs])
    admin.close()
    assert here.job.wait(_WITHIN_S) == 1
    last = lines(here)[-1]["event"]
    assert last.startswith("flinkwatch: ")
    assert here.logs in last
    assert "Exception" not in last
