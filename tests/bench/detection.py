"""How well incidents are found: `python tests/bench/detection.py [--recordings DIR] [--envelope LOGS+METRICS …]`.

Replays every scenario of `tests/scenarios`, and every recording of a directory (neutral form, see `neutral.py`), and
compares what is reported with the truth. A true incident is right if one incident, opened while it lasted, has its
cause at the end. Further incidents are split, and any other warning or critical one is false. `lead` is the time from
the first transition to the kill, loss or expiry that follows.

Next to it is what the Prometheus rules of awesome-prometheus-alerts report on the same scrapes, if Prometheus is
installed, each with the seconds from the same record: any rule whose condition begins to hold during an incident counts
as having found it, whatever its name. In brackets is what would have fired had the recording, and the condition,
continued. Scenarios have no such column, because they keep only the metrics that flinkwatch reads.

The last line is JSON. `--markdown` prints the tables of docs/detection.md above it. Seconds are the stream's, from the
record that proves the incident.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from detectors.events.event import LogEvent, Record, Rejected
from detectors.incident import Transition
from sinks.integrations.slack.settings import SlackConfig
from sinks.integrations.slack.thread import plan
from tests import prometheus_server, recorded
from tests.bench import neutral, prometheus_rules
from tests.bench.prometheus_rules import Alert

SLACK_MS = 120_000
_LOST = frozenset({"tm_timed_out", "tm_unreachable", "container_over_limit", "container_killed"})
_EXPIRED = frozenset({"checkpoint_expired"})
FAILURES: dict[str, frozenset[str]] = {
    "backpressure": _EXPIRED,
    "checkpoint_duration_creep": _EXPIRED,
    "checkpoint_overdue": _EXPIRED,
    "heap_exhaustion": _LOST,
    "late_barrier_acks": _EXPIRED,
    "zero_input_leak": _LOST,
}
"""What a cause leads to, by the lines that say so; the other causes are failures themselves."""


class Case(NamedTuple):
    """Records and their truth; `alerts` is None if no rules were evaluated."""

    name: str
    envelope: str
    records: list[Record]
    truths: list["Truth"]
    alerts: list[Alert] | None


class Truth(NamedTuple):
    """A true incident, epoch ms; `failure` is the kill or expiry it leads to, or None."""

    cause: str
    accept: frozenset[str]
    first: int
    confirmed: int
    until: int
    optional: bool
    failure: int | None


class Row(NamedTuple):
    """One line of the table; `verdict` is right, wrong, missed, split, false, quiet or optional.

    `messages` is how many Slack shows of the incident: its message, and the lines in its thread.
    """

    name: str
    envelope: str
    truth: str
    reported: str
    verdict: str
    from_first: float | None = None
    from_confirmed: float | None = None
    lead: float | None = None
    rules: str = "-"
    messages: int | None = None


Incident = list[Transition]


def scenarios() -> Iterator[Case]:
    """The scenarios of the repository."""
    for name in recorded.NAMES:
        text = (recorded.SCENARIOS / name / "expected.yaml").read_text(encoding="utf-8")
        given = list(recorded.records(name))
        truths = [_truth(t, "", given) for t in yaml.safe_load(text)["truth"]]
        yield Case(name, _envelope(given), given, truths, None)


def recordings(folder: Path, envelopes: list[str]) -> Iterator[Case]:
    """The recordings of a directory in each envelope."""
    found = [neutral.load(p.parent) for p in sorted(folder.glob("*/truth.yaml"))]
    alerts: dict[str, list[Alert]] = {}
    if prometheus_server.available():
        with tempfile.TemporaryDirectory(prefix="flinkwatch-rules-") as work:
            rules = prometheus_rules.entrants()[prometheus_rules.OLDEST]
            alerts = prometheus_rules.alerts(found, Path(work), rules)
    else:
        print("Prometheus is not installed: its rules are not evaluated (Debian: apt-get install prometheus)")
    for envelope in envelopes:
        for recording in found:
            own = alerts.get(recording.name) if envelope == envelopes[0] else None
            yield case_of(recording, envelope)._replace(alerts=own)


def case_of(recording: neutral.Recording, envelope: str) -> Case:
    """A recording and its truth in an envelope, without alerts."""
    logs, _, metrics = envelope.partition("+")
    given = neutral.packed(recording, logs, metrics)
    truths = [_truth(t, "_t", given) for t in recording.truth.get("incidents") or []]
    return Case(recording.name, envelope, given, truths, None)


def _truth(entry: dict[str, Any], suffix: str, given: list[Record]) -> Truth:
    first, confirmed = entry[f"first_symptom{suffix}"], entry[f"confirmed{suffix}"]
    until = entry.get("resolved_t") or entry.get("ends_t") or confirmed
    failure = (entry.get("forecast") or {}).get("reaches") or _failure(entry["cause"], first, until, given)
    accept = frozenset({entry["cause"], *entry.get("accept", ())})
    return Truth(entry["cause"], accept, first, confirmed, until, bool(entry.get("optional")), failure)


def _failure(cause: str, first: int, until: int, given: list[Record]) -> int | None:
    wanted_types = FAILURES.get(cause, frozenset())
    for record in given if wanted_types else ():
        if record.topic == "flink.logs" and first <= record.timestamp <= until + SLACK_MS:
            read = recorded.READER.read(record)
            if not isinstance(read, Rejected) and any(
                isinstance(e, LogEvent) and e.event_type in wanted_types for e in read
            ):
                return record.timestamp
    return None


def _envelope(given: list[Record]) -> str:
    """What a scenario is packed in."""
    logs = next((r.value or b"" for r in given if r.topic == "flink.logs"), b"")
    metrics = next((r.value or b"" for r in given if r.topic == "flink.metrics"), None)
    of_logs = (
        "otlp"
        if logs[:1] == b"\n"
        else "raw"
        if logs[:1] != b"{"
        else "fluentbit"
        if b'"kubernetes"' in logs
        else "filebeat"
    )
    if metrics is None:
        return of_logs
    batch = "telegraf-batch" if b'"metrics"' in metrics[:64] else "telegraf"
    return f"{of_logs}+{batch if metrics[:1] == b'{' else 'prometheus'}"


def judged(case: Case) -> Iterator[Row]:
    """The rows of one case: its true incidents, then what is split or false; one row if there is neither."""
    by_id: dict[str, Incident] = {}
    for transition in recorded.said(case.records):
        by_id.setdefault(transition.incident, []).append(transition)
    found = [i for i in by_id.values() if any(t.severity in ("warning", "critical") for t in i)]
    rows = []
    taken: list[Incident] = []
    for true in case.truths:
        near = [i for i in found if i not in taken and _near(i[0].at, true)]
        own = _best(near, true)
        if own is not None:
            taken.append(own)
        rows.append(_row(case, true, own))
    for incident in found:
        if incident not in taken:
            split = any(_near(incident[0].at, t) for t in case.truths)
            verdict = "split" if split else "false"
            rows.append(Row(case.name, case.envelope, "-", incident[-1].cause, verdict, messages=messages(incident)))
    if not rows:
        rows = [Row(case.name, case.envelope, "healthy", "-", "quiet")]
    false = _listed([a for a in case.alerts or () if not any(seen(a, t) for t in case.truths)])
    if false:
        rows[-1] = rows[-1]._replace(rules=f"{rows[-1].rules} false: {false}".removeprefix("- "))
    yield from rows


def messages(incident: Incident) -> int:
    """The message of an incident in Slack and the lines in its thread, under the default settings."""
    config, known, count = SlackConfig(), None, 0
    for transition in incident:
        posted = known is not None
        if posted or transition.severity != "info":
            planned = plan(known, transition, transition.at, config, edited=posted)
            known, count = planned.notified, count + (planned.reply or not posted)
    return count


def _near(at: int, true: Truth) -> bool:
    return true.first - SLACK_MS <= at <= true.until + SLACK_MS


def seen(alert: Alert, true: Truth) -> bool:
    """Rules are looked at in steps, so one may see a symptom a little before the lines report it."""
    return true.first - 1000 * prometheus_rules.EVERY_S <= alert.since <= true.until + SLACK_MS


def _best(near: list[Incident], true: Truth) -> Incident | None:
    """The one whose last cause is right, else one that was right at some time, else any."""
    right = [i for i in near if i[-1].cause in true.accept]
    once = [i for i in near if any(t.cause in true.accept for t in i)]
    return next(iter(right or once or near), None)


def _row(case: Case, true: Truth, own: Incident | None) -> Row:
    rules = "-"
    if case.alerts is not None:
        rules = _listed([a for a in case.alerts if seen(a, true)], true.confirmed) or "nothing"
    row = Row(case.name, case.envelope, true.cause, "-", "missed", rules=rules)
    if own is None:
        return row._replace(verdict="optional") if true.optional else row
    verdict = "right" if own[-1].cause in true.accept else "wrong"
    row = row._replace(reported=own[-1].cause, verdict=verdict, messages=messages(own))
    named = next((t.at for t in own if t.cause in true.accept), None)
    if named is None:
        return row
    lead = None if true.failure is None else (true.failure - own[0].at) / 1000
    return row._replace(
        from_first=(named - true.first) / 1000,
        from_confirmed=(named - true.confirmed) / 1000,
        lead=lead,
        verdict="optional" if true.optional and row.verdict == "right" else row.verdict,
    )


def _listed(alerts: list[Alert], confirmed: int | None = None) -> str:
    """Each rule once, with the seconds from confirmation to its firing; in brackets if it had not fired by the end."""
    texts: dict[str, str] = {}
    for alert in sorted(alerts, key=lambda a: (not a.lasting, a.at)):
        after = f" {(alert.at - confirmed) / 1000:+.0f}" if confirmed is not None else ""
        text = f"{alert.name.removeprefix('Flink')}{after}"
        texts.setdefault(alert.name, text if alert.lasting else f"[{text}]")
    return ", ".join(texts.values())


def figures(rows: list[Row]) -> dict[str, float | int | None]:
    """The counts over all rows."""
    counted = {v: sum(r.verdict == v for r in rows) for v in ("right", "wrong", "missed", "split", "false")}
    delays = [r.from_confirmed for r in rows if r.from_confirmed is not None]
    judged_by_rules = [r for r in rows if r.truth not in ("-", "healthy") and r.rules != "-"]
    return {
        "right": counted["right"],
        "true": counted["right"] + counted["wrong"] + counted["missed"],
        "split": counted["split"],
        "false": counted["false"],
        "median_from_confirmed_s": round(statistics.median(delays), 1) if delays else None,
        "worst_from_confirmed_s": round(max(delays), 1) if delays else None,
        "rules_true": len(judged_by_rules),
        "rules_seen": sum(_fires(r.rules.partition(" false: ")[0]) for r in judged_by_rules),
        "rules_false_recordings": sum(_fires(r.rules.partition("false: ")[2]) for r in rows),
    }


def _fires(rules: str) -> bool:
    return any(word and word != "nothing" and not word.startswith("[") for word in rules.split(", "))


def printed(rows: list[Row]) -> None:
    """The table."""
    head = ("recording", "envelope", "truth", "reported", "verdict", "first s", "conf. s", "lead s", "Prometheus rules")
    body = [
        (
            r.name,
            r.envelope,
            r.truth,
            r.reported,
            r.verdict,
            *map(_number, (r.from_first, r.from_confirmed, r.lead)),
            r.rules,
        )
        for r in rows
    ]
    widths = [max(len(line[i]) for line in (head, *body)) for i in range(len(head))]
    for line in (head, *body):
        cells = (c.rjust(w) if 5 <= i <= 7 else c.ljust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True)))
        print("  ".join(cells).rstrip())


def markdown(rows: list[Row]) -> None:
    """The tables of docs/detection.md: the scenarios, and the recordings with what the rules report."""
    named = "recording", "envelope", "truth", "reported at the end", "from first s", "from confirmed s", "lead s"
    for own, head in ((True, named), (False, (*named, "rules"))):
        found = [r for r in rows if (r.name in recorded.NAMES) == own]
        for line in (head, ["---"] * len(head), *(_cells(r, with_rules=not own) for r in found)) if found else ():
            print("|", " | ".join(line), "|")
        print()


def _cells(row: Row, *, with_rules: bool) -> list[str]:
    reported = "nothing" if row.verdict in ("quiet", "missed") else row.reported
    numbers = map(_number, (row.from_first, row.from_confirmed, row.lead))
    rules = [row.rules.removeprefix("-")] if with_rules else []
    return [row.name, row.envelope, row.truth, reported, *numbers, *rules]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:+.1f}"


def main() -> int:
    """Replay, judge, print; 1 if anything is missed, wrong, split or false."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recordings", type=Path, help="a directory of recordings in neutral form")
    choices = [f"{logs}+{metrics}" for logs in neutral.LOGS for metrics in neutral.METRICS]
    parser.add_argument(
        "--envelope", nargs="+", choices=choices, default=["raw+prometheus"], help="how recordings are packed"
    )
    parser.add_argument("--markdown", action="store_true", help="print the tables of docs/detection.md")
    options = parser.parse_args()
    cases = [*scenarios(), *(recordings(options.recordings, options.envelope) if options.recordings else ())]
    rows = [row for case in cases for row in judged(case)]
    (markdown if options.markdown else printed)(rows)
    found = figures(rows)
    print(json.dumps(found))
    return 0 if found["right"] == found["true"] and not found["split"] and not found["false"] else 1


if __name__ == "__main__":
    sys.exit(main())
