"""The driver of `cluster` against the real API server: its executors come by the rights of its account."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import Installation
from tests.e2e.kubernetes.control_plane import ControlPlane, Object
from tests.e2e.kubernetes.installation import Installed, eventually, needs_control_plane
from tests.e2e.kubernetes.kubelet import Kubelet
from tests.e2e.reloading import committed
from tests.e2e.test_job import recorded, replayed
from tests.reliability.kubernetes_api import run_container
from tests.reliability.test_executors_on_kubernetes import (
    DRIVER,
    environment,
    set_environment,
    spark_settings,
    wait_as_kubernetes,
)

pytestmark = [pytest.mark.e2e, pytest.mark.slow, needs_control_plane]

EXECUTORS = ("pods", "--selector", "spark-role=executor")


class NodeWithExecutors(Kubelet):
    """Runs the containers of executors, as processes of this machine."""

    def __init__(self, plane: ControlPlane, logs: Path) -> None:
        super().__init__(plane)
        self._logs = logs
        self._alive: dict[str, threading.Thread] = {}
        self._stop: dict[str, Callable[[], None]] = {}

    def _begin(self, path: str, pod: Object) -> None:
        if pod["metadata"]["labels"].get("spark-role") != "executor":
            super()._begin(path, pod)
        elif path not in self._alive:
            self._alive[path] = threading.Thread(target=self._live, args=(path, pod), daemon=True)
            self._alive[path].start()

    def _live(self, path: str, pod: Object) -> None:
        process = run_container(pod, environment(), self._logs)
        self._stop[path] = process.terminate
        self._report(path, pod, "Running", {"running": {}})
        code = process.wait()
        reason = {"exitCode": code % 256, "reason": "Error" if code else "Completed"}
        self._report(path, pod, "Failed" if code else "Succeeded", {"terminated": reason})

    def _report(self, path: str, pod: Object, phase: str, state: Object) -> None:
        (container,) = pod["spec"]["containers"]
        status: dict[str, Any] = {"name": container["name"], "image": container["image"], "imageID": "", "state": state}
        status |= {"ready": "running" in state, "restartCount": 0}
        self._patch(f"{path}/status", {"status": {"phase": phase, "podIP": "127.0.0.1", "containerStatuses": [status]}})

    def _end(self, path: str, uid: str) -> None:
        if path in self._alive:
            self._stop[path]()
            self._alive[path].join(60)
        super()._end(path, uid)


def test_spark_makes_and_removes_its_executors_with_the_rights_of_the_drivers_account(
    plane: ControlPlane,
    installation: Callable[..., Installation],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Installed(plane)
    with NodeWithExecutors(plane, tmp_path):
        cluster.make()
        assert cluster.apply("cluster").returncode == 0
        cluster.rolled_out("statefulset/flinkwatch")
        token = tmp_path / "token"
        token.write_text(plane.done("--namespace", "flinkwatch", "create", "token", "flinkwatch").strip())
        access = {
            "spark.kubernetes.authenticate.caCertFile": str(plane.authority),
            "spark.kubernetes.authenticate.oauthTokenFile": str(token),
        }
        set_environment(monkeypatch, "flinkwatch")
        spark = spark_settings(tmp_path) | access
        here = installation(master=f"k8s://{plane.address}", shuffle_partitions=2, spark=spark)
        here.create_inputs()
        stored = here.send(recorded("late-barrier-acks"))
        here.job.start()
        wait_as_kubernetes(here, lambda: committed(here, stored))
        executors = cluster.get(*EXECUTORS)["items"]
        assert [e["metadata"]["ownerReferences"][0]["name"] for e in executors] == [DRIVER, DRIVER]
        assert here.job.terminate() == 0
        # Spark asks for their end; that of the pod would bring it, too.
        eventually(lambda: cluster.get(*EXECUTORS)["items"] == [])
        cluster.remove()
    assert [t.cause for t in here.transitions()][-1] == replayed(stored, here.metrics)[-1].cause == "late_barrier_acks"
