"""What the engine asks of a detector and when, shown by a detector that does as it is told."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from detectors.detector import View
from detectors.engine import fold
from detectors.engine.engine import Engine
from detectors.engine.state import ClusterState, decode_state, encode_state
from detectors.events.event import Event, Sample
from detectors.incident import Finding, Reading, Transition
from detectors.kinds.data.backpressure import Backpressure
from detectors.kinds.processes.node_lost import NodeLost
from detectors.kinds.telemetry.unread_records_lost import UnreadRecordsLost
from tests.unit.detectors.changes import Played, live
from tests.unit.detectors.incidents.test_silence_times import silence
from tests.unit.detectors.streams import START, alone, log, page

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
KIND = UnreadRecordsLost.kind
JOB, OTHER = "a" * 32, "b" * 32


class Scripted:
    """What one detector is asked, with times in ms after START, and what it answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: Any = UnreadRecordsLost) -> None:
        self.kind = kind.kind
        self.due: int | None = None
        self.shown: list[Reading] = []
        self.findings: list[Finding] = []
        self.asked: list[tuple[str, int]] = []
        monkeypatch.setattr(kind, "has_deadlines", True)
        for name in ("fact", "on_deadline", "on_config_change", "next_deadline", "readings"):
            monkeypatch.setattr(kind, name, lambda _, *given, what=name: getattr(self, what)(*given))

    def fact(self, view: View[Any, Any], *_: object) -> bool:
        self.asked.append(("fact", view.time - START))
        self._find(view)
        return True

    def on_deadline(self, view: View[Any, Any]) -> None:
        self.asked.append(("deadline", view.clock - START))
        self.due = None
        self._find(view)

    def on_config_change(self, view: View[Any, Any]) -> None:
        self.asked.append(("change", view.clock - START))
        self._find(view)

    def next_deadline(self, _: object) -> int | None:
        return None if self.due is None else START + self.due

    def readings(self, _: object) -> Iterable[Reading]:
        return [msgspec.structs.replace(r, labels=dict(r.labels)) for r in self.shown]

    def _find(self, view: View[Any, Any]) -> None:
        view.findings += self.findings
        self.findings = []

    def finding(self, at: int, severity: Any = "warning", **more: Any) -> Finding:
        fields = {"subject": "s", "entity": {}, "since": START + at, "summary": "lost", **more}
        return Finding(kind=self.kind, at=START + at, severity=severity, **fields)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    return Scripted(monkeypatch)


class Cluster:
    """The state of a cluster, kept as bytes between two steps."""

    def __init__(self, *kinds: str) -> None:
        self.engine = Engine(alone(*(kinds or (KIND,))).live().detectors)
        self.state = ClusterState()

    def step(self, until: int, *events: Event, since: int = 0, engine: Engine | None = None) -> Any:
        self.state = decode_state(encode_state(self.state))
        return fold.step(engine or self.engine, "c", self.state, events, START + until, START + since)


def event(at: int = 0, **more: Any) -> Event:
    return log("input_lost", at, lag=0, topic="flink.logs", partition="0", **more)


def reading(at: int, name: str = "x", value: float = 1.0) -> Reading:
    return Reading(name=name, labels={"b": "2"}, value=value, at=START + at)


def words(transitions: Iterable[Transition]) -> list[tuple[str, int, str]]:
    return [(t.transition, t.at - START, t.reason) for t in transitions]


def test_readings_are_published_every_five_seconds_and_have_the_cluster(scripted: Scripted) -> None:
    cluster, published = Cluster(), []
    for at in range(0, 20_000, 500):
        scripted.shown = [reading(at)]
        found = cluster.step(at, event(at)).readings
        published += [(at, r.key(), r.at - START) for r in found]
    assert published == [(at, "x|b=2|cluster=c", at) for at in (0, 5_000, 10_000, 15_000)]
    # What has come since then is published five seconds after the last time, without any event.
    assert cluster.engine.next_step(cluster.state) == START + 20_000
    assert [r.key() for r in cluster.step(20_000).readings] == ["x|b=2|cluster=c"]
    assert cluster.step(25_000).readings == []


def test_without_a_detector_that_had_an_event_nothing_is_published(scripted: Scripted) -> None:
    cluster, scripted.shown = Cluster(), [reading(0)]
    assert cluster.step(0, log("tm_registered", 0, tm="t")).readings == []
    assert cluster.step(HOUR).readings == []


@pytest.mark.parametrize(("age", "fades"), [(5 * MINUTE, False), (5 * MINUTE + 1, True)])
def test_a_reading_ends_five_minutes_after_it_was_measured(scripted: Scripted, age: int, fades: bool) -> None:
    cluster, scripted.shown = Cluster(), [reading(0), reading(HOUR, "y")]
    cluster.step(0, event())
    output = cluster.step(age, event(age))
    assert [r.name for r in output.readings] == (["y"] if fades else ["x", "y"])
    assert output.removed == (["x|b=2|cluster=c"] if fades else [])
    assert cluster.state.reading_keys() == [r.key() for r in output.readings]


