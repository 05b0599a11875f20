"""A node without containers: a thread that tells the API server of each pod what a kubelet would."""

import threading
from types import TracebackType
from typing import Self

from tests.e2e.kubernetes.control_plane import ControlPlane, Object

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "node", "labels": {"kubernetes.io/os": "linux", "kubernetes.io/hostname": "node"}},
}
ROOM = {"cpu": "16", "memory": "64Gi", "ephemeral-storage": "200Gi", "pods": "110"}
DRIVER = {"app.kubernetes.io/name": "flinkwatch", "app.kubernetes.io/component": "driver"}


class Kubelet:
    """Pods of its node are ready at once; one that is deleted takes `last_words` seconds to end.

    It sees every change of every pod in order: `at_once` is how many drivers existed at one time at most, `on_node` how
    many of them had been given to the node.
    """

    def __init__(self, plane: ControlPlane, last_words: float = 1.0) -> None:
        self.at_once = self.on_node = 0
        self._plane = plane
        self._last_words = last_words
        self._drivers: dict[str, Object] = {}
        self._ends: dict[str, threading.Timer] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._plane.ask("POST", "/api/v1/nodes", NODE)
        ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
        status = {"status": {"capacity": ROOM, "allocatable": ROOM, "conditions": ready}}
        self._patch("/api/v1/nodes/node/status", status)
        # The API server keeps pods off a new node until its controller has seen it ready.
        self._patch("/api/v1/nodes/node", {"spec": {"taints": None}})
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(30)
        for end in self._ends.values():
            end.join(30)

    def forget(self) -> None:
        """Count from now on."""
        self.at_once = self.on_node = 0

    def _run(self) -> None:
        version = self._plane.ask("GET", "/api/v1/pods")["metadata"]["resourceVersion"]
        while not self._over.is_set():
            # A watch that follows another one goes on where that ended: no change is left out.
            for event in self._plane.watch("/api/v1/pods", version, seconds=2):
                version = event["object"]["metadata"]["resourceVersion"]
                self._seen(event["type"], event["object"])

    def _seen(self, change: str, pod: Object) -> None:
        meta, ours = pod["metadata"], pod["spec"].get("nodeName") == "node"
        if meta.get("labels", {}).items() >= DRIVER.items():
            self._drivers[meta["uid"]] = pod
            if change == "DELETED":
                del self._drivers[meta["uid"]]
            self.at_once = max(self.at_once, len(self._drivers))
            self.on_node = max(self.on_node, sum("nodeName" in p["spec"] for p in self._drivers.values()))
        if change == "DELETED" or not ours:
            return
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        if "deletionTimestamp" in meta:
            if meta["uid"] not in self._ends:
                self._ends[meta["uid"]] = threading.Timer(self._last_words, self._end, (path, meta["uid"]))
                self._ends[meta["uid"]].start()
        elif pod["status"]["phase"] == "Pending":
            self._begin(path, pod)

    def _begin(self, path: str, pod: Object) -> None:
        """May be called several times for a pod, until it is seen running."""
        conditions = [{"type": kind, "status": "True"} for kind in ("Initialized", "ContainersReady", "Ready")]
        self._patch(f"{path}/status", {"status": {"phase": "Running", "conditions": conditions}})

    def _end(self, path: str, uid: str) -> None:
        """The container has ended. A successor of the same name has another uid and is left alone."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        self._plane.ask("DELETE", path, options)

    def _patch(self, path: str, change: Object) -> None:
        self._plane.ask("PATCH", path, change, "application/strategic-merge-patch+json")
