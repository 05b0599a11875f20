"""The readers of a job and what they commit: names are kept once, and only while a reader has them."""

import pytest

from detectors.events.event import Sample
from detectors.flink.offset_commits import OffsetCommits
from tests.unit.detectors.story import JOB
from tests.unit.detectors.streams import START


def test_a_name_that_no_reader_has_any_more_gives_its_number_to_another() -> None:
    commits = OffsetCommits()
    for n in range(1_000):
        labels = {"job_id": JOB, "tm_id": f"tm-{n}", "operator_name": "Source", "subtask_index": str(n % 2)}
        commits.measure(Sample("current_offset", {**labels, "topic": f"orders-{n}"}, -1), START + n)
    job = commits.jobs[JOB]
    assert len(job.tms) <= 3
    assert len(job.topics) <= 3
    assert job.on(job.readers.values()) == {"tm-998", "tm-999"}
    assert job.read_by(job.readers.values()) == "orders-998, orders-999"


def leaking(commits: OffsetCommits, after: int, subtask: str = "0") -> bool:
    """Sample a reader that owns a split and never commits. Returns whether it leaks by then."""
    labels = {"job_id": JOB, "tm_id": "tm-1", "operator_name": "Source", "subtask_index": subtask}
    commits.measure(Sample("current_offset", {**labels, "topic": "orders"}, -1), START + after)
    commits.measure(Sample("commits_succeeded", labels, 0), START + after)
    return bool(commits.leaking(JOB, 10, 60_000))


@pytest.mark.parametrize("reader_first", [True, False])
def test_the_order_in_which_the_first_two_processes_are_scraped_does_not_matter(reader_first: bool) -> None:
    """Without a restart and a commit all checkpoints since the job's start count."""
    commits = OffsetCommits()
    for after, completed in ((0, 40), (60_000, 52)):
        if reader_first:
            found = leaking(commits, after)
        for name, value in (("completed_checkpoints", completed), ("restarts", 0)):
            commits.measure(Sample(name, {"job_id": JOB}, value), START + after + (300 if reader_first else -300))
        if not reader_first:
            found = leaking(commits, after)
    assert found


def test_the_first_gauge_after_lines_is_no_restart() -> None:
    """The line of a checkpoint may be read before the gauge that counts it is sampled."""
    commits = OffsetCommits()
    for number in range(1, 5):
        commits.completed_line(JOB, number, START + 10_000 * number)
    leaking(commits, 41_000)
    for after, completed in ((42_000, 3), (102_000, 9), (162_000, 15)):
        commits.measure(Sample("completed_checkpoints", {"job_id": JOB}, completed), START + after)
        found = leaking(commits, after + 1_000)
    assert found
