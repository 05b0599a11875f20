import subprocess
from pathlib import Path

import pytest

from streaming.job.spark import class_archive
from streaming.setup.java import find_java


def test_without_an_archive_a_jvm_is_not_asked_to_use_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(class_archive, "ARCHIVE", tmp_path / "classes.jsa")
    assert class_archive.using() == ()
    class_archive.ARCHIVE.touch()
    assert f"-XX:SharedArchiveFile={class_archive.ARCHIVE}" in class_archive.using()


def test_an_archive_that_does_not_fit_is_ignored_without_a_word(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(class_archive, "ARCHIVE", tmp_path / "classes.jsa")
    class_archive.ARCHIVE.write_bytes(b"of another version" * 1_000)
    command = [find_java() / "bin" / "java", *class_archive.using(), "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert (done.stderr, done.stdout.splitlines()[0].split()[0]) == ("", "openjdk")
