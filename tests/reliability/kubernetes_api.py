"""A stand-in for Kubernetes: an API server that holds pods and keeps to a Role, and a kubelet that runs them here.

It takes what Spark's driver asks of the real one. A container is a process here that runs the image's entry point.
"""

import itertools
import json
import os
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.embedded.broker import LEASH
from tests.reliability.kubernetes_http import Handler
from tests.unit.k8s.manifests import PROJECT, problems

Object = dict[str, Any]
OLDEST = "1.30"


class Kubernetes:
    """One namespace. `rules` is what the caller may do; `environment` what the image would bring."""

    def __init__(self, namespace: str, rules: list[Object], environment: dict[str, str], logs: Path) -> None:
        self.namespace = namespace
        self.pods: dict[str, Object] = {}
        self.created: list[Object] = []
        self.used: set[str] = set()
        self.denied: list[str] = []
        self.refused: list[str] = []
        self._rules = rules
        self._environment = environment
        self._logs = logs
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._watchers: list[queue.Queue[Object]] = []
        self._versions = itertools.count(1)
        self._lock = threading.RLock()
        handler = type("Handler", (Handler,), {"kubernetes": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        for process in self._processes.values():
            process.kill()

    @property
    def address(self) -> str:
        """Of the API server."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def allows(self, verb: str, resource: str) -> bool:
        """Whether the Role has it; kept, so that a test can compare what is used with what is given."""
        self.used.add(verb)
        if any(resource in rule["resources"] and verb in rule["verbs"] for rule in self._rules):
            return True
        self.denied.append(f"{verb} {resource}")
        return False

    def add(self, pod: Object) -> Object:
        """A pod that nobody runs, such as the driver's own."""
        with self._lock:
            name = pod["metadata"]["name"]
            pod["metadata"].update(
                namespace=self.namespace, uid=f"uid-{name}", resourceVersion=str(next(self._versions))
            )
            pod.setdefault("status", {"phase": "Pending"})
            self.pods[name] = pod
            self._tell("ADDED", pod)
            return pod

    def create(self, pod: Object) -> Object:
        """A pod from the API: checked, then run."""
        self.refused += problems(pod, OLDEST)
        self.created.append(json.loads(json.dumps(pod)))
        pod = self.add(pod)
        threading.Thread(target=self._run, args=(pod,), daemon=True).start()
        return pod

    def delete(self, name: str) -> None:
        """The pod and its process."""
        with self._lock:
            pod = self.pods.pop(name)
            self._tell("DELETED", pod)
        if name in self._processes:
            self._processes[name].terminate()

    def kill(self, name: str) -> None:
        """The node kills the container, as when it is out of memory."""
        self._processes[name].kill()

    def select(self, selector: str) -> list[Object]:
        """Pods by labels: `a=b,c!=d,e in (f,g)`."""
        terms = re.findall(r"([^,=! ]+)(?:(!?=)([^,]*)| in \(([^)]*)\))", selector)
        return [p for p in self.pods.values() if all(_fits(p["metadata"].get("labels", {}), *t) for t in terms)]

    def watch(self) -> Iterator[Object]:
        """Changes from now on; ends with the server."""
        events: queue.Queue[Object] = queue.Queue()
        self._watchers.append(events)
        while True:
            yield events.get()

    def _run(self, pod: Object) -> None:
        name = pod["metadata"]["name"]
        (container,) = pod["spec"]["containers"]
        self._processes[name] = process = run_container(pod, self._environment, self._logs)
        self._change(name, {"phase": "Running", "containerStatuses": [_status(container, {"running": {}})]})
        code = process.wait()
        ended = {"terminated": {"exitCode": code % 256, "reason": "Error" if code else "Completed"}}
        phase = "Failed" if code else "Succeeded"
        self._change(name, {"phase": phase, "containerStatuses": [_status(container, ended)]})

    def _change(self, name: str, status: Object) -> None:
        with self._lock:
            if name in self.pods:
                self.pods[name]["status"] = status
                self.pods[name]["metadata"]["resourceVersion"] = str(next(self._versions))
                self._tell("MODIFIED", self.pods[name])

    def _tell(self, kind: str, pod: Object) -> None:
        event = {"type": kind, "object": json.loads(json.dumps(pod))}
        for watcher in self._watchers:
            watcher.put(event)


def run_container(pod: Object, environment: dict[str, str], logs: Path) -> subprocess.Popen[bytes]:
    """The pod's one container as a process here; its output is in `logs`, in a file of the pod's name."""
    name = pod["metadata"]["name"]
    (container,) = pod["spec"]["containers"]
    fields = {"status.podIP": "127.0.0.1", "metadata.name": name}
    own = {
        e["name"]: e["value"] if "value" in e else fields[e["valueFrom"]["fieldRef"]["fieldPath"]]
        for e in container["env"]
    }
    # Its own directories are mounted where this machine has none.
    own["SPARK_LOCAL_DIRS"] = str(logs)
    command = ["/bin/bash", str(PROJECT / "docker" / "entrypoint.sh"), *container["args"]]
    folder = logs / name
    folder.mkdir()
    with (logs / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(LEASH), str(os.getpid()), *command],
            env={**os.environ, **environment, **own},
            stdout=log,
            stderr=log,
            cwd=folder,
            start_new_session=True,
        )


def _fits(labels: dict[str, str], label: str, operator: str, value: str, values: str) -> bool:
    if operator:
        return (labels.get(label) == value) == (operator == "=")
    return labels.get(label) in values.split(",")


def _status(container: Object, state: Object) -> Object:
    return {"name": container["name"], "image": container["image"], "imageID": "", "ready": True, "state": state} | {
        "restartCount": 0
    }
