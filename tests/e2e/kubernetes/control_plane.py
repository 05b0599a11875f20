"""etcd and the real control plane of Kubernetes as processes on 127.0.0.1; only the node is missing, see `kubelet`.

build.sh builds the programs. Certificates, keys and tokens are made for each run.
"""

import http.client
import json
import os
import secrets
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import trustme
import yaml

from tests.embedded.broker import LEASH
from tests.embedded.job_process import free_port
from tests.unit.k8s.manifests import PROJECT

Object = dict[str, Any]

BUILT = PROJECT / ".flinkwatch" / "kubernetes"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
# All that moves an installation needs; not those that watch a node, which here has no heartbeat.
CONTROLLERS = (
    "deployment-controller,replicaset-controller,statefulset-controller,disruption-controller,namespace-controller,"
    "serviceaccount-controller,garbage-collector-controller,persistentvolume-binder-controller,"
    "persistentvolumeclaim-protection-controller,persistentvolume-protection-controller"
)
START_S = 180
"""A busy machine needs half a minute for the API server alone."""


def program(name: str) -> str | None:
    """Where a program is: as the variable says (KUBE_APISERVER, ETCD, …), on PATH, or where build.sh puts it."""
    return os.environ.get(name.upper().replace("-", "_")) or shutil.which(name, path=f"{os.environ['PATH']}:{BUILT}")


def missing() -> list[str]:
    """The programs that are not there."""
    return [name for name in (*PROGRAMS, "kubectl") if not program(name)]


class ControlPlane:
    """A cluster without nodes. Its processes end with the `with` block, and with this process at the latest."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._token = secrets.token_urlsafe()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._trust = ssl.create_default_context()

    def __enter__(self) -> Self:
        try:
            self._write_files()
            store = self._start_etcd()
            self._start_api_server(store)
            self._wait("kube-apiserver", lambda: self._answers("/readyz"))
            config = f"--kubeconfig={self._folder / 'kubeconfig'}"
            alone = ("--leader-elect=false", "--secure-port=0")
            self._start("kube-controller-manager", config, *alone, f"--controllers={CONTROLLERS}")
            self._start("kube-scheduler", config, *alone)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    @property
    def address(self) -> str:
        """Of the API server."""
        return f"https://127.0.0.1:{self._port}"

    @property
    def authority(self) -> Path:
        """The certificate that vouches for the API server's."""
        return self._folder / "ca.pem"

    @property
    def environment(self) -> dict[str, str]:
        """With it kubectl speaks to this cluster."""
        mine = {"KUBECONFIG": str(self._folder / "kubeconfig"), "KUBECACHEDIR": str(self._folder / "cache")}
        return {**os.environ, **mine}

    def kubectl(self, *arguments: str, given: object = None) -> subprocess.CompletedProcess[str]:
        """Run kubectl, with `given` as a manifest on its input."""
        return subprocess.run(
            ["kubectl", *arguments],
            input=None if given is None else yaml.safe_dump_all(given if isinstance(given, list) else [given]),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def done(self, *arguments: str, given: object = None) -> str:
        """What kubectl prints when it succeeds, as it must."""
        done = self.kubectl(*arguments, given=given)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def ask(self, method: str, path: str, body: object = None, content: str = "application/json") -> Object:
        """One call of the API; an error is an answer, of kind Status."""
        with closing(self._connection(60)) as connection:
            headers = self._headers | {"Content-Type": content}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            return json.load(connection.getresponse())  # type: ignore[no-any-return]

    def watch(self, path: str, version: str, seconds: int) -> Iterator[Object]:
        """The changes of objects after a version; ends after some seconds."""
        query = f"watch=true&resourceVersion={version}&timeoutSeconds={seconds}"
        with closing(self._connection(seconds + 60)) as connection:
            connection.request("GET", f"{path}?{query}", headers=self._headers)
            for line in connection.getresponse():
                yield json.loads(line)

    def _write_files(self) -> None:
        authority = trustme.CA()
        authority.cert_pem.write_to_path(self.authority)
        authority.configure_trust(self._trust)
        server = authority.issue_cert("127.0.0.1")
        server.private_key_pem.write_to_path(self._folder / "server.key")
        server.cert_chain_pems[0].write_to_path(self._folder / "server.pem")
        authority.issue_cert("accounts").private_key_pem.write_to_path(self._folder / "accounts.key")
        (self._folder / "tokens.csv").write_text(f"{self._token},admin,admin,system:masters\n")
        server_of = {"server": self.address, "certificate-authority": str(self.authority)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
            "clusters": [{"name": "test", "cluster": server_of}],
            "users": [{"name": "admin", "user": {"token": self._token}}],
        }
        (self._folder / "kubeconfig").write_text(yaml.safe_dump(config))

    def _start_etcd(self) -> str:
        clients, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self._start(
            "etcd",
            f"--data-dir={self._folder / 'etcd'}",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            "--unsafe-no-fsync",
        )
        return clients

    def _start_api_server(self, store: str) -> None:
        accounts = self._folder / "accounts.key"
        self._start(
            "kube-apiserver",
            f"--etcd-servers={store}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._port}",
            f"--tls-cert-file={self._folder / 'server.pem'}",
            f"--tls-private-key-file={self._folder / 'server.key'}",
            f"--token-auth-file={self._folder / 'tokens.csv'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={accounts}",
            f"--service-account-signing-key-file={accounts}",
            "--authorization-mode=Node,RBAC",
            "--service-cluster-ip-range=10.96.0.0/16",
        )

    def _start(self, name: str, *arguments: str) -> None:
        path = program(name)
        assert path is not None
        command = [sys.executable, "-I", "-S", str(LEASH), str(os.getpid()), str(Path(path).resolve()), *arguments]
        with (self._folder / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._folder
            )

    def _wait(self, name: str, met: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_S
        while not met():
            dead = [n for n, p in self._processes.items() if p.poll() is not None]
            assert not dead, f"{dead[0]} ended: {self._log(dead[0])}"
            assert time.monotonic() < deadline, f"{name} is not ready: {self._log(name)}"
            time.sleep(0.2)

    def _answers(self, path: str) -> bool:
        with suppress(OSError, http.client.HTTPException), closing(self._connection(5)) as connection:
            connection.request("GET", path, headers=self._headers)
            return connection.getresponse().status == 200
        return False

    def _connection(self, seconds: float) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self._port, timeout=seconds, context=self._trust)

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"}

    def _log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text()[-3000:]

    def _stop(self) -> None:
        # Those that need another one end before it.
        for process in reversed(self._processes.values()):
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(30)
