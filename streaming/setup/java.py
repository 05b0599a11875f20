"""Finds the Java that Spark and the embedded broker run on.

Runs before anything is installed: standard library only.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

OLDEST = 17
"""The oldest Java that the class files of Spark 4 load on."""

PRIVATE_HOME = Path(__file__).resolve().parents[2] / ".flinkwatch" / "java"
"""Where bin/setup puts a runtime of its own on a machine that has none."""


class JavaNotFoundError(RuntimeError):
    """No Java is new enough; the message says what to do."""


def find_java() -> Path:
    """The directory to use as JAVA_HOME: from the environment, from PATH, or the one bin/setup made."""
    seen = []
    for origin, home in _candidates():
        found = version(home)
        if found is not None and found >= OLDEST:
            return home
        seen.append(f"{origin} ({home}) is " + ("not a Java that runs" if found is None else f"Java {found}"))
    raise JavaNotFoundError(
        f"Java {OLDEST} or newer was not found: {'; '.join(seen) or 'JAVA_HOME is not set and PATH has no java'}. "
        f"Run bin/setup, which installs one for this project, or set JAVA_HOME."
    )


def version(home: Path) -> int | None:
    """The feature release (8, 11, 17, 21 …) of the Java in `home`, None where there is none that runs."""
    java = home / "bin" / "java"
    if not os.access(java, os.X_OK):
        return None
    # Every JDK since 8 has this file; reading it saves the start of a JVM.
    try:
        released = re.search(r'^JAVA_VERSION="([^"]+)"', (home / "release").read_text(), re.MULTILINE)
    except OSError:
        released = None
    return _feature(released[1]) if released else _ask(java)


def _candidates() -> Iterator[tuple[str, Path]]:
    if named := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(named)
    if on_path := shutil.which("java"):
        yield "java on PATH", Path(on_path).resolve().parents[1]
    if PRIVATE_HOME.exists():
        yield "the one of bin/setup", PRIVATE_HOME


def _ask(java: Path) -> int | None:
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    said = re.search(r'version "([^"]+)"', answer.stderr + answer.stdout)
    return _feature(said[1]) if said else None


def _feature(text: str) -> int | None:
    """17 for "17.0.15" and 8 for "1.8.0_292"."""
    found = re.match(r"(?:1\.)?(\d+)", text)
    return int(found[1]) if found else None


if __name__ == "__main__":
    # bin/setup asks whether one has to be installed.
    try:
        find_java()
    except JavaNotFoundError:
        sys.exit(1)
