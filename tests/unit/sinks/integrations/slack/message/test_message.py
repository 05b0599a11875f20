"""The Slack message: what a person on call reads, and that nothing from a log can take it over."""

import json
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.incident import (
    Evidence,
    Finding,
    Forecast,
    KnownIssue,
    LateArrival,
    Recurrence,
    RestorePoint,
    Silenced,
    Transition,
)
from detectors.patterns.keep_state import keep_state
from sinks.contract.phrases import DELETED_WITH_JOB, places, restore_words
from sinks.contract.wording import clock_time, kind_words, moment, with_words
from sinks.integrations.slack.message.blocks import MESSAGE_LIMIT, Message
from sinks.integrations.slack.message.escape import code, plain, prose
from sinks.integrations.slack.message.links import Links
from sinks.integrations.slack.message.message import render, render_plain, render_reply
from tests.fake_slack.limits import blocks_problem
from tests.fake_slack.page import mrkdwn
from tests.unit.sinks.samples import OPENED_AT, adjustment, late_acks_finding, make_transition, overdue_finding

RUNBOOKS = "https://example.org/runbooks/"
LINKS = Links(runbook_base_url=RUNBOOKS)
EVERY_LINK = Links(
    RUNBOOKS,
    "https://grafana.example.org/d/flink?var-job={job}&var-cluster={cluster}&from={from}&to={to}",
    "https://example.org/kafka?q={incident}",
)

SILENCE = Silenced("5d41402a", OPENED_AT + 7_200_000, "ann <ann@example.org>", "yearly backfill of *orders*")

CASES = {
    "opened": make_transition(),
    "learning": make_transition(confidence="learning", forecast=None),
    "updated": make_transition(
        seq=3,
        transition="updated",
        at=OPENED_AT + 60_000,
        cause="late_barrier_acks",
        severity="critical",
        reason="late_barrier_acks: 4 of 4 late acknowledgements come from one TaskManager.",
        summary="4 of 4 late acknowledgements come from one TaskManager.",
        findings=[late_acks_finding(), overdue_finding()],
    ),
    "resolved": make_transition(
        seq=5,
        transition="resolved",
        at=OPENED_AT + 780_000,
        ended_at=OPENED_AT + 654_000,
        reason="checkpoint 4713 completed in 9.8 s",
        findings=[overdue_finding(closed_at=OPENED_AT + 654_000, closed_because="completed"), late_acks_finding()],
    ),
    "stale": make_transition(
        seq=4,
        transition="stale",
        at=OPENED_AT + 960_000,
        reason="no record of this cluster has arrived since 14:04:12",
    ),
    "known": make_transition(
        cause="memory_limit_kill",
        severity="critical",
        summary="YARN killed container_e47_1 on node-17: 3.0 GB of 3 GB physical memory used.",
        confidence="sure",
        forecast=None,
        known_issue=KnownIssue(
            "FLINK-33231",
            "KafkaSource keeps one entry of offsets to commit for each checkpoint",
            "flink-connector-kafka 3.0.1, Flink 1.17.2",
            "One record on the quiet topic clears it.",
            "https://issues.apache.org/jira/browse/FLINK-33231",
            "Flink 1.17.1 is affected; connector: flink-connector-kafka 3.0.0",
        ),
        recurrence=Recurrence(3, OPENED_AT - 2 * 46_800_000, 46_800_000, steady=True),
    ),
    "joined": make_transition(
        seq=2,
        transition="updated",
        cause="jobmanager_lost",
        severity="critical",
        summary="The JobManager on node-3 is gone.",
        reason="merged with incident 77aa88bb99cc: jobmanager_lost connects them",
        merged=["77aa88bb99cc"],
        findings=[overdue_finding(), late_acks_finding()],
        more=12,
    ),
    "part": make_transition(
        seq=2,
        transition="resolved",
        at=OPENED_AT + 60_000,
        ended_at=OPENED_AT + 60_000,
        reason="merged into incident 9f2c41d07b3e",
        part_of="9f2c41d07b3e",
        incident="77aa88bb99cc",
    ),
    "silenced": make_transition(
        seq=2,
        transition="updated",
        at=OPENED_AT + 60_000,
        severity="critical",
        reason="silenced by ann: yearly backfill of *orders*",
        silence=SILENCE,
    ),
    "unsilenced": make_transition(
        seq=3,
        transition="updated",
        at=OPENED_AT + 7_200_000,
        reason="the silence ended and the incident is still open",
        silenced_before=SILENCE,
    ),
    "restore": make_transition(
        cause="restart_loop",
        restore_from=RestorePoint(OPENED_AT - 600_000, "s3://flink-state/a1b2c3/chk-4710", 4710),
    ),
    "changed": make_transition(
        seq=4,
        transition="updated",
        at=OPENED_AT + 3_600_000,
        reason="execution.checkpointing.timeout 10 min → 20 min: 10 of 10 checkpoints completed since (0 of 3 before)",
        adjustments=[adjustment(effect="10 of 10 checkpoints completed since (0 of 3 before)"), adjustment("<!here>")],
    ),
    "late": make_transition(late=LateArrival(OPENED_AT - 7_320_000, OPENED_AT - 7_200_000, OPENED_AT)),
}