def test_a_reading_that_is_not_given_any_more_ends_once(scripted: Scripted) -> None:
    cluster, scripted.shown = Cluster(), [reading(0), reading(0, "y"), reading(0, "z")]
    assert cluster.step(0, event()).removed == []
    scripted.shown = [reading(10_000, "y")]
    assert cluster.step(10_000, event(10_000)).removed == ["x|b=2|cluster=c", "z|b=2|cluster=c"]
    assert cluster.step(20_000, event(20_000)).removed == []
    assert cluster.state.reading_keys() == ["y|b=2|cluster=c"]
    scripted.shown = []
    assert cluster.step(30_000, event(30_000)).removed == ["y|b=2|cluster=c"]
    assert cluster.state.reading_keys() == []


@pytest.mark.parametrize(("due", "met"), [(7_000, 7_000), (6_001, 7_000), (7_001, 8_000), (-5_000, 1_000)])
def test_a_deadline_is_met_on_the_first_whole_second_that_is_not_before_it(
    scripted: Scripted, due: int, met: int
) -> None:
    cluster, scripted.due = Cluster(), due
    cluster.step(0, event())
    assert cluster.engine.next_step(cluster.state) == START + met
    scripted.asked.clear()
    cluster.step(met - 1)
    assert scripted.asked == []
    cluster.step(HOUR)
    assert scripted.asked == [("deadline", met)]


def test_deadlines_before_an_event_are_met_before_it_and_each_transition_has_its_time(scripted: Scripted) -> None:
    cluster, scripted.due = Cluster(), 3_000
    cluster.step(0, event())
    scripted.findings = [scripted.finding(3_000)]
    output = cluster.step(HOUR, event(9_500))
    assert scripted.asked == [("fact", 0), ("deadline", 3_000), ("fact", 9_500)]
    assert words(output.transitions)[0] == ("opened", 3_000, "")


