"""What every error in a configuration file says: golden/config_errors.txt has each file and, below it, its error.

After a change on purpose run `python -m pytest <this file> --regenerate`, then read the difference.
"""

import re
from pathlib import Path

import pytest

from detectors.settings.live import LiveSettings
from streaming.configuration.settings import SECTIONS, load, validate
from streaming.configuration.yaml_document import read_document
from streaming.errors import ConfigError

GOLDEN = Path(__file__).with_name("golden") / "config_errors.txt"
_CASE = re.compile(r"^=== (.*)\n((?:(?!---).*\n)*)--- *\n((?:(?!=== ).*\n)*)", re.MULTILINE)
CASES = _CASE.findall(GOLDEN.read_text(encoding="utf-8"))


def error_of(folder: Path, text: str) -> str:
    file = folder / "bad.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        load(file, {})
    return str(error.value).replace(f"{file}", "bad.yaml") + "\n"


def test_every_error_is_as_recorded(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    recorded = "".join(f"=== {name}\n{text}---\n{error_of(tmp_path, text)}" for name, text, _ in CASES)
    if request.config.getoption("--regenerate"):
        GOLDEN.write_text(recorded, encoding="utf-8")
    assert recorded == GOLDEN.read_text(encoding="utf-8")


def test_no_error_shows_a_value_that_may_be_a_secret() -> None:
    assert "hunter2" not in "".join(error for _, _, error in CASES)


def test_every_error_has_the_line_of_its_key() -> None:
    """The line holds the last key of the place; an element of a list begins there; what is missing has its parent's."""
    looked_at = 0
    for _, text, error in CASES:
        for number, key, problem in re.findall(r"^bad\.yaml:(\d+): ([\w.\[\]]+): (.*)$", error, re.MULTILINE):
            line, last = text.splitlines()[int(number) - 1], key.split(".")[-1]
            there = line.startswith("- ") if last.endswith("]") else f"{last}:" in line
            assert there or problem.startswith("is required and missing"), (line, key)
            looked_at += 1
    assert looked_at > 30


def test_a_key_that_a_merge_overrides_is_no_duplicate(tmp_path: Path) -> None:
    file = tmp_path / "good.yaml"
    file.write_text(
        "overrides:\n"
        "- &usual {cluster: prod-*, detectors: {restart_loop: {count: 5}}}\n"
        "- {<<: *usual, cluster: test-*}\n"
    )
    overrides = validate(read_document(file, SECTIONS), {}).live.overrides
    assert [o.cluster for o in overrides] == ["prod-*", "test-*"]


def test_an_error_in_the_environment_names_the_variable() -> None:
    with pytest.raises(ConfigError, match=r"^FLINKWATCH__STREAMING__BUCKET: streaming\.bucket: unknown key"):
        load(None, {"FLINKWATCH__STREAMING__BUCKET": "3"})
    with pytest.raises(ConfigError, match=r"^FLINKWATCH__KAFKA: not YAML"):
        load(None, {"FLINKWATCH__KAFKA": "[a"})


def test_nothing_wrong_is_no_error(tmp_path: Path) -> None:
    file = tmp_path / "good.yaml"
    file.write_text("overrides: []\n")
    assert load(file, {}).live == LiveSettings()