@pytest.mark.parametrize("case", CASES)
def test_messages_read_as_reviewed(case: str, golden: Callable[[str, str], None]) -> None:
    message = render(CASES[case], LINKS)
    golden(f"{case}.json", json.dumps(msgspec.to_builtins(message), ensure_ascii=False, indent=1) + "\n")


def test_a_message_with_every_link_reads_as_reviewed(golden: Callable[[str, str], None]) -> None:
    message = render(CASES["updated"], EVERY_LINK, "A note of ours.")
    golden("links.json", json.dumps(msgspec.to_builtins(message), ensure_ascii=False, indent=1) + "\n")


def test_lines_read_as_reviewed(golden: Callable[[str, str], None]) -> None:
    parts = [f"{render_reply(one).text}\n\n{render_plain(one).text}\n" for one in CASES.values()]
    parts.append(render_reply(CASES["unsilenced"], broadcast=True, unsilenced=True).text + "\n")
    golden("lines.txt", "\n".join(parts))


def everything(message: Message) -> str:
    return json.dumps(msgspec.to_builtins(message), ensure_ascii=False)


def test_a_message_says_what_where_how_bad_and_what_to_do() -> None:
    rendered = everything(render(CASES["opened"], LINKS))
    for part in ("Warning", "Checkpoint overdue", "orders-enrichment", "prod-eu", "96 s old", "expires", "in 8 min"):
        assert part in rendered
    for part in ("What to do", "flink.logs/3@120455", "9f2c41d07b3e", "c0ffee12", RUNBOOKS + "checkpoint_overdue"):
        assert part in rendered


def block(message: Message, head: str) -> list[str]:
    """The lines of the block that begins with this head."""
    return next(
        b["text"]["text"].splitlines()
        for b in message.blocks
        if b["type"] == "section" and b.get("text", {}).get("text", "").startswith(f"*{head}*")
    )


def test_the_time_in_front_of_a_sentence_is_when_that_was_known() -> None:
    """Its symptom may be minutes older than the sentence, which is the newest state of the finding."""
    newest = overdue_finding(at=OPENED_AT + 150_000, summary="3 checkpoints in a row expired, the last is 13")
    message = render(make_transition(transition="updated", findings=[newest, late_acks_finding()]))
    _, first, second = block(message, "Timeline")
    assert first.startswith("• 14:04:00 Late barrier acks")
    assert second == ("• 14:05:30 Checkpoint overdue (began 14:01:24): 3 checkpoints in a row expired, the last is 13")


def test_evidence_is_in_order_of_time() -> None:
    times = [line[:8] for line in block(render(CASES["opened"]), "Evidence")[2:-1]]
    assert times == ["14:00:24", "14:01:24"]


