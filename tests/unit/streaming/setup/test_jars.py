"""The jars are where bin/setup put them, or where the environment says."""

from pathlib import Path

import pytest

from streaming.setup.jars import jars_of


def test_the_environment_names_another_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for jar in ("spark/b.jar", "spark/a.jar", "spark/notes.txt", "broker/c.jar"):
        (tmp_path / jar).parent.mkdir(exist_ok=True)
        (tmp_path / jar).touch()
    monkeypatch.setenv("FLINKWATCH_JARS", str(tmp_path))
    assert [jar.name for jar in jars_of("spark")] == ["a.jar", "b.jar"]
    assert [jar.name for jar in jars_of("broker")] == ["c.jar"]


def test_without_jars_the_error_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLINKWATCH_JARS", str(tmp_path))
    with pytest.raises(RuntimeError, match=f"{tmp_path}/spark: .*Run bin/setup"):
        jars_of("spark")