def test_of_two_deadlines_in_one_second_the_earlier_one_is_met_first(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    two = [Scripted(monkeypatch, kind) for kind in (UnreadRecordsLost, NodeLost)]
    for one in two:
        monkeypatch.setattr(
            next(k for k in (UnreadRecordsLost, NodeLost) if k.kind == one.kind),
            "on_deadline",
            lambda _, *given, own=one: order.append(own.kind) or own.on_deadline(*given),
        )
    for first, second in ((0, 1), (1, 0)):
        cluster = Cluster(*(one.kind for one in two))
        two[first].due, two[second].due = 2_500, 2_700
        cluster.step(0, event(), log("node_lost", 0, 1, lag=0, node="n:1"))
        order.clear()
        cluster.step(5_000)
        assert order == [two[first].kind, two[second].kind]


def test_a_detector_without_a_deadline_any_more_is_not_asked_again(scripted: Scripted) -> None:
    cluster, scripted.due = Cluster(), 60_000
    cluster.step(0, event())
    scripted.due = None
    cluster.step(1_000, event(1_000))
    scripted.asked.clear()
    cluster.step(HOUR)
    assert scripted.asked == []
    assert cluster.state.deadlines == {}


def test_what_a_change_of_the_configuration_finds_is_reported_at_its_time(scripted: Scripted) -> None:
    cluster = Cluster()
    cluster.step(0, event())
    scripted.findings = [scripted.finding(30_000)]
    other = Engine(alone(KIND).live().detectors, "other")
    output = cluster.step(60_000, since=30_000, engine=other)
    assert scripted.asked[-1] == ("change", 30_000)
    assert [(t.transition, t.at - START, t.config) for t in output.transitions] == [("opened", 30_000, "other")]
    scripted.asked.clear()
    cluster.step(120_000, engine=other)
    assert scripted.asked == []


def test_another_mark_is_a_change_though_the_settings_have_the_same_name(scripted: Scripted) -> None:
    cluster = Cluster()
    scripted.findings = [scripted.finding(0)]
    cluster.step(0, event())
    settings = alone(KIND).live().detectors
    marked = Engine(settings, "", mark="x", silences=(silence(START, START + HOUR, id="s"),))
    output = cluster.step(60_000, since=30_000, engine=marked)
    assert words(output.transitions) == [("updated", 30_000, "silenced by a: b")]


def test_a_disabled_detector_leaves_nothing_and_a_finding_of_it_is_not_reported(scripted: Scripted) -> None:
    cluster, scripted.due, scripted.shown = Cluster(), HOUR, [reading(0)]
    scripted.findings = [scripted.finding(0)]
    assert [t.transition for t in cluster.step(0, event()).transitions] == ["opened"]
    output = cluster.step(10_000, event(10_000), engine=Engine(alone("restart_loop").live().detectors, "off"))
    assert output.removed == ["x|b=2|cluster=c"]
    assert (cluster.state.detectors.get(KIND), cluster.state.deadlines, cluster.state.readings) == (None, {}, {})


def test_a_cluster_is_forgotten_a_week_after_its_last_event(scripted: Scripted) -> None:
    cluster, week = Cluster(), 7 * 24 * HOUR
    cluster.step(0, event())
    cluster.step(HOUR)
    assert cluster.engine.next_step(cluster.state) == START + week
    assert not cluster.engine.is_expired(cluster.state, START + week - 1)
    assert cluster.engine.is_expired(cluster.state, START + week)


def test_a_line_without_a_zone_has_the_time_that_its_source_shows(scripted: Scripted) -> None:
    cluster, shifted = Cluster(), []
    for n, name in enumerate(("checkpoint_triggered", "input_lost")):
        where = {"topic": "flink.logs", "partition": "0"}
        line = log(name, n, n, lag=0, job=JOB, checkpoint="1", epoch=str(START + n), **where)
        line.local_time += 2 * HOUR
        shifted.append(line)
    cluster.step(0, *shifted)
    assert scripted.asked == [("fact", 1)]


def test_each_detector_is_given_the_samples_that_it_subscribes_to_in_one_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[list[tuple[str, float]]] = []

    def samples(_: Any, __: Any, taken: list[Sample]) -> None:
        given.append([(s.name, s.value) for s in taken])

    monkeypatch.setattr(Backpressure, "samples", samples)
    names = ["heap_used", "busy_time", "no_such", "busy_time", "backpressured_time"]
    scrape = page(0, [Sample(name, {"job_id": JOB}, float(n)) for n, name in enumerate(names)])
    Cluster("backpressure").step(SECOND, scrape)
    assert [sorted(one) for one in given] == [[("backpressured_time", 4.0), ("busy_time", 1.0), ("busy_time", 3.0)]]
    Cluster("backpressure").step(SECOND, page(0, [Sample("heap_used", {}, 1.0)]))
    assert len(given) == 1


def expired(at: int, job: str) -> Event:
    return log("checkpoint_expired", at, at, lag=0, checkpoint="1", job=job)


def test_what_is_set_for_one_job_holds_for_that_job_alone_from_when_its_name_is_known() -> None:
    override = {"job": "orders", "detectors": {"checkpoint_overdue": {"enabled": False}}}
    played = Played(live(overrides=[override]))
    found = played.take(expired(0, JOB), expired(1, OTHER), until=SECOND)
    assert [(t.transition, t.job_id) for t in found] == [("opened", JOB), ("opened", OTHER)]
    named = [
        log("job_state", 2_000 + n, n, lag=0, job=job, name=name, state="RUNNING")
        for n, (job, name) in enumerate(((JOB, "orders"), (OTHER, "payments")))
    ]
    found = played.take(*named, until=2 * MINUTE)
    assert [(t.transition, t.job_id, t.reason) for t in found] == [
        ("resolved", JOB, "detector checkpoint_overdue was disabled")
    ]
    assert played.take(expired(2 * MINUTE, JOB), until=3 * MINUTE) == []


def test_a_threshold_of_one_job_and_that_of_all_others_hold_next_to_each_other() -> None:
    limits = {"checkpoint_overdue": {"learning_limit": "10m"}}
    override = {"job": "orders", "detectors": {"checkpoint_overdue": {"learning_limit": "1m"}}}
    played, lines = Played(live(limits, overrides=[override])), []
    for n, (job, name) in enumerate(((JOB, "orders"), (OTHER, "payments"))):
        lines.append(log("job_state", 0, 2 * n, lag=0, job=job, name=name, state="RUNNING"))
        lines.append(log("checkpoint_triggered", 1, 2 * n + 1, lag=0, job=job, checkpoint="1", epoch=str(START + 1)))
    found = played.take(*lines, until=0)
    for minute in range(1, 15):
        found += played.take(until=minute * MINUTE)
    opened = {t.job_name: (t.at - START) // MINUTE for t in found if t.transition == "opened"}
    assert opened == {"orders": 1, "payments": 10}


def test_what_was_found_of_a_job_that_returned_under_another_id_ends_with_a_checkpoint_of_that() -> None:
    cluster = Cluster("checkpoint_overdue")
    opened = cluster.step(SECOND, expired(0, JOB)).transitions
    started = log("process_version", MINUTE, 1, what="StandaloneSessionClusterEntrypoint", version="1.20.5")
    back = log("checkpoint_completed", 3 * MINUTE, 2, job=OTHER, checkpoint="3", duration="5", bytes="1")
    output = cluster.step(5 * MINUTE, started, back).transitions
    assert [t.transition for t in opened] == ["opened"]
    assert output[-1].transition == "resolved"
    assert output[-1].reason.endswith("now runs under another ID and completed checkpoint 3")
