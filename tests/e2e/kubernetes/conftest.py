"""The control plane with the operators' CRDs and a node, and a namespace for each test."""

from collections.abc import Iterator

import pytest

from tests.e2e.kubernetes.control_plane import ControlPlane
from tests.e2e.kubernetes.installation import Installed, definitions, eventually
from tests.e2e.kubernetes.kubelet import Kubelet


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("kubernetes")) as running:
        running.done("apply", "--server-side", "--filename", "-", given=list(definitions()))
        # kubectl gives up on a definition that has no status yet.
        established = ("wait", "crd", "--all", "--for=condition=Established", "--timeout=180s")
        eventually(lambda: running.kubectl(*established).returncode == 0)
        yield running


@pytest.fixture(scope="module")
def node(plane: ControlPlane) -> Iterator[Kubelet]:
    with Kubelet(plane) as kubelet:
        yield kubelet


@pytest.fixture
def installed(plane: ControlPlane, node: Kubelet) -> Iterator[Installed]:
    here = Installed(plane)
    here.make()
    node.forget()
    yield here
    here.remove()
