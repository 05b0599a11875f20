"""Runs the image as in production, against a real broker, and checks its behaviour. docker/test.sh calls it.

    python docker/check.py ENGINE IMAGE

The container is read-only, without capabilities, as user 185, and a recorded incident must be delivered. Then it checks
usual failures of containers: each must end with one line and an exit status, or wait.
"""

import os
import sys
import threading
import time
from typing import Any

from container import Container, engine, passed, require

from streaming.recordings.play import create_topics, find_scenario
from streaming.recordings.replay import load
from tests.demo.playback import Playback
from tests.embedded.broker import Broker
from tests.fake_slack.server import TOKEN, SlackServer

FIRST_BATCH_S = 25.0
# Tools that only an attacker or a build needs.
ABSENT = "gcc cc make ld pip pip3 javac git curl wget debootstrap"


def settings(bootstrap: str, **streaming: object) -> dict[str, Any]:
    return {"kafka": {"access": {"bootstrap_servers": bootstrap}}, "streaming": streaming}


def refusals(bootstrap: str) -> None:
    """Check errors that a user must fix: the exit status, and the reason in the last line of the log."""
    slack = {"sinks": {"slack": {"enabled": True, "channel": "C1"}}}
    secret = {"access": {"bootstrap_servers": bootstrap, "security_protocol": "SASL_PLAINTEXT", "sasl_username": "u"}}
    secret["access"] |= {"sasl_mechanism": "PLAIN", "sasl_password_file": "/run/secrets/kafka"}
    cases: list[tuple[str, dict[str, Any], int, int, str]] = [
        (
            "a missing secret of Slack",
            settings(bootstrap) | slack,
            0o755,
            1,
            "sinks.slack.token_env: environment variable SLACK_BOT_TOKEN is not set",
        ),
        (
            "a missing secret of Kafka",
            {"kafka": secret},
            0o755,
            1,
            "kafka.access.sasl_password_file: cannot read /run/secrets/kafka: No such file",
        ),
        (
            "a wrong broker address",
            settings("no-such-broker.invalid:9092", wait_for_brokers="2s"),
            0o755,
            1,
            "there is no host of this name",
        ),
        ("an unreadable checkpoint volume", settings(bootstrap), 0o000, 1, "cannot be read or written as user 185"),
        ("a key that does not exist", settings(bootstrap, chekpoint="/x"), 0o755, 2, "did you mean checkpoint?"),
    ]
    for what, configuration, mode, expected, line in cases:
        container = Container("refused", configuration)
        if mode == 0o000:
            os.chown(container.state, 0, 0)
        container.state.chmod(mode)
        try:
            container.start()
            status, last = container.ends(180)
            require(
                status == expected and line in last and last.startswith("flinkwatch: "),
                f"{what}: exit {status}, {last}",
                container.log(),
            )
        finally:
            container.remove()


def hardening(container: Container) -> None:
    """Check from inside of the container what it must not be able to do."""
    status = container.inside("cat /proc/1/status")
    require("\nUid:\t185\t185" in status and "\nNoNewPrivs:\t1" in status, "user 185, no new privileges", status)
    require(
        "\nCapEff:\t0000000000000000\n" in status and "\nCapBnd:\t0000000000000000\n" in status,
        "no capabilities",
        status,
    )
    written = container.inside("touch /opt/flinkwatch/x /usr/x /var/lib/x 2>&1; true")
    require(written.count("Read-only file system") == 3, "a file system that is read-only", written)
    found = container.inside(f"for tool in {ABSENT}; do command -v $tool; done; true")
    require(found == "", f"none of {ABSENT}", found)
    python = "import importlib.util as u; print([m for m in ('pip', 'setuptools', 'pytest', 'mypy') if u.find_spec(m)])"
    require(container.inside(f'python -c "{python}"') == "[]", "no packages of development", "")
    require("tini" in container.inside("cat /proc/1/comm"), "tini is process 1", "")
    container.inside("python -c 'import matplotlib.backends.backend_agg, matplotlib.figure, pyspark.pandas'")


