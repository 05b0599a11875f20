"""Every scenario, through the replay that ships: exactly the expected incidents, named in time, at their true place.

`expected.yaml` has two parts. `truth` is written by hand from what is known to have happened; `incidents` is what the
replay says, written by `pytest tests/scenarios --regenerate` and reviewed as a diff. `transitions.txt` and
`readings.txt` are all that it says, written by the same command: a change of the code that is meant to change nothing
leaves them as they are.
"""

from functools import cache
from typing import Any
from unittest.mock import patch

import pytest
import yaml

from detectors.engine import bucket
from detectors.engine.bucket import BucketOutput
from detectors.incident import Transition
from streaming.recordings.log_file import opened
from tests.recorded import NAMES, SCENARIOS, recording, records, said, summary
from tests.unfolded import readings_text, transitions_text

LONGEST_PLAIN = 200_000
WORST_MS = 60_000
EARLY_MS = 30 * 60_000


def _expected(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((SCENARIOS / name / "expected.yaml").read_text(encoding="utf-8"))
    return found


def _regenerate(name: str, incidents: list[dict[str, Any]]) -> None:
    file = SCENARIOS / name / "expected.yaml"
    truth = yaml.safe_load(file.read_text(encoding="utf-8"))["truth"] if file.exists() else []
    document = {"truth": truth, "incidents": incidents}
    file.write_text(yaml.safe_dump(document, sort_keys=False, width=120, allow_unicode=True), encoding="utf-8")


@cache
def _replayed(name: str) -> tuple[list[Transition], list[BucketOutput]]:
    """The transitions of a replay, and all that its steps say."""
    steps: list[BucketOutput] = []
    step = bucket.step

    def kept(*given: Any) -> BucketOutput:
        steps.append(step(*given))
        return steps[-1]

    with patch.object(bucket, "step", kept):
        return said(records(name)), steps


@pytest.mark.parametrize("name", NAMES)
def test_every_transition_and_every_series_of_readings_is_as_before(name: str, request: pytest.FixtureRequest) -> None:
    transitions, steps = _replayed(name)
    texts = {"transitions.txt": transitions_text(transitions), "readings.txt": readings_text(steps)}
    for file, text in texts.items():
        if request.config.getoption("--regenerate"):
            (SCENARIOS / name / file).write_text(text, encoding="utf-8")
        assert text.splitlines() == (SCENARIOS / name / file).read_text(encoding="utf-8").splitlines(), file


@pytest.mark.parametrize("name", NAMES)
def test_a_replay_says_exactly_the_expected_incidents(name: str, request: pytest.FixtureRequest) -> None:
    incidents = summary(_replayed(name)[0])
    if request.config.getoption("--regenerate"):
        _regenerate(name, incidents)
    assert incidents == _expected(name)["incidents"]


@pytest.mark.parametrize("name", NAMES)
def test_each_true_incident_is_said_once_with_its_cause_in_time_and_nothing_else_is(name: str) -> None:
    expected = _expected(name)
    truth, incidents = expected["truth"], expected["incidents"]
    assert [t["cause"] for t in truth] == [i["cause"] for i in incidents]
    for true, incident in zip(truth, incidents, strict=True):
        assert true["first_symptom"] - EARLY_MS <= incident["opened_at"]
        assert true["first_symptom"] <= incident["named_at"] <= true["confirmed"] + WORST_MS
        assert incident["end"] == true["end"]
        assert {**incident["entity"], **true["entity"]} == incident["entity"]


@pytest.mark.parametrize("name", NAMES)
def test_every_scenario_says_where_it_comes_from(name: str) -> None:
    assert (SCENARIOS / name / "README.md").read_text(encoding="utf-8").startswith(f"# {name}\n")


@pytest.mark.parametrize("name", NAMES)
def test_transitions_are_numbered_from_one_without_gaps_and_dated_in_order(name: str) -> None:
    seen: dict[str, tuple[int, int]] = {}
    for transition in _replayed(name)[0]:
        number, at = seen.get(transition.incident, (0, 0))
        assert transition.seq == number + 1
        assert transition.at >= at
        seen[transition.incident] = transition.seq, transition.at


@pytest.mark.parametrize("name", NAMES)
def test_an_input_is_plain_text_unless_it_is_long(name: str) -> None:
    """A review shows its lines; a compressed one needs a textconv."""
    with opened(recording(name)) as lines:
        size = sum(len(line) for line in lines)
    assert (recording(name).suffix == ".gz") == (size > LONGEST_PLAIN)
