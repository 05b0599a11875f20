"""What ships in docker/, as far as it can be held without building an image; docker/test.sh builds and runs it."""

import fnmatch
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
COMPOSE: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
ONCE = {"topics", "player"}


@pytest.mark.parametrize("service", SERVICES)
def test_every_version_is_pinned_and_what_stays_up_has_a_health_check(service: str) -> None:
    settings = SERVICES[service]
    name, _, tag = settings["image"].rpartition(":")
    assert name
    assert re.search(r"\d+\.\d+\.\d+", tag), "no version"
    assert service in ONCE or settings["healthcheck"]["test"]
    assert service in ONCE or settings["restart"] in {"unless-stopped", "on-failure:3"}
    assert all(port.startswith("127.0.0.1:") for port in settings.get("ports", ()))


@pytest.mark.parametrize("service", ["flinkwatch", "player"])
def test_our_containers_may_do_nothing_they_need_not(service: str) -> None:
    settings = SERVICES[service]
    assert settings["user"] == "185:185"
    assert settings["read_only"] is True
    assert settings["cap_drop"] == ["ALL"]
    assert settings["security_opt"] == ["no-new-privileges:true"]


def test_what_is_mounted_from_the_project_is_there() -> None:
    for service in SERVICES.values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert source in COMPOSE["volumes"] or (DOCKER / source).resolve().is_dir(), source


def test_the_build_sees_what_the_dockerfile_copies_and_nothing_that_is_secret_or_large() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    allowed = [line.removeprefix("!") for line in lines if line.startswith("!")]
    steps = (DOCKER / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    copies = [step.split()[1:-1] for step in steps if step.startswith("COPY ") and "--from" not in step]
    copied = [source for copy in copies for source in copy]
    assert len(copied) > 10
    for source in copied:
        assert (ROOT / source).exists(), source
        assert any(source == path or source.startswith(f"{path}/") for path in allowed), source
    assert "*" in lines
    assert (ROOT / ".containerignore").read_text() == (ROOT / ".dockerignore").read_text()
    for secret in ("docker/flinkwatch.env", ".git/config", ".flinkwatch/setup.log", "recording.jsonl.gz"):
        assert not any(secret == path or secret.startswith(f"{path}/") for path in allowed), secret
    assert subprocess.run(["git", "check-ignore", "docker/flinkwatch.env"], cwd=ROOT, check=False).returncode == 0


def test_what_is_left_out_of_the_image_is_of_the_locked_packages() -> None:
    """A pattern that fits nothing is out of date: jars are named with the versions pyspark ships."""
    packages = next(Path(p) for p in sys.path if p.endswith("site-packages"))
    lines = [line.strip() for line in (DOCKER / "left-out.txt").read_text().splitlines()]
    for pattern in (line for line in lines if line and not line.startswith("#")):
        assert next(packages.glob(pattern), None) is not None, pattern
    needed = ["rocksdbjni-9.jar", "spark-sql_2.13-4.jar", "spark-kubernetes_2.13-4.jar", "hadoop-client-api-3.jar"]
    for jar in needed:
        assert not any(fnmatch.fnmatch(f"pyspark/jars/{jar}", line) for line in lines), jar


def _enter(arguments: list[str], folder: Path, **environment: str) -> list[str]:
    """What the container's entry point would run: a stand-in says its arguments."""
    for name in ("java", "spark-submit", "flinkwatch"):
        program = folder / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\nprintf "%s\\n" {name} "$@"\n')
        program.chmod(0o755)
    done = subprocess.run(
        ["bash", str(DOCKER / "entrypoint.sh"), *arguments],
        env={"PATH": f"{folder}/bin:{os.environ['PATH']}", "SPARK_HOME": str(folder), **environment},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    return done.stdout.splitlines() or [done.stderr]


def test_the_entry_point_runs_flinkwatch(tmp_path: Path) -> None:
    assert _enter([], tmp_path) == ["flinkwatch"]
    assert _enter(["run", "--no-deliver"], tmp_path) == ["flinkwatch", "run", "--no-deliver"]


def test_the_entry_point_is_the_driver_of_spark_submit(tmp_path: Path) -> None:
    said = _enter(["driver", "--class", "X", "local:///x.py"], tmp_path, SPARK_DRIVER_BIND_ADDRESS="10.1.2.3")
    assert said[:3] == ["spark-submit", "--deploy-mode", "client"]
    assert "spark.driver.bindAddress=10.1.2.3" in said
    assert said[-3:] == ["--class", "X", "local:///x.py"]


def test_the_entry_point_is_an_executor_of_spark_on_kubernetes(tmp_path: Path) -> None:
    given = {
        "SPARK_DRIVER_URL": "spark://d:1",
        "SPARK_EXECUTOR_ID": "7",
        "SPARK_EXECUTOR_CORES": "2",
        "SPARK_EXECUTOR_MEMORY": "900m",
        "SPARK_APPLICATION_ID": "app",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
        "SPARK_EXECUTOR_POD_NAME": "pod-7",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_JAVA_OPT_0": "-Da=b c",
        "SPARK_JAVA_OPT_1": "--add-modules=jdk.incubator.vector",
        "JAVA_HOME": str(tmp_path),
    }
    said = _enter(["executor"], tmp_path, **given)
    assert said[:5] == ["java", "-Da=b c", "--add-modules=jdk.incubator.vector", "-Xms900m", "-Xmx900m"]
    assert "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend" in said
    for option, value in {"--driver-url": "spark://d:1", "--executor-id": "7", "--podName": "pod-7"}.items():
        assert said[said.index(option) + 1] == value
    del given["SPARK_DRIVER_URL"]
    assert "SPARK_DRIVER_URL" in _enter(["executor"], tmp_path, **given)[0]


@pytest.mark.parametrize(("status", "expected"), [(200, 0), (503, 1), (None, 1)])
def test_the_health_check_fails_unless_the_page_itself_says_200(status: int | None, expected: int) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status or 500)
            self.end_headers()
            self.wfile.write(b"query: no batch has finished yet\n")

        def log_message(self, *_args: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    url = f"http://127.0.0.1:{server.server_port}/-/ready"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    if status is None:
        server.server_close()
    else:
        thread.start()
    done = subprocess.run(
        [sys.executable, "-I", "-S", DOCKER / "health.py"],
        env={"FLINKWATCH_HEALTH_URL": url, "http_proxy": "http://127.0.0.1:9"},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    if status is not None:
        server.shutdown()
        server.server_close()
    assert done.returncode == expected
    assert (done.stdout + done.stderr).strip() == (
        "query: no batch has finished yet" if status else f"{url}: <urlopen error [Errno 111] Connection refused>"
    )