def test_an_advice_that_begins_with_the_state_is_not_cut_before_what_to_do() -> None:
    one = make_transition(advice=keep_state("a" * 32) + "Read the exception. " * 20 + "Then cancel the job.")
    assert "Then cancel the job." in everything(render(one))
    assert "Then cancel the job." in render_plain(one).text


def test_a_stale_incident_does_not_look_recovered() -> None:
    rendered = everything(render(CASES["stale"]))
    assert "state unknown" in rendered
    assert "Resolved" not in rendered
    assert "✅" not in rendered


def test_a_resolved_incident_says_how_long_it_lasted_and_no_longer_what_to_do() -> None:
    rendered = everything(render(CASES["resolved"]))
    assert "Resolved after 12 min 30 s" in rendered
    assert "What to do" not in rendered
    assert "expires" not in rendered


def test_an_incident_that_goes_on_in_another_does_not_look_recovered_and_names_it() -> None:
    for message in (render(CASES["part"]), render_plain(CASES["part"]), render_reply(CASES["part"])):
        rendered = everything(message)
        assert "9f2c41d07b3e" in rendered
        assert "Resolved" not in rendered
        assert "✅" not in rendered


def test_a_known_issue_is_named_with_its_fix_a_way_around_and_what_the_version_says() -> None:
    rendered = everything(render(CASES["known"]))
    for part in (
        "jira/browse/FLINK-33231|FLINK-33231>",
        "Fixed in flink-connector-kafka 3.0.1",
        "clears it",
        "is affected",
    ):
        assert part in rendered
    assert "3rd occurrence, every 13 h" in rendered


def test_what_is_too_much_to_list_is_counted() -> None:
    assert "and 12 more" in everything(render(CASES["joined"]))


def test_what_came_late_says_so_and_not_how_long_it_lasted_until_it_was_read() -> None:
    resolved = msgspec.structs.replace(CASES["late"], transition="resolved")
    assert "Resolved: " in render(resolved, LINKS).text
    for one in (CASES["late"], resolved):
        assert "late: written" in everything(render(one, LINKS))
        assert "late: written" in render_plain(one).text
    assert "late: written" not in everything(render(CASES["opened"], LINKS))


def test_a_note_stands_before_the_summary() -> None:
    blocks = render(make_transition(), note="The earlier message is gone.").blocks
    assert "The earlier message is gone." in blocks[1]["text"]["text"]


ATTACK = "<!channel> <@U012> <https://evil.example|click> *bold* _it_ ~no~ `code` ``` & <b>\n> quote\x00\x07\u202e"


def attacked() -> Transition:
    finding = Finding(
        kind="restart_loop",
        subject=ATTACK,
        entity=dict.fromkeys(("cluster", "job_name", "task", "tm_id", "host", "checkpoint"), ATTACK),
        since=OPENED_AT,
        at=OPENED_AT,
        severity="critical",
        summary=ATTACK,
        closed_because=ATTACK,
    )
    return make_transition(
        incident=ATTACK,
        cluster=ATTACK,
        job_name=ATTACK,
        cause=ATTACK,
        summary=ATTACK,
        advice=ATTACK,
        reason=ATTACK,
        config=ATTACK,
        transition="updated",
        findings=[finding, finding],
        known_issue=KnownIssue(*[ATTACK] * 6),
        silenced_before=Silenced(ATTACK, OPENED_AT, ATTACK, ATTACK),
        merged=[ATTACK],
        evidence=[Evidence(ATTACK, 0, 0, OPENED_AT, ATTACK)],
        forecast=Forecast(ATTACK, OPENED_AT, OPENED_AT, OPENED_AT),
    )


def mrkdwn_texts(message: Message) -> list[str]:
    found = [message.text]
    for block in message.blocks:
        objects = [block.get("text"), *block.get("fields", []), *block.get("elements", [])]
        found += [one["text"] for one in objects if one and one["type"] == "mrkdwn"]
    return found


