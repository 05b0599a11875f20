"""From what a job can be restored, by the lines that Flink has printed."""

import pytest

from detectors.flink.checkpointing.restore_points import RestorePoints
from detectors.flink.facts import CheckpointCompleted, CheckpointDirectorySet, CheckpointStorageSet, JobRestored
from detectors.incident import RestorePoint

JOB, OTHER = "a" * 32, "b" * 32


def completed(number: int, savepoint: bool = False) -> CheckpointCompleted:
    return CheckpointCompleted(number, savepoint=savepoint)


def test_nothing_is_named_before_a_checkpoint_has_completed() -> None:
    points = RestorePoints()
    points.take(JOB, CheckpointStorageSet("s3://state"), 1)
    assert points.newest(JOB, True) is None
    assert points.newest("", True) is None


@pytest.mark.parametrize(
    ("learned", "path"),
    [
        (CheckpointStorageSet("s3://state/"), f"s3://state/{JOB}/chk-7"),
        (CheckpointDirectorySet("s3://state"), f"s3://state/{JOB}/chk-7"),
        (JobRestored(JOB, f"hdfs:///cp/{JOB}/chk-3"), f"hdfs:///cp/{JOB}/chk-7"),
        (JobRestored(JOB, f"hdfs:///cp/{OTHER}/chk-3"), ""),
        (JobRestored(JOB, "hdfs:///sp/savepoint-1-2"), ""),
        (CheckpointDirectorySet("s3://" + "x" * 400), ""),
        (CheckpointDirectorySet("none"), ""),
        (None, ""),
    ],
)
def test_the_path_of_a_checkpoint_is_known_from_its_storage_from_a_restore_or_from_the_configuration(
    learned: object, path: str
) -> None:
    points = RestorePoints()
    points.take(JOB, learned, 1)
    points.take(JOB, completed(7), 2)
    assert points.newest(JOB, False) == RestorePoint(2, path, 7)


def test_the_storage_of_a_job_is_more_precise_than_the_configuration() -> None:
    points = RestorePoints()
    points.take(JOB, CheckpointStorageSet("s3://own"), 1)
    points.take("", CheckpointDirectorySet("s3://all"), 2)
    for job in (JOB, OTHER, "source:jm"):
        points.take(job, completed(1), 3)
    paths = [point.path for job in (JOB, OTHER, "source:jm") if (point := points.newest(job, True))]
    assert paths == [f"s3://own/{JOB}/chk-1", f"s3://all/{OTHER}/chk-1", ""]


def test_a_restored_job_has_what_it_was_restored_from_until_a_checkpoint_completes() -> None:
    points = RestorePoints()
    points.take(JOB, completed(9), 1)
    points.take(JOB, JobRestored(JOB, "s3://sp/savepoint-1-2"), 5)
    assert points.newest(JOB, False) == RestorePoint(5, "s3://sp/savepoint-1-2", retained=True, restored=True)
    points.take(JOB, JobRestored(JOB, f"s3://cp/{JOB}/chk-4"), 6)
    assert points.newest(JOB, False) == RestorePoint(6, f"s3://cp/{JOB}/chk-4", 4, restored=True)
    points.take(JOB, completed(10), 7)
    assert points.newest(JOB, True) == RestorePoint(7, f"s3://cp/{JOB}/chk-10", 10, retained=True)


def test_a_savepoint_whose_path_no_line_shows_does_not_take_the_place_of_a_checkpoint() -> None:
    points = RestorePoints()
    points.take(JOB, completed(3), 1)
    points.take(JOB, completed(4, savepoint=True), 2)
    assert points.newest(JOB, False) == RestorePoint(1, "", 3)
