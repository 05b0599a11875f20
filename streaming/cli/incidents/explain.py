"""`flinkwatch explain` shows why an incident was reported: its changes, its proof, its rule, and a recomputation."""

from pathlib import Path
from typing import Any

import click
import msgspec
from rich.text import Text

from detectors.incident import Transition
from sinks.contract.wording import kind_words, with_words
from streaming.cli import options
from streaming.cli.options import Duration, asking, config_option, json_option, settings_of, timeout_option
from streaming.configuration.settings import Settings
from streaming.errors import PublishedError
from streaming.inspection.evidence_records import EvidenceAddress, proofs, read_again
from streaming.inspection.recomputation import Recomputed, recompute, span_of
from streaming.inspection.rule_in_force import RuleInForce, rule_in_force
from streaming.stored_incidents import stored_transitions
from streaming.terminal import UTC_CLOCK, echo, echo_json, print_fields, print_table, status

_GONE = "no longer retained"
_SHOWN = 300


@click.command()
@click.argument("incident")
@config_option
@click.option(
    "--history",
    type=Duration(),
    default="2h",
    show_default=True,
    help="How long before the first symptom the recomputation begins. Learned limits need more.",
)
@click.option(
    "--records",
    type=click.IntRange(min=1),
    default=500_000,
    show_default=True,
    help="The recomputation reads no more records than this.",
)
@click.option("--no-recompute", is_flag=True, help="Do not read the records around the incident again.")
@json_option
@timeout_option
def explain(
    incident: str,
    config_file: Path | None,
    history: int,
    records: int,
    no_recompute: bool,
    as_json: bool,
    timeout: int,
) -> None:
    """Show why INCIDENT was reported.

    Prints its changes in order, the records that prove them, read again from Kafka, the rule with its thresholds and
    where each came from, and whether the records in Kafka lead to the same cause again.
    """
    settings = settings_of(config_file)
    stored = found_in_topic(settings, incident, timeout)
    with asking(settings, timeout):
        evidence = proofs(stored)
        kept = read_again(settings.kafka, evidence, timeout)
        rule = rule_in_force(stored[-1], options.history_of(settings, timeout).configurations)
    result: Recomputed | None = None
    if gone := sum(record is None for record in kept.values()):
        result = Recomputed("not possible", f"Kafka no longer has {gone} of the {len(kept)} records that prove it")
    elif not no_recompute:
        with status("reading the records around the incident") as say:
            result = recompute(settings, stored, span_of(stored, history, 2 * history), records, say)
    values = {address: None if record is None else _text(record.value) for address, record in kept.items()}
    if as_json:
        echo_json(msgspec.json.encode(_document(stored, values, rule, result)))
        return
    _print_changes(stored)
    _print_proof(stored, values)
    _print_rule(stored[-1], rule)
    if result is not None:
        echo(f"reproduced: {result.reproduced} ({result.why})")


def found_in_topic(settings: Settings, incident: str, timeout: int) -> list[Transition]:
    """The transitions of an incident. Raises PublishedError if the topic does not have it."""
    with asking(settings, timeout):
        found = stored_transitions(settings.kafka, timeout, incident).get(incident)
    if not found:
        raise PublishedError(
            f"{settings.kafka.topics.incidents} has no incident {incident}; `flinkwatch status --since 7d` lists them"
        )
    return found


def _document(
    stored: list[Transition], values: dict[EvidenceAddress, str | None], rule: RuleInForce, result: Recomputed | None
) -> dict[str, Any]:
    return {
        "transitions": stored,
        "evidence": [{**address._asdict(), "value": value} for address, value in values.items()],
        "rule": {"words": rule.words, "thresholds": [t._asdict() for t in rule.thresholds], "note": rule.note},
        "recomputed": result and result._asdict(),
    }


def _print_changes(stored: list[Transition]) -> None:
    last = stored[-1]
    job = f" · job {last.job_name or last.job_id}" if last.job_name or last.job_id else ""
    rows = [(f"#{t.seq}", f"{UTC_CLOCK.time(t.at)}  {t.transition}, {t.severity}: {_change(t)}") for t in stored]
    missing = last.seq - len(stored)
    if missing:
        rows.insert(0, ("", f"{missing} earlier changes were removed by the topic's compaction"))
    title = f"Incident {last.incident}: {kind_words(last.cause)}{job} · cluster {last.cluster}"
    print_fields(Text(title, "bold"), rows)


def _change(t: Transition) -> str:
    return t.summary if t.seq == 1 else f"{with_words(t.reason)}. {t.summary}"


def _print_proof(stored: list[Transition], values: dict[EvidenceAddress, str | None]) -> None:
    rows = []
    for address, evidence in proofs(stored).items():
        value = values[address]
        where = f"{address.topic}/{address.partition}@{address.offset}"
        rows.append(("record", f"{where}  {UTC_CLOCK.time(evidence.time)}  {evidence.text}"))
        rows.append(("in Kafka", _GONE if value is None else value[:_SHOWN]))
    print_fields(Text("Proof", "bold"), rows)


def _print_rule(t: Transition, rule: RuleInForce) -> None:
    rows = [("rule", rule.words)] if rule.words else []
    print_fields(Text(f"Rule of {t.cause}", "bold"), [*rows, *([("note", rule.note)] if rule.note else [])])
    if rule.thresholds:
        print_table(
            [(s.key, s.value, s.origin, s.about) for s in rule.thresholds], "setting", "value", "from", "effect"
        )


def _text(value: bytes | None) -> str:
    return (value or b"").decode(errors="replace")