def late_broker(broker: Broker, records: list[Any], slack: SlackServer) -> None:
    """Check that it is healthy but not ready without a broker, and later continues and reports the incident."""
    sinks = {"slack": {"enabled": True, "channel": "flink-alerts", "base_url": slack.base_url}}
    streaming = {"heartbeat": False, "starting_offsets": "earliest"}
    bootstrap = broker.bootstrap
    broker.stop()
    container = Container("run", {**settings(bootstrap, **streaming), "sinks": sinks}, f"--env=SLACK_BOT_TOKEN={TOKEN}")
    try:
        container.start()
        container.until(
            lambda: "query: no Kafka broker answers" in container.get("/-/ready")[1], 180, "readiness says why"
        )
        require(
            container.get("/-/healthy")[0] == 200 and container.get("/-/ready")[0] == 503,
            "alive, not ready, without a broker",
            "",
        )
        require("waiting for Kafka" in container.log(), "the log says that it waits for Kafka", container.log())
        engine(
            "exec", container.name, "/opt/flinkwatch/.venv/bin/python", "-I", "-S", "/opt/flinkwatch/docker/health.py"
        )
        passed("the health check of the image")
        time.sleep(float(os.environ.get("FLINKWATCH_LATE_BROKER_S", "20")))
        broker.start()
        container.until(lambda: container.get("/-/ready")[0] == 200, 300, "ready once the broker is there")
        passed("ready in the same process when the broker starts later")
        hardening(container)
        playback = Playback(broker.access, records, "flinkwatch.heartbeat", 20)
        playback.run(threading.Event())
        delay = container.until(
            lambda: any("late" in str(c.body).lower() and "tm-2" in str(c.body) for c in slack.calls),
            180,
            "the incident is reported",
        )
        passed(f"the recorded incident is in the fake Slack, {delay:.1f} s after its last record")
        container.until(lambda: shows_incident(container.get("/metrics")[1]), 30, "the incident is on the metrics page")
        passed("the incident is on the metrics page")
        page = container.get("/metrics")[1]
        require(TOKEN not in container.log() and TOKEN not in page, "the token is in neither log nor page", "")
        require(container.stop() == 0, "SIGTERM: orderly stop, exit 0", container.log()[-2000:])
    finally:
        container.remove()


def shows_incident(page: str) -> bool:
    """Whether the incident is open there. Every kind has a counter from the start, so the name is not enough."""
    active = (line for line in page.splitlines() if line.startswith("flinkwatch_incident_active{"))
    return any('kind="late_barrier_acks"' in line for line in active)


def first_batch(bootstrap: str) -> None:
    """Measure the time to the first batch, with heartbeat and canary, and check it unless the machine is busy."""
    configuration = settings(bootstrap)
    configuration["kafka"]["topics"] = {"prefix": "second"}
    container = Container("start", configuration)
    try:
        begun = time.monotonic()
        container.start()
        container.until(
            lambda: "query:" not in container.get("/-/ready")[1] and container.get("/-/ready")[0] > 0, 300, "a batch"
        )
        judge(time.monotonic() - begun)
        container.until(lambda: container.get("/-/ready")[0] == 200, 60, "ready, with a canary that came back")
    finally:
        container.remove()


def judge(seconds: float) -> None:
    """Print the time and fail if it exceeds the limit; on a busy machine only print it."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    circumstances = f"limit {FIRST_BATCH_S:.0f} s; load {load:.1f} on {cores} cores"
    result = f"{seconds:.1f} s from container start to the first batch ({circumstances})"
    if load > 2 * cores:
        sys.stdout.write(f"  not checked, the machine is busy: {result}\n")
    else:
        require(seconds <= FIRST_BATCH_S, result, "")


def main() -> None:
    records = load([find_scenario("late-barrier-acks")], "flink.logs", "flink.metrics")
    with Broker() as broker, SlackServer() as slack:
        create_topics(broker.access, records)
        refusals(broker.bootstrap)
        first_batch(broker.bootstrap)
        late_broker(broker, records, slack)


if __name__ == "__main__":
    main()