@pytest.mark.parametrize("make", [render, render_plain, render_reply])
def test_text_from_a_log_mentions_nobody_and_makes_no_link(make: Callable[[Transition], Message]) -> None:
    rendered = everything(make(attacked()))
    assert "<" not in rendered
    assert ">" not in rendered
    # json.dumps would write control characters as escapes.
    assert "\\u0000" not in rendered
    assert "\u202e" not in rendered


def test_text_from_a_log_cannot_end_a_code_block() -> None:
    for text in mrkdwn_texts(render(attacked())):
        assert text.count("```") in (0, 2)
        assert text.replace("```", "").count("`") % 2 == 0


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("my_job_name", "my_job_name"),
        ("3 * 4", "3 ∗ 4"),
        ("a & b", "a &amp; b"),
        ("two\nlines", "two lines"),
    ],
)
def test_prose_changes_only_what_slack_would_act_on(text: str, shown: str) -> None:
    assert prose(text, 100) == shown


def test_a_log_line_in_code_can_be_copied() -> None:
    assert code("at o.a.f.*Foo_(~x) in $Proxy_1", 100) == "at o.a.f.*Foo_(~x) in $Proxy_1"


@given(st.text(), st.integers(min_value=0, max_value=80), st.sampled_from([prose, code, plain]))
def test_a_cut_text_fits_and_halves_no_entity(text: str, limit: int, escape: Callable[[str, int], str]) -> None:
    shown = escape(text, limit)
    assert len(shown) <= limit
    assert not re.search(r"&(?!(amp|lt|gt);)", shown)
    assert not re.search(r"[<>\x00-\x1f]", shown)


OUR_LINK = re.compile(r"<https://[^<>|\s]+\|(?:Runbook|Dashboard|Explain)>")
CONTROL = "<!channel> <!here> <@U012> <https://evil.example|click> <!subteam^S1> &lt;!here&gt; ` ``` * _ ~ & | >"
FRAGMENTS = st.lists(
    st.sampled_from([*CONTROL.split(), "\n", "\r\n> ", "\u2028", "\u202e", "\x00", " ", "x", "@channel"])
    | st.text(max_size=4),
    max_size=30,
).map("".join)


def with_text(text: str, change: Any) -> Transition:
    """A transition that says `text` wherever a log or a name can say something."""
    finding = Finding(
        kind=text,
        subject=text,
        entity=dict.fromkeys(("cluster", "job_name", "task", "tm_id", "host", "checkpoint"), text),
        since=OPENED_AT,
        at=OPENED_AT,
        severity="critical",
        summary=text,
        closed_because=text,
    )
    names = ("incident", "cluster", "job_id", "job_name", "cause", "summary", "advice", "config")
    return make_transition(
        **dict.fromkeys(names, text),
        reason=f"{text} again",
        transition=change,
        findings=[finding, finding],
        known_issue=KnownIssue(*[text] * 6),
        silence=Silenced(text, OPENED_AT, text, text),
        merged=[text],
        evidence=[Evidence(text, 0, 0, OPENED_AT, text)],
        forecast=Forecast(text, OPENED_AT, OPENED_AT, OPENED_AT),
    )


def tags(message: Message) -> list[str]:
    """What Slack would make of a message's markup apart from our links: bold, code, mentions, lines, in order."""
    shown = [mrkdwn(OUR_LINK.sub("", text)) for text in mrkdwn_texts(message)]
    return [tag for text in shown for tag in re.findall(r"<(/?\w+)", text)]


@settings(max_examples=300, deadline=None)
@given(FRAGMENTS, st.sampled_from(["opened", "updated", "resolved", "stale"]))
def test_no_control_sequence_from_a_log_survives(text: str, change: Any) -> None:
    """Whatever a log says, the message has the markup it has with harmless words."""
    for make in (lambda one: render(one, EVERY_LINK, "A note."), render_plain, render_reply):
        rendered, harmless = make(with_text(f"X {text} x", change)), make(with_text("X x", change))
        assert tags(rendered) == tags(harmless)
        # Angle brackets are around our own links and nowhere else.
        assert not re.search(r"[<>]", OUR_LINK.sub("", everything(rendered)))


