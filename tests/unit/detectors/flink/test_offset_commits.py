"""The readers of a job and what they commit: names are kept once, and only while a reader has them."""

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
