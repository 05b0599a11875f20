"""Jars are those of their checksums, and Java reaches the network as other programs do. No test needs a network."""

import subprocess
from pathlib import Path

import pytest

from streaming.setup import fetch_jars
from streaming.setup.java import find_java

EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.fixture
def new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Ivy puts what it fetches; the checksums are those of two empty jars."""
    monkeypatch.setattr(fetch_jars, "JARS", tmp_path / "jars")
    monkeypatch.setattr(fetch_jars, "CHECKSUMS", tmp_path / "jars.sha256")
    (tmp_path / "jars.sha256").write_text(f"{EMPTY}  broker/b.jar\n{EMPTY}  spark/a.jar\n")
    return tmp_path / "new"


def retrieved(new: Path, jars: dict[str, bytes]) -> None:
    for name, content in jars.items():
        (new / name).parent.mkdir(parents=True, exist_ok=True)
        (new / name).write_bytes(content)


def test_jars_take_the_place_of_the_old_ones(new: Path) -> None:
    retrieved(fetch_jars.JARS, {"spark/old.jar": b""})
    retrieved(new, {"spark/a.jar": b"", "broker/b.jar": b""})
    fetch_jars.install(new)
    assert fetch_jars.hashes(fetch_jars.JARS) == {"spark/a.jar": EMPTY, "broker/b.jar": EMPTY}


@pytest.mark.parametrize(
    ("jars", "named"),
    [
        ({"spark/a.jar": b"another", "broker/b.jar": b""}, "spark/a.jar"),
        ({"spark/a.jar": b""}, "broker/b.jar"),
        ({"spark/a.jar": b"", "broker/b.jar": b"", "broker/extra.jar": b""}, "broker/extra.jar"),
    ],
)
def test_a_jar_that_is_not_the_recorded_one_is_refused(new: Path, jars: dict[str, bytes], named: str) -> None:
    retrieved(new, jars)
    with pytest.raises(fetch_jars.FetchError, match=f": {named}\\. .*record-jars"):
        fetch_jars.install(new)
    assert not fetch_jars.JARS.exists()


def test_a_settings_file_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FLINKWATCH_IVY_SETTINGS", "/nowhere/ivysettings.xml")
    assert fetch_jars.main([]) == 1
    assert capsys.readouterr().err == "FLINKWATCH_IVY_SETTINGS: there is no file /nowhere/ivysettings.xml.\n"


def test_where_the_users_cache_cannot_be_written_the_checkout_has_one(
    new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(new.parent))
    assert fetch_jars._cache() == new.parent / "flinkwatch" / "ivy"
    (new.parent / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(new.parent / "file"))
    assert fetch_jars._cache() == new.parent / "ivy"


def test_a_proxy_is_told_to_the_jvm_in_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(variable, raising=False)
    assert fetch_jars.proxy_options() == []
    monkeypatch.setenv("https_proxy", "http://me:hush%21@proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", "localhost, .example")
    assert set(fetch_jars.proxy_options()) == {
        "-Dhttps.proxyHost=proxy.example",
        "-Dhttps.proxyPort=3128",
        "-Dhttp.proxyUser=me",
        "-Dhttp.proxyPassword=hush!",
        "-Djdk.http.auth.tunneling.disabledSchemes=",
        "-Dhttp.nonProxyHosts=localhost|*.example",
    }


def test_of_a_failure_the_end_is_shown_and_of_a_success_nothing() -> None:
    script = "echo '.... (33kB)'; echo; echo 'Server access error'; exit "
    assert fetch_jars._failure_of(["sh", "-c", script + "3"]) == "Server access error"
    assert fetch_jars._failure_of(["sh", "-c", script + "0"]) == ""
    assert fetch_jars._failure_of(["sh", "-c", "exit 3"]) == "Ivy ended with status 3"


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    """The certificate of an authority that no Java knows."""
    trustme = pytest.importorskip("trustme")
    pem = tmp_path / "authority.pem"
    trustme.CA().cert_pem.write_to_path(str(pem))
    return pem


def test_java_is_given_the_authorities_of_this_machine_that_it_lacks(
    tmp_path: Path, authority: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = find_java().resolve()
    if next(home.glob("**/bin/keytool"), None) is None:
        pytest.skip("this Java has no keytool")
    for variable in fetch_jars._BUNDLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    (option,) = fetch_jars.truststore_options(home, tmp_path)
    store = option.removeprefix("-Djavax.net.ssl.trustStore=")
    command = [next(home.glob("**/bin/keytool")), "-list", "-keystore", store, "-storepass", "changeit"]
    listed = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout
    assert listed.count("machine-") == 1
    assert listed.count("trustedCertEntry") > 50, "and its own"


def test_a_java_that_lacks_none_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_jars, "certificates", list)
    assert fetch_jars.truststore_options(find_java(), tmp_path) == []