LONG = [
    "Window(TumblingEventTimeWindows(60000)) -> Sink: Ünïcode-" * 20,
    "🔥" * 600,
    '"\\' * 400,
    "<&>" * 300,
    "任务" * 400,
]


@pytest.mark.parametrize("text", LONG, ids=["names", "emoji", "quotes", "entities", "wide"])
@pytest.mark.parametrize("change", ["opened", "updated", "resolved", "stale"])
def test_the_worst_message_has_at_most_12000_characters(text: str, change: Any) -> None:
    findings = [
        msgspec.structs.replace(late_acks_finding(), subject=str(n), summary=text, kind=text) for n in range(20)
    ]
    for finding in findings:
        finding.entity = dict.fromkeys(finding.entity, text)
    transition = msgspec.structs.replace(
        with_text(text, change),
        findings=findings,
        evidence=[Evidence("flink.logs", 3, 10**15, OPENED_AT, text)] * 20,
        merged=[text] * 20,
        more=500,
        recurrence=Recurrence(30, OPENED_AT - 10**9, 46_800_000, steady=True),
    )
    message = render(transition, EVERY_LINK, text)
    assert message.size() <= MESSAGE_LIMIT
    assert blocks_problem(message.blocks) == ""
    header = message.blocks[0]["text"]["text"]
    assert len(header.encode("utf-16-le")) // 2 <= 150
    assert len(message.text) <= 400


NASTY = st.one_of(
    st.text(max_size=600),
    st.sampled_from(
        ['"' * 5000, "\\" * 5000, "&" * 5000, "<!channel>" * 500, "`" * 3000, "x" * 20_000, "🔥" * 4000, ""]
    ),
)
TIMES = st.one_of(st.integers(-(2**63), 2**63), st.just(OPENED_AT))
NAMES = st.sampled_from(["cluster", "job_id", "job_name", "task", "tm_id", "host", "checkpoint"])
SEVERITY = st.sampled_from(["info", "warning", "critical"])


@st.composite
def transitions(draw: st.DrawFn) -> Transition:
    findings: Any = st.builds(
        Finding,
        kind=NASTY,
        subject=NASTY,
        entity=st.dictionaries(NAMES, NASTY, max_size=7),
        since=TIMES,
        at=TIMES,
        severity=SEVERITY,
        summary=NASTY,
        closed_at=st.none() | TIMES,
    )
    evidence: Any = st.builds(Evidence, NASTY, st.integers(0), st.integers(0), TIMES, NASTY)
    return make_transition(
        transition=draw(st.sampled_from(["opened", "updated", "resolved", "stale"])),
        severity=draw(SEVERITY),
        at=draw(TIMES),
        ended_at=draw(st.none() | TIMES),
        findings=draw(st.lists(findings, max_size=12)),
        evidence=draw(st.lists(evidence, max_size=8)),
        forecast=draw(st.none() | st.builds(Forecast, NASTY, TIMES, TIMES, TIMES)),
        part_of=draw(st.just("") | NASTY),
        merged=draw(st.lists(NASTY, max_size=20)),
        more=draw(st.integers(0, 500)),
        confidence=draw(st.sampled_from(["learning", "fair", "sure"])),
        recurrence=draw(st.none() | st.builds(Recurrence, st.integers(3, 100), TIMES, st.integers(0), st.booleans())),
        known_issue=draw(st.none() | st.builds(KnownIssue, *[NASTY] * 6)),
        silence=draw(st.none() | st.builds(Silenced, NASTY, TIMES, NASTY, NASTY)),
        silenced_before=draw(st.none() | st.builds(Silenced, NASTY, TIMES, NASTY, NASTY)),
        **{name: draw(NASTY) for name in ("incident", "cluster", "cause", "summary", "advice", "reason", "config")},
        job_name=draw(NASTY),
        job_id=draw(NASTY),
        restore_from=RestorePoint(OPENED_AT, draw(NASTY), draw(st.sampled_from([-1, 7]))),
    )


