"""The query is started again where that is safe, and flinkwatch says so meanwhile. Without Spark."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from py4j.protocol import Py4JNetworkError

from streaming.configuration.settings import Settings
from streaming.errors import JobError, PreflightError, TopicMissingError
from streaming.job import supervisor
from streaming.job.batch_limit import BatchLimit
from streaming.job.checkpoint.starts import Start
from streaming.job.health import Health
from streaming.job.spark.jvm import how_it_ended
from streaming.job.supervisor import QuerySupervisor
from streaming.job.telemetry import Telemetry
from streaming.threads import Stop

Failure = BaseException | str | dict[str, Any]


class Clockless(Stop):
    """Waiting takes no time; the waits are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[float] = []

    def wait(self, seconds: float) -> bool:
        self.waited.append(seconds)
        return super().wait(0)


class Scene:
    """Each start of the query fails as the list says, or reports a progress; the last one runs until the end."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, checkpoint: Path, *failures: Failure) -> None:
        self.left = list(failures)
        self.starts = 0
        self.limits: list[int] = []
        self.full_at: list[int] = []
        self.shortened: list[int] = []
        self.start = Start()
        self.noted = 0
        self.ends: list[int] = []
        self.kept: list[int] = []
        self.problems: list[str | None] = []
        self.stop = Clockless()
        self.health = Health(1_000)
        self.jvm = Mock(session=Mock())
        self.jvm.gone.return_value = None
        self.ask_kafka: Callable[[], Any] = lambda: {"in": {"0": -2}}
        self.begun = Mock()
        self.telemetry = Telemetry("hash", 1_000)
        self.settings = Settings.model_validate({"streaming": {"checkpoint": str(checkpoint)}})
        monkeypatch.setattr(supervisor, "start_query", self._start)
        # They are read and written through Hadoop.
        monkeypatch.setattr(supervisor, "kept_gaps", lambda *_: [])
        monkeypatch.setattr(supervisor, "correct_offsets", lambda *_: [])
        monkeypatch.setattr(supervisor, "keep_gaps", lambda *_: None)
        monkeypatch.setattr(supervisor, "shorten_planned", self._shorten)
        monkeypatch.setattr(supervisor, "note_start", self._note)
        monkeypatch.setattr(supervisor, "keep_limit", self._keep)
        monkeypatch.setattr(supervisor, "note_end", lambda *_: self.ends.append(self.starts))

    def run(self) -> None:
        one = QuerySupervisor(self.settings, self.jvm, self.stop, self.health, Mock(), self.telemetry, self.ask_kafka)
        one.run(self.jvm.session, {"in": {"0": -2}}, self.begun)

    @property
    def restarts(self) -> float:
        return next(
            sample.value
            for metric in self.telemetry.collect()
            for sample in metric.samples
            if sample.name == "flinkwatch_query_restarts_total"
        )

    def _note(self, _spark: object, _place: str) -> Start:
        self.noted += 1
        return self.start

    def _keep(self, _spark: object, _place: str, start: Start, max_offsets: int) -> Start:
        self.kept.append(max_offsets)
        return start

    def _shorten(self, _spark: object, _place: str, limit: int) -> int:
        self.shortened.append(limit)
        return 0

    def _start(self, _spark: object, settings: Settings, _offsets: object, full_at: int) -> Any:
        self.starts += 1
        self.limits.append(settings.streaming.max_offsets_per_trigger)
        self.full_at.append(full_at)
        self.problems.append(self.health.problem())
        query = Mock(isActive=False, lastProgress=None)
        if not self.left:
            query.isActive, query.status = True, {"isTriggerActive": False}
            self.stop.set()
            return query
        failure = self.left.pop(0)
        if isinstance(failure, BaseException):
            raise failure
        if isinstance(failure, dict):
            query.isActive, query.status, query.lastProgress = True, {"isTriggerActive": False}, failure
        query.exception.return_value = failure
        return query


def test_a_passing_failure_is_waited_out_and_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    killed = "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"
    scene = Scene(monkeypatch, tmp_path, killed, killed)
    scene.run()
    assert scene.starts == 3
    assert scene.restarts == 2
    assert [pause for pause in scene.stop.waited if pause >= 1] == [1, 2]
    assert scene.problems[0] == "no batch has finished yet"
    assert "the query failed and is being restarted: A Python worker" in str(scene.problems[1])
    scene.begun.assert_called_once()


def test_what_does_not_pass_ends_the_process_after_so_many_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scene = Scene(monkeypatch, tmp_path, *["java.lang.IllegalStateException: unheard of"] * 9)
    with pytest.raises(JobError, match=r"unheard of\. 3 restarts within the last hour"):
        scene.run()
    assert scene.starts == 4


@pytest.mark.parametrize("spark_error", ["[CONCURRENT_STREAM_LOG_UPDATE] x", "[MISSING_STATE_DIRECTORY] x"])
def test_what_is_not_safe_ends_the_process_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spark_error: str
) -> None:
    scene = Scene(monkeypatch, tmp_path, spark_error)
    with pytest.raises(JobError, match=str(tmp_path)) as raised:
        scene.run()
    assert "\n" not in str(raised.value)
    assert scene.starts == 1


def test_a_jvm_that_has_gone_is_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scene = Scene(monkeypatch, tmp_path, Py4JNetworkError("Answer from Java side is empty"))
    scene.jvm.gone.return_value = "Spark's JVM was killed (signal 9), probably by the kernel because memory was short"
    started = []

    def start(meanwhile: Callable[[], Any], *_: object) -> tuple[Any, Any]:
        started.append(1)
        scene.jvm.gone.return_value = None
        return scene.jvm.session, meanwhile()

    monkeypatch.setattr(supervisor, "start_session_while", start)
    scene.run()
    assert (len(started), scene.starts, scene.restarts) == (1, 2, 1)
    assert "Spark's JVM was killed" in str(scene.problems[1])


def test_after_a_lack_of_memory_batches_are_smaller_and_after_two_the_planned_one_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    killed = "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"
    scene = Scene(monkeypatch, tmp_path, "java.lang.OutOfMemoryError: Java heap space", "unheard of", killed)
    scene.run()
    assert scene.limits == [500_000, 125_000, 125_000, 31_250]
    assert scene.shortened == [31_250]


@pytest.mark.parametrize("end", [how_it_ended(-signal.SIGKILL), how_it_ended(3)])
def test_a_jvm_that_ended_for_lack_of_memory_starts_again_with_smaller_batches(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, end: str
) -> None:
    scene = Scene(monkeypatch, tmp_path, Py4JNetworkError("Answer from Java side is empty"))
    scene.jvm.gone.return_value = f"Spark's JVM {end}"

    def start(*_: object) -> tuple[Any, Any]:
        scene.jvm.gone.return_value = None
        return scene.jvm.session, {}

    monkeypatch.setattr(supervisor, "start_session_while", start)
    scene.run()
    assert scene.limits == [500_000, 125_000]


def test_a_batch_that_ended_two_processes_is_shortened_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As when the kernel kills the whole container: no process lives to see what ended it."""
    scene = Scene(monkeypatch, tmp_path)
    scene.start = Start(batch=7, ended=2)
    scene.run()
    assert (scene.limits, scene.shortened, scene.kept) == ([125_000], [125_000], [125_000])


