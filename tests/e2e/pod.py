"""The pod of the `single` overlay under `podman kube play`, on this machine's network."""

import copy
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from tests.embedded.job_process import free_port
from tests.unit.k8s.manifests import find, overlay

IMAGE = os.environ.get("FLINKWATCH_POD_IMAGE", "")
VOLUMES = ("flinkwatch", "flinkwatch-state", "secrets")


class Pod:
    """The rendered Deployment as one pod that is not restarted, so that its exit status can be seen.

    `sections` go over flinkwatch.yaml of the overlay. The Secret has another key than those it names: podman, unlike
    Kubernetes, refuses a volume of an optional Secret that is not there.
    """

    def __init__(self, folder: Path, bootstrap: str, sections: dict[str, Any]) -> None:
        objects = copy.deepcopy(overlay("single"))
        self.port = free_port()
        config = find(objects, "ConfigMap")
        self.configuration = yaml.safe_load(config["data"]["flinkwatch.yaml"])
        self.configuration["kafka"]["access"]["bootstrap_servers"] = bootstrap
        self.configuration["sinks"]["prometheus"] = {"address": "127.0.0.1", "port": self.port}
        for section, values in sections.items():
            self.configuration.setdefault(section, {}).update(values)
        config["data"]["flinkwatch.yaml"] = yaml.safe_dump(self.configuration)
        # The claim alone makes podman's volume, or takes the one that is there.
        template = find(objects, "Deployment")["spec"]["template"]
        template["spec"]["restartPolicy"] = "Never"
        container = template["spec"]["containers"][0]
        container["image"] = IMAGE
        # On the machine's own network there are none to map.
        del container["ports"]
        for probe in ("startup", "liveness", "readiness"):
            container[f"{probe}Probe"]["httpGet"]["port"] = self.port
        template["metadata"]["name"] = "flinkwatch"
        played = [
            config,
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "flinkwatch"}, "data": {"unused": "dW51c2Vk"}},
            {"apiVersion": "v1", "kind": "Pod", **template},
        ]
        self._file = folder / "pod.yaml"
        self._file.write_text(yaml.safe_dump_all(played))

    def __enter__(self) -> Self:
        self.remove()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def play(self) -> None:
        """Start it."""
        podman("kube", "play", "--network", "host", str(self._file))

    def remove(self) -> None:
        """The pod, its Secret and its volumes."""
        podman("pod", "rm", "--force", "--ignore", "--time", "5", "flinkwatch")
        podman("secret", "rm", "flinkwatch", check=False)
        for volume in VOLUMES:
            podman("volume", "rm", "--force", volume, check=False)

    def stop(self) -> int:
        """SIGTERM, as Kubernetes sends it, with the grace period of the manifest; the exit status."""
        podman("stop", "--time", "90", "flinkwatch-flinkwatch")
        return self.exit_status()

    def exit_status(self) -> int:
        """Waits for the end."""
        return int(podman("wait", "flinkwatch-flinkwatch").splitlines()[-1])

    def log(self) -> str:
        """All that it said."""
        return podman("logs", "flinkwatch-flinkwatch")

    def probe(self, path: str) -> tuple[int, str]:
        """What the kubelet would see; 0 while nobody listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def metric(self, name: str) -> list[str]:
        """The lines of a metric."""
        return [x for x in self.probe("/metrics")[1].splitlines() if x.startswith(name)]

    def wait_for(self, met: Callable[[], object], within: float = 240.0) -> None:
        """Until `met`; fails with the end of the log."""
        deadline = time.monotonic() + within
        while not met():
            assert time.monotonic() < deadline, self.log()[-3000:]
            time.sleep(0.5)

    def change(self, text: str) -> None:
        """A new ConfigMap, put in place as the kubelet does: a new directory, and a link that is swapped at once."""
        volume = Path(podman("volume", "inspect", "--format", "{{.Mountpoint}}", "flinkwatch").strip())
        new = volume / f"..{time.time_ns()}"
        new.mkdir()
        (new / "flinkwatch.yaml").write_text(text)
        _link(volume / "..data", new.name)
        if not (volume / "flinkwatch.yaml").is_symlink():
            _link(volume / "flinkwatch.yaml", "..data/flinkwatch.yaml")


def _link(place: Path, target: str) -> None:
    draft = place.with_name("..draft")
    draft.symlink_to(target)
    draft.rename(place)


def podman(*arguments: str, check: bool = True) -> str:
    """Run podman; its output, both streams."""
    done = subprocess.run(["podman", *arguments], capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0 or not check, f"podman {' '.join(arguments)}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr
