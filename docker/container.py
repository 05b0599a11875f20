"""A container of the image for docker/check.py, hardened as in docker/compose.yaml and k8s/."""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.embedded.job_process import free_port

ENGINE, IMAGE = sys.argv[1:3]
HARDENED = ["--network=host", "--user=185:185", "--read-only", "--cap-drop=all", "--security-opt=no-new-privileges"]
HARDENED += ["--tmpfs=/tmp:exec,mode=1777,size=2g", "--memory=3g", "--pids-limit=1024"]


def passed(what: str) -> None:
    sys.stdout.write(f"  ok: {what}\n")
    sys.stdout.flush()


def require(held: bool, what: str, otherwise: str) -> None:
    if not held:
        sys.exit(f"docker/check.py: FAILED: {what}\n{otherwise}")
    passed(what)


class Container:
    """One container of the image, with its files in a folder of its own."""

    def __init__(self, name: str, configuration: dict[str, Any], *options: str) -> None:
        self.name = f"flinkwatch-check-{os.getpid()}-{name}"
        self.folder = Path(tempfile.mkdtemp(prefix="flinkwatch-check-"))
        self.port = free_port()
        self.state = self.folder / "state"
        self.state.mkdir()
        os.chown(self.state, 185, 185)
        (self.folder / "conf").mkdir()
        sinks = {**configuration.get("sinks", {}), "prometheus": {"address": "127.0.0.1", "port": self.port}}
        (self.folder / "conf" / "flinkwatch.yaml").write_text(yaml.safe_dump({**configuration, "sinks": sinks}))
        for path in (self.folder, *(self.folder / "conf").rglob("*"), self.folder / "conf"):
            path.chmod(0o755)
        self._options = [*HARDENED, f"--volume={self.folder}/conf:/etc/flinkwatch:ro", *options]
        self._options += [
            f"--volume={self.state}:/var/lib/flinkwatch",
            "--env=FLINKWATCH_CONFIG=/etc/flinkwatch/flinkwatch.yaml",
        ]
        self._options += [f"--env=FLINKWATCH_HEALTH_URL=http://127.0.0.1:{self.port}/-/healthy"]

    def start(self) -> None:
        engine("run", "--detach", "--name", self.name, *self._options, IMAGE)

    def ends(self, within: float) -> tuple[int, str]:
        """Wait for the end; return the exit status and the text of the last line of the log."""
        status = engine("wait", self.name, timeout=within)
        last = self.log().strip().splitlines()[-1]
        # The log is JSON from the moment that the configuration was read.
        return int(status), str(json.loads(last)["event"]) if last.startswith("{") else last

    def stop(self) -> int:
        engine("stop", "--time", "90", self.name, timeout=120)
        return int(engine("inspect", "--format", "{{.State.ExitCode}}", self.name))

    def log(self) -> str:
        return engine("logs", self.name)

    def inside(self, command: str) -> str:
        return engine("exec", self.name, "/bin/sh", "-c", command)

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=3) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def until(self, met: Callable[[], bool], within: float, what: str) -> float:
        """Wait for a condition; return the seconds that it took."""
        begun = time.monotonic()
        while not met():
            if (
                time.monotonic() - begun > within
                or engine("inspect", "--format", "{{.State.Running}}", self.name) != "true"
            ):
                seen = f"{self.get('/-/ready')}\n{self.log()[-3000:]}"
                sys.exit(f"docker/check.py: FAILED: {what}, not within {within:.0f} s\n{seen}")
            time.sleep(0.2)
        return time.monotonic() - begun

    def remove(self) -> None:
        subprocess.run([ENGINE, "rm", "--force", "--volumes", self.name], capture_output=True, timeout=60, check=False)


def engine(*arguments: str, timeout: float = 60) -> str:
    """Run a command of the container engine and return its output. Ends the check if the command fails."""
    command = [ENGINE, *arguments]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout, check=False
    )
    if done.returncode:
        sys.exit(f"docker/check.py: {' '.join(command)}: exit {done.returncode}\n{done.stdout}")
    return done.stdout.strip()
