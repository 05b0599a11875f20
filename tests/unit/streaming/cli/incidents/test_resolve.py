"""`flinkwatch incident resolve`: what it asks the job, when it is done, and what it refuses."""

from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from detectors.incident import Transition
from detectors.settings.live import PublishedResolution, read_change
from streaming.cli.main import cli
from streaming.errors import ConfigError, PublishedError
from tests.unit.sinks.samples import make_transition
from tests.unit.streaming.configuration.memory_topic import MemoryTopic

OPEN = make_transition(incident="open", cluster="prod-eu")
ENDED = make_transition(incident="ended", transition="resolved")
PART = make_transition(incident="part", transition="resolved", part_of="whole")


class Job:
    """The topics in memory; the job, if it runs, ends what it is asked to before the next look."""

    def __init__(self, runs: bool = True) -> None:
        self.runs = runs
        self.config: Any = MemoryTopic()
        self.incidents = {one.incident: one for one in (OPEN, ENDED, PART)}

    def asked(self) -> list[PublishedResolution]:
        found = [read_change(key, value) for key, value in self.config.records]
        return [one for one in found if isinstance(one, PublishedResolution)]

    def newest(self, *_: Any) -> dict[bytes, bytes]:
        for one in self.asked() if self.runs else ():
            last: Transition = one.last
            reason = one.reason
            end = msgspec.structs.replace(last, seq=last.seq + 1, transition="resolved", reason=reason)
            self.incidents[last.incident] = end
        return {name.encode(): msgspec.json.encode(one) for name, one in self.incidents.items()}


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Job:
    made = Job()
    monkeypatch.setattr("streaming.configuration.topic.ConfigTopic", lambda *_: made.config)
    monkeypatch.setattr("streaming.cli.incidents.known_incidents.newest", made.newest)
    return made


def resolve(incident: str, *more: str, comment: str = "taken down") -> Result:
    arguments = ["incident", "resolve", incident, "--comment", comment, "--author", "ann", *more]
    return CliRunner().invoke(cli, arguments, catch_exceptions=False)


def test_the_job_is_asked_with_name_reason_and_last_transition_and_the_end_is_printed(job: Job) -> None:
    done = resolve("open")
    (asked,) = job.asked()
    assert (asked.last, asked.by, asked.comment) == (OPEN, "ann", "taken down")
    assert done.stdout.startswith("Resolved incident open at ")
    assert done.stdout.endswith(": resolved by ann: taken down\n")


def test_a_second_time_is_refused_because_it_has_resolved(job: Job) -> None:
    resolve("open")
    with pytest.raises(PublishedError, match=r"^incident open was resolved at "):
        resolve("open")
    assert len(job.asked()) == 1


@pytest.mark.parametrize(
    ("incident", "sentence"),
    [
        ("nosuch", r"has no incident nosuch; `flinkwatch status` lists the open ones"),
        ("ended", r"^incident ended was resolved at "),
        ("part", r"and is part of whole, which may be open"),
    ],
)
def test_what_is_not_open_is_refused_with_the_reason(job: Job, incident: str, sentence: str) -> None:
    with pytest.raises(PublishedError, match=sentence):
        resolve(incident)
    assert job.asked() == []


@pytest.mark.parametrize("comment", ["", "  ", "x" * 501])
def test_it_needs_a_reason_of_a_sensible_length(job: Job, comment: str) -> None:
    with pytest.raises(ConfigError, match=r"^--comment: needs 1 to 500 characters"):
        resolve("open", comment=comment)
    assert job.asked() == []


def test_without_a_job_the_command_reports_that_the_request_is_kept(job: Job) -> None:
    job.runs = False
    with pytest.raises(PublishedError, match=r"has not resolved incident open within 0\.1 s\. The request is kept"):
        resolve("open", "--timeout", "100ms")
    assert len(job.asked()) == 1
