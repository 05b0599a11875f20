"""The cluster overlay with Spark's own Kubernetes scheduler: executors from its template, with its Role and no more."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyspark
import pytest
import yaml

from streaming.setup.java import find_java
from tests.e2e.conftest import installation as installation  # noqa: PLC0414 - a fixture
from tests.e2e.harness import Installation
from tests.e2e.reloading import committed
from tests.e2e.test_job import recorded, replayed
from tests.reliability.kubernetes_api import Kubernetes
from tests.unit.k8s.manifests import PROJECT, driver, find, overlay

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

NAMESPACE, DRIVER = "watchers", "flinkwatch-0"


def wait_as_kubernetes(here: Installation, met: Callable[[], bool]) -> None:
    """Until `met`. A driver that ends is started again: in the middle of a batch Spark does not survive the loss of a
    stage whose output it calls indeterminate.
    """
    deadline = time.monotonic() + 600
    while not met():
        assert time.monotonic() < deadline, here.job.log_tail()
        if here.job.exit_status() is not None:
            assert "indeterminate output" in here.job.log_tail()
            here.job.start()
        time.sleep(0.5)


def spark_settings(folder: Path) -> dict[str, str]:
    """`streaming.spark` of the overlay; only what one machine without the cluster's DNS and volumes has is changed."""
    files = find(overlay("cluster"), "ConfigMap")["data"]
    template = folder / "executor.yaml"
    template.write_text(files["executor.yaml"])
    spark: dict[str, str] = yaml.safe_load(files["flinkwatch.yaml"])["streaming"]["spark"]
    options = spark["spark.executor.extraJavaOptions"]
    return spark | {
        "spark.kubernetes.executor.podTemplateFile": str(template),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.port": "0",
        "spark.blockManager.port": "0",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": options.replace("/opt/flinkwatch", str(PROJECT)),
    }


def set_environment(monkeypatch: pytest.MonkeyPatch, namespace: str) -> None:
    """What the driver's pod is given."""
    monkeypatch.setenv("POD_NAMESPACE", namespace)
    monkeypatch.setenv("POD_NAME", DRIVER)
    monkeypatch.setenv("FLINKWATCH_IMAGE", "localhost/flinkwatch:dev")
    monkeypatch.setenv("KUBECONFIG", "/dev/null")


def environment() -> dict[str, str]:
    """What the image brings."""
    return {
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "JAVA_HOME": str(find_java()),
        "PYSPARK_PYTHON": sys.executable,
    }


def test_an_executor_killed_in_the_middle_loses_nothing_and_splits_nothing(
    installation: Callable[..., Installation], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = overlay("cluster")
    rules = find(objects, "Role", "flinkwatch-driver")["rules"]
    spark = spark_settings(tmp_path)
    set_environment(monkeypatch, NAMESPACE)
    with Kubernetes(NAMESPACE, rules, environment(), tmp_path) as kubernetes:
        template_of_driver = driver(objects)
        kubernetes.add(
            {"apiVersion": "v1", "kind": "Pod", "spec": template_of_driver["spec"], "metadata": {"name": DRIVER}}
        )
        here = installation(master=f"k8s://{kubernetes.address}", shuffle_partitions=2, spark=spark)
        here.create_inputs()
        records = recorded("late-barrier-acks")
        middle = next(i for i, r in enumerate(records) if b"Checkpoint 7 of job" in (r.value or b"")) + 1
        stored = here.send(records[:middle])
        here.job.start()
        wait_as_kubernetes(here, lambda: len(here.transitions()) >= 1)
        executors = {p["metadata"]["name"] for p in kubernetes.select("spark-role=executor")}
        assert len(executors) == 2
        kubernetes.kill(min(executors))
        wait_as_kubernetes(here, lambda: min(executors) not in kubernetes.pods and len(kubernetes.created) > 2)
        stored += here.send(records[middle:])
        wait_as_kubernetes(here, lambda: committed(here, stored))
        assert here.job.terminate() == 0
    said, expected = sorted(here.transitions(), key=lambda t: t.seq), replayed(stored, here.metrics)
    assert len({t.incident for t in said}) == 1
    assert [t.seq for t in said] == list(range(1, len(said) + 1))
    assert said[-1].cause == expected[-1].cause == "late_barrier_acks"
    # A batch may begin while records are still being sent: which numbers are told, and when, is a matter of luck.
    assert {f.kind for f in said[-1].findings} == {f.kind for f in expected[-1].findings}
    assert kubernetes.refused == []
    assert kubernetes.denied == []
    assert kubernetes.select("spark-role=executor") == []
    # The Role is the least that will do.
    assert kubernetes.used == {verb for rule in rules for verb in rule["verbs"]}
    for pod in kubernetes.created:
        assert pod["spec"]["containers"][0]["image"] == "localhost/flinkwatch:dev"
        assert pod["metadata"]["ownerReferences"][0]["name"] == DRIVER
        assert pod["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
