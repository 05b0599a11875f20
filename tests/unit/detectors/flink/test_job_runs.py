from detectors.flink.job_runs import JobRuns
from detectors.incident import Evidence


def record(at: int) -> Evidence:
    return Evidence("logs", 0, at, at, "Completed checkpoint")


def signs(*times: int) -> int:
    runs = JobRuns()
    for time in times:
        runs.line("job", "orders", time, time, record(time))
    return runs.run("job").signs


def test_a_record_that_is_read_twice_is_one_sign_of_a_job() -> None:
    assert [signs(10), signs(10, 10), signs(10, 20)] == [1, 1, 2]
    assert signs(10, 20, 10) == 2