def test_a_batch_that_ended_one_process_is_read_again_as_it_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scene = Scene(monkeypatch, tmp_path)
    scene.start = Start(batch=7, ended=1)
    scene.run()
    assert (scene.limits, scene.shortened, scene.kept) == ([500_000], [], [0])


def test_the_limit_of_the_last_process_stays_in_force_and_the_next_one_learns_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scene = Scene(monkeypatch, tmp_path, "java.lang.OutOfMemoryError: Java heap space")
    scene.start = Start(max_offsets=125_000)
    scene.run()
    assert (scene.limits, scene.full_at) == ([125_000, 31_250], [125_000, 31_250])
    assert scene.kept == [125_000, 31_250]


def test_a_process_that_ends_by_itself_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only one that was killed counts: a job that waits for a topic would end with tiny batches."""
    scene = Scene(monkeypatch, tmp_path)
    scene.run()
    assert scene.ends == [1]
    failing = Scene(monkeypatch, tmp_path, "[MISSING_STATE_DIRECTORY] x")
    with pytest.raises(JobError):
        failing.run()
    assert failing.ends == [1]


def test_a_start_that_fails_before_its_query_counts_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scene = Scene(monkeypatch, tmp_path, PreflightError("no broker answers"), PreflightError("no broker answers"))
    scene.run()
    assert (scene.starts, scene.noted) == (3, 1)


def test_full_batches_without_trouble_let_batches_grow_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The query is stopped after its batch, since Spark reads the limit at the start of a query only."""
    now = 0.0
    monkeypatch.setattr(supervisor, "BatchLimit", lambda most: BatchLimit(most, lambda: now))
    source = {"startOffset": '{"in":{"0":0}}', "endOffset": '{"in":{"0":250000}}', "latestOffset": None}
    full = {"batchId": 7, "sources": [source]}
    scene = Scene(monkeypatch, tmp_path, "java.lang.OutOfMemoryError: Java heap space", full, full)

    def an_hour_later(*_: object) -> None:
        nonlocal now
        now += 3_600

    monkeypatch.setattr(scene.telemetry, "progressed", an_hour_later)
    scene.run()
    assert scene.limits == [500_000, 125_000, 250_000, 500_000]
    assert scene.full_at == [500_000, 125_000, 125_000, 250_000]
    assert scene.restarts == 1


def test_a_topic_that_is_gone_ends_it_and_brokers_that_are_away_do_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answers: list[Exception] = [PreflightError("no broker answers"), TopicMissingError("Kafka has no topic in")]

    def ask() -> Any:
        raise answers.pop(0)

    scene = Scene(monkeypatch, tmp_path, "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: x")
    scene.ask_kafka = ask
    with pytest.raises(JobError, match=r"^Kafka has no topic in$"):
        scene.run()
    assert (scene.starts, scene.restarts) == (1, 2)


def test_what_fails_because_of_the_end_is_no_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A signal to the whole group also ends Python workers."""
    scene = Scene(monkeypatch, tmp_path, "Python worker exited unexpectedly")
    scene.stop.set()
    scene.left = [Py4JNetworkError("gone")]
    scene.run()
    assert (scene.starts, scene.restarts) == (1, 0)
    scene.jvm.quiet.assert_called()


def test_a_full_disk_says_how_much_room_there_is(tmp_path: Path) -> None:
    line = supervisor.explained(OSError("java.io.IOException: No space left on device"), str(tmp_path)).line
    assert f"No space left on the disk of {tmp_path}" in line
    assert "MB free of" in line
