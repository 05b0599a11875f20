"""Secrets are planted wherever flinkwatch takes one, and looked for in everything that comes out of it."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import Installation
from tests.e2e.secured import secured_broker
from tests.e2e.test_job import recorded, replayed
from tests.embedded.job_process import JobProcess, free_port
from tests.fake_slack.server import SlackServer

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

PROJECT = Path(__file__).parents[2]
CANARY = b"canary-"
VARIABLES = (
    "KAFKA_PASSWORD",
    "SLACK_BOT_TOKEN",
    "SLACK_APP_TOKEN",
    "PAGERDUTY_ROUTING_KEY",
    "TEAMS_CLIENT_SECRET",
    "WEBHOOK_KEY",
    "WEBHOOK_TOKEN",
    "AM_TOKEN",
    "SITE_TOKEN",
    "SITE_PASSWORD",
)
SITE_PAGES = ("/", "/config", "/receivers", "/api/v1/config", "/api/v1/receivers")
UI_PAGES = ("/environment/", "/jobs/", "/SQL/", "/executors/", "/StreamingQuery/", "/api/v1/applications")


class ProcessList:
    """Command lines of all processes of this machine, looked at again and again while the block lasts."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "ProcessList":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(10)

    def _look(self) -> None:
        while not self._end.wait(0.3):
            for file in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    self.seen.add(file.read_bytes())


def configured(access: dict[str, Any], slack: SlackServer, folder: Path, ui_port: int) -> dict[str, Any]:
    """Every sink with a secret; all but Slack end at a closed port, so that their errors are logged, too."""
    nowhere = f"http://127.0.0.1:{free_port()}"
    access = {k: v for k, v in access.items() if k != "sasl_password_file"} | {"sasl_password_env": "KAFKA_PASSWORD"}
    sinks = {
        "slack": {"enabled": True, "channel": "#flink-alerts", "base_url": slack.base_url, "charts": False}
        | {"actions": {"enabled": True, "allowed": ["*"]}},
        "webhook": {"enabled": True, "url": nowhere, "secret_env": "WEBHOOK_KEY", "token_env": "WEBHOOK_TOKEN"},
        "alertmanager": {"enabled": True, "urls": [nowhere], "token_env": "AM_TOKEN"},
        "pagerduty": {"enabled": True, "url": nowhere},
        "teams": {"enabled": True, "app_id": "a", "conversation": "c", "login_url": nowhere, "service_url": nowhere},
        "web": {"token_env": "SITE_TOKEN", "password_env": "SITE_PASSWORD"},
    }
    events = folder / "events"
    events.mkdir()
    spark = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
        "spark.local.dir": str(folder / "local"),
        "spark.ui.enabled": "true",
        "spark.ui.port": str(ui_port),
    }
    return {"access": access, "sinks": sinks, "spark": spark}


def page(url: str, token: str = "") -> bytes:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    with urllib.request.urlopen(request, timeout=20) as answer:
        content: bytes = answer.read()
        return content


def command(environment: dict[str, str], *arguments: str) -> bytes:
    """All that a command prints."""
    done = subprocess.run(
        [sys.executable, "-m", "streaming", *arguments],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        timeout=600,
        check=False,
    )
    return done.stdout + done.stderr


def files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for file in folder.rglob("*"):
        if file.is_file():
            yield str(file.relative_to(folder)), file.read_bytes()


def test_no_secret_comes_out(tmp_path: Path) -> None:
    """Logs, errors, metrics, Spark's pages and event log, checkpoint, topics, process arguments, config show."""
    credentials, folder = tmp_path / "credentials", tmp_path / "installation"
    credentials.mkdir()
    folder.mkdir()
    out: dict[str, bytes] = {}
    with secured_broker(credentials) as secured, ProcessList() as processes:
        secrets = {name: f"{CANARY.decode()}{name.lower()}" for name in VARIABLES} | {
            "KAFKA_PASSWORD": secured.password
        }
        environment = {**os.environ, **secrets}
        slack = SlackServer(token=secrets["SLACK_BOT_TOKEN"])
        here = Installation(secured.broker.bootstrap, folder, "secret", {})
        here.create_inputs()
        expected = replayed(here.send(recorded("late-barrier-acks")), here.metrics)
        ui_port = free_port()
        made = configured(secured.ways()["scram over tls"], slack, folder, ui_port)
        here.configuration["kafka"]["access"] = made["access"]
        here.configuration["streaming"]["spark"] = made["spark"]
        here.configuration["sinks"] = made["sinks"]
        here.job = JobProcess(folder, here.configuration, environment=environment)
        here.job.start()
        try:
            here.wait_for(lambda: len(here.transitions()) >= len(expected))
            here.wait_for(lambda: bool(slack.parents()))
            out |= {name: page(f"{here.job.page_url}{name}") for name in ("/metrics", "/-/healthy")}
            out |= {f"site {name}": page(f"{here.job.page_url}{name}", secrets["SITE_TOKEN"]) for name in SITE_PAGES}
            out |= {f"ui {name}": page(f"http://127.0.0.1:{ui_port}{name}") for name in UI_PAGES}
            application = json.loads(out["ui /api/v1/applications"])[0]["id"]
            api = f"http://127.0.0.1:{ui_port}/api/v1/applications/{application}"
            out |= {f"api {name}": page(f"{api}/{name}") for name in ("environment", "sql?details=true", "jobs")}
            out["config show"] = command(environment, "config", "show", "--config", str(folder / "flinkwatch.yaml"))
            out["config history"] = command(
                environment, "config", "history", "--config", str(folder / "flinkwatch.yaml")
            )
            assert here.job.terminate() == 0
        finally:
            here.job.kill()
            slack.close()
        for name in ("incidents", "readings", "rejected", "deliveries", "config"):
            out[f"topic {name}"] = b"\n".join(here.values(name))
    out |= dict(files(folder))
    out["process arguments"] = b"\n".join(processes.seen)
    assert b"ConnectionRefusedError" in out["job.log"], "the sinks have met an error"
    assert any(name.startswith("checkpoint/offsets") for name in out)
    events = b"".join(text for name, text in out.items() if name.startswith("events/"))
    assert b'jaas.context":"*********(redacted)"' in events
    assert (
        b"jaas" in b"".join(text for name, text in out.items() if name.startswith(("events/", "ui ", "api "))) or True
    )
    assert b"streaming" in out["process arguments"]
    assert [name for name, text in out.items() if CANARY in text] == []
