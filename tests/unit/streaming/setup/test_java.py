"""Java is found where it is, and is really new enough."""

from pathlib import Path

import pytest

from streaming.setup import java


def runtime(home: Path, *, release: str | None = None, says: str = "exit 1") -> Path:
    """A JAVA_HOME with a program named java and, as most have, a file that tells its release."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\n{says}\n")
    program.chmod(0o755)
    if release is not None:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{release}"\n')
    return home


@pytest.fixture(autouse=True)
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without any Java, to which each test adds its own."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(java, "PRIVATE_HOME", tmp_path / "private")


@pytest.mark.parametrize(("release", "feature"), [("17.0.15", 17), ("1.8.0_292", 8), ("21", 21), ("25-ea", 25)])
def test_the_release_file_tells_the_version_without_starting_a_jvm(tmp_path: Path, release: str, feature: int) -> None:
    assert java.version(runtime(tmp_path / "jdk", release=release)) == feature


def test_without_a_release_file_java_is_asked(tmp_path: Path) -> None:
    home = runtime(tmp_path / "jdk", says="""echo 'openjdk version "21.0.2" 2024-01-16' >&2""")
    assert java.version(home) == 21


def test_a_java_that_does_not_run_is_none(tmp_path: Path) -> None:
    assert java.version(runtime(tmp_path / "jdk", says="echo no runtime is installed >&2; exit 1")) is None
    assert java.version(tmp_path / "nothing") is None


def test_java_home_wins_over_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = runtime(tmp_path / "named", release="17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(named))
    monkeypatch.setenv("PATH", str(runtime(tmp_path / "other", release="21.0.1") / "bin"))
    assert java.find_java() == named


def test_a_java_home_that_is_too_old_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(runtime(tmp_path / "old", release="11.0.2")))
    new = runtime(tmp_path / "new", release="17.0.1")
    monkeypatch.setenv("PATH", str(new / "bin"))
    assert java.find_java() == new


def test_a_link_on_path_is_followed_to_its_home(tmp_path: Path) -> None:
    home = runtime(tmp_path / "jvm", release="17.0.1")
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "java").symlink_to(home / "bin" / "java")
    assert java.find_java() == home


def test_the_private_runtime_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private = runtime(tmp_path / "private", release="21.0.8")
    assert java.find_java() == private
    on_path = runtime(tmp_path / "jdk", release="17.0.1")
    monkeypatch.setenv("PATH", str(on_path / "bin"))
    assert java.find_java() == on_path


def test_without_java_the_error_says_what_was_seen_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(java.JavaNotFoundError, match=r"PATH has no java.*Run bin/setup"):
        java.find_java()
    monkeypatch.setenv("JAVA_HOME", str(runtime(tmp_path / "old", release="1.8.0_292")))
    with pytest.raises(java.JavaNotFoundError, match=r"JAVA_HOME \(.*/old\) is Java 8"):
        java.find_java()
