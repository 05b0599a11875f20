"""Runs the image as in production, against a real broker, and checks its behaviour; docker/test.sh calls it.

    python docker/check.py ENGINE IMAGE

Read-only, without capabilities, as user 185; a recorded incident must come out. Then what goes wrong with containers:
each ends with one line and status 1, or waits.
"""

import os
import sys
import threading
import time
from typing import Any

from container import Container, engine, passed, require

from streaming.recordings.play import find_scenario
from streaming.recordings.replay import load
from tests.demo.playback import Playback, create_topics
from tests.embedded.broker import Broker
from tests.fake_slack.server import TOKEN, SlackServer

FIRST_BATCH_S = 25.0
# Tools that help an attacker, and tools that only a build needs.
ABSENT = "gcc cc make ld pip pip3 javac git curl wget debootstrap"


def settings(bootstrap: str, **streaming: object) -> dict[str, Any]:
    return {"kafka": {"access": {"bootstrap_servers": bootstrap}}, "streaming": streaming}


def refusals(bootstrap: str) -> None:
    """Faults that a person must fix: exit status 1, the reason as the last line."""
    slack = {"sinks": {"slack": {"enabled": True, "channel": "C1"}}}
    secret = {"access": {"bootstrap_servers": bootstrap, "security_protocol": "SASL_PLAINTEXT", "sasl_username": "u"}}
    secret["access"] |= {"sasl_mechanism": "PLAIN", "sasl_password_file": "/run/secrets/kafka"}
    cases: list[tuple[str, dict[str, Any], int, str]] = [
        (
            "a missing secret of Slack",
            settings(bootstrap) | slack,
            0o755,
            "sinks.slack.token_env: environment variable SLACK_BOT_TOKEN is not set",
        ),
        (
            "a missing secret of Kafka",
            {"kafka": secret},
            0o755,
            "kafka.access.sasl_password_file: cannot read /run/secrets/kafka: No such file",
        ),
        (
            "a wrong broker address",
            settings("no-such-broker.invalid:9092", wait_for_brokers="2s"),
            0o755,
            "no host of this name",
        ),
        ("an unreadable checkpoint volume", settings(bootstrap), 0o000, "cannot be read or written as user 185"),
        ("a key that does not exist", settings(bootstrap, chekpoint="/x"), 0o755, "did you mean checkpoint?"),
    ]
    for what, configuration, mode, line in cases:
        container = Container("refused", configuration)
        if mode == 0o000:
            os.chown(container.state, 0, 0)
        container.state.chmod(mode)
        try:
            container.start()
            status, last = container.ends(180)
            require(
                status == 1 and line in last and last.startswith("flinkwatch: "),
                f"{what}: exit 1, {last}",
                container.log(),
            )
        finally:
            container.remove()


def hardening(container: Container) -> None:
    """Check from inside the container that it has no privileges it does not need."""
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
    """Alive but not ready without a broker; with a broker it continues and notifies of the incident."""
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
        require("waiting for Kafka" in container.log(), "one line says what is waited for", container.log())
        engine(
            "exec", container.name, "/opt/flinkwatch/.venv/bin/python", "-I", "-S", "/opt/flinkwatch/docker/health.py"
        )
        passed("the health check of the image")
        time.sleep(float(os.environ.get("FLINKWATCH_LATE_BROKER_S", "20")))
        broker.start()
        container.until(lambda: container.get("/-/ready")[0] == 200, 300, "ready once the broker is there")
        passed("a broker that comes up later: ready, in the same process")
        hardening(container)
        playback = Playback(bootstrap, records, "flinkwatch.heartbeat", 20)
        playback.run(threading.Event())
        seconds = container.until(
            lambda: any("late" in str(c.body).lower() and "tm-2" in str(c.body) for c in slack.calls),
            180,
            "a notification of the incident",
        )
        passed(f"the recorded incident in Slack's stand-in, {seconds:.1f} s after its last record")
        container.until(lambda: shows_incident(container.get("/metrics")[1]), 30, "the incident is on the metrics page")
        passed("and on the metrics page")
        page = container.get("/metrics")[1]
        require(TOKEN not in container.log() and TOKEN not in page, "the token is in neither log nor page", "")
        require(container.stop() == 0, "SIGTERM: an orderly end, exit 0", container.log()[-2000:])
    finally:
        container.remove()


def shows_incident(page: str) -> bool:
    """Whether the incident is open on the page; every kind has a counter from the start."""
    active = (line for line in page.splitlines() if line.startswith("flinkwatch_incident_active{"))
    return any('kind="late_barrier_acks"' in line for line in active)


def first_batch(bootstrap: str) -> None:
    """As in production, with heartbeat and canary. On a busy machine the time is only printed."""
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
    """Print the time, and fail if it is above the limit."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    circumstances = f"at most {FIRST_BATCH_S:.0f}; load {load:.1f} on {cores} cores"
    figure = f"container start to the first batch {seconds:.1f} s ({circumstances})"
    if load > 2 * cores:
        sys.stdout.write(f"  not judged, the machine is busy: {figure}\n")
    else:
        require(seconds <= FIRST_BATCH_S, figure, "")


def main() -> None:
    records = load([find_scenario("late-barrier-acks")], "flink.logs", "flink.metrics")
    with Broker() as broker, SlackServer() as slack:
        create_topics(broker.bootstrap, records)
        refusals(broker.bootstrap)
        first_batch(broker.bootstrap)
        late_broker(broker, records, slack)


if __name__ == "__main__":
    main()
