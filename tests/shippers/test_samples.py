"""What real shippers wrote of a real log: the fast part of test_shippers.py."""

from pathlib import Path

import pytest

from streaming.recordings.recording import records_of
from tests.shippers.programs import LOG_SHIPPERS, METRIC_SHIPPERS, PROJECT, configuration
from tests.shippers.shipped import SAMPLES, judge, pages_as_shipped, points

LOGS = {shipper.name for shipper in LOG_SHIPPERS}
METRICS = {shipper.name for shipper in METRIC_SHIPPERS}


def sample(name: str) -> Path:
    return SAMPLES / f"{name}.jsonl.gz"


@pytest.mark.parametrize("name", sorted(LOGS))
def test_the_logs_give_the_incident(name: str) -> None:
    judge(records_of(sample(name)))


@pytest.mark.parametrize("name", sorted(METRICS))
def test_the_metrics_are_those_of_the_pages(name: str) -> None:
    assert points(records_of(sample(name))) == pages_as_shipped()


@pytest.mark.parametrize("heading", ["Filebeat", "Telegraf"])
def test_the_first_steps_have_the_same_configuration(heading: str) -> None:
    assert configuration(heading) in (PROJECT / "docs" / "index.md").read_text(encoding="utf-8")