@pytest.mark.parametrize(
    ("point", "words"),
    [
        (RestorePoint(OPENED_AT, "s3://state/chk-7", 7, retained=True), "Checkpoint 7, completed at 14:03:00 UTC."),
        (
            RestorePoint(OPENED_AT, "s3://state/chk-7", 7),
            f"Checkpoint 7, completed at 14:03:00 UTC. {DELETED_WITH_JOB}",
        ),
        (
            RestorePoint(OPENED_AT, "s3://state/savepoint-1", retained=True, restored=True),
            "The savepoint, from which the job started at 14:03:00 UTC; none has completed since.",
        ),
        (
            RestorePoint(OPENED_AT, "", 7, retained=True),
            "Checkpoint 7, completed at 14:03:00 UTC. Its path is not in the logs: see the job's page of checkpoints.",
        ),
    ],
)
def test_the_checkpoint_to_restore_from_has_its_path_and_a_warning_unless_it_is_kept(
    point: RestorePoint, words: str
) -> None:
    assert restore_words(make_transition(restore_from=point)) == (words, point.path)
    blocks = json.dumps(msgspec.to_builtins(render(make_transition(restore_from=point))))
    assert point.path in blocks
    assert f"{words} {point.path}".strip() in render_plain(make_transition(restore_from=point)).text


def test_a_host_and_a_task_as_logs_and_metrics_write_them_are_named_once() -> None:
    written = [
        late_acks_finding(entity={"host": "hadoop_w23", "task": "Pending____Emit", "tm_id": "tm_1"}),
        overdue_finding(entity={"host": "hadoop-w23", "task": "Pending -> Emit", "tm_id": "tm_2"}),
    ]
    found = dict(places(make_transition(findings=written)))
    assert (found["Host"], found["Task"]) == (["hadoop-w23"], ["Pending -> Emit"])
    assert found["TaskManager"] == ["tm_1", "tm_2"]


def test_a_resolved_incident_has_nothing_to_restore() -> None:
    point = RestorePoint(OPENED_AT, "s3://state/chk-7", 7)
    assert restore_words(make_transition(transition="resolved", restore_from=point)) == ("", "")
    assert restore_words(make_transition()) == ("", "")


@settings(max_examples=150, deadline=None)
@given(transitions(), st.sampled_from([Links(), LINKS, EVERY_LINK]))
def test_any_message_fits_slacks_limits(transition: Transition, links: Links) -> None:
    message = render(transition, links, note="A note.")
    assert message.size() <= MESSAGE_LIMIT
    assert blocks_problem(message.blocks) == ""
    assert message.text
    for short in (render_plain(transition), render_reply(transition), render_reply(transition, unsilenced=True)):
        assert 0 < len(short.text) <= 4000


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("new numbers of checkpoint_duration_creep", "new numbers of checkpoint duration creep"),
        ("the cause is now known to be taskmanager_lost", "the cause is now known to be TaskManager lost"),
        ("telemetry_lost resolved: data has come", "Telemetry lost resolved: data has come"),
        ("silenced by ann: my_restart_loop_test", "silenced by ann: my_restart_loop_test"),
        ("severity is now critical", "severity is now critical"),
    ],
)
def test_a_reason_has_kinds_in_words(reason: str, words: str) -> None:
    assert with_words(reason) == words


def test_words_are_those_of_people() -> None:
    assert kind_words("taskmanager_lost") == "TaskManager lost"
    assert kind_words("ha_connection_lost") == "HA connection lost"
    assert moment(OPENED_AT) == "2026-03-01 14:03:00 UTC"
    assert clock_time(OPENED_AT, OPENED_AT) == "14:03:00"
    assert clock_time(OPENED_AT - 86_400_000, OPENED_AT) == "2026-02-28 14:03:00"
