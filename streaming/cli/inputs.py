"""`flinkwatch inputs` shows what arrives from each cluster, and what is missing."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.text import Text

from detectors.values.durations import humanize
from detectors.values.name_pattern import fits
from streaming.cli import options
from streaming.cli.incidents import known_incidents
from streaming.cli.options import (
    asking,
    cluster_option,
    config_option,
    json_option,
    settings_of,
    timeout_option,
)
from streaming.inspection.cluster_inputs import ClusterInputs, InputStream, InputSurvey
from streaming.inspection.metric_needs import missing, without_metrics
from streaming.inspection.survey import survey_inputs
from streaming.terminal import UTC_CLOCK, Clock, echo, echo_json, print_fields

_SHOWN = 8

Row = tuple[str, str]


@click.command(short_help="Show what arrives from each cluster, and what is missing.")
@config_option
@cluster_option
@click.option(
    "--records",
    type=click.IntRange(min=1),
    default=5_000,
    show_default=True,
    help="About how many of the newest records of each topic are read.",
)
@json_option
@timeout_option
def inputs(config_file: Path | None, cluster: str, records: int, as_json: bool, timeout: int) -> None:
    """Show what arrives from each cluster, and which kinds cannot be found without what is missing.

    It reads the newest records of the log and metric topics as the job does, and the job's readings. The times are
    those of Kafka.
    """
    settings = settings_of(config_file)
    with asking(settings, timeout):
        readings = known_incidents.readings(settings.kafka, timeout)
        found, absent = survey_inputs(settings.kafka, settings.identity, readings, records, timeout)
    own = {name: one for name, one in sorted(found.clusters.items()) if fits(cluster, name)}
    now = options.now()
    if as_json:
        for name, one in own.items():
            echo_json(msgspec.json.encode(document(name, one), order="sorted"))
    else:
        for name, one in own.items():
            print_fields(Text(f"Cluster {name}", "bold"), list(rows(one, now)))
        if not own:
            echo("No such cluster in the newest records." if found.clusters else "No cluster in the newest records.")
        for line in spans(found):
            echo(line)
    for topic in absent:
        echo(f"Warning: Kafka has no topic {topic}.", error=True)


def rows(one: ClusterInputs, now: int) -> Iterator[Row]:
    """The lines about a cluster."""
    yield "logs", _stream(one.logs, one.last_line, now, "log line")
    yield "metrics", _stream(one.metrics, one.last_sample, now, "metric sample")
    if one.processes:
        yield "processes", _listed(one.processes)
    if hosts := one.logs.hosts | one.metrics.hosts:
        yield "hosts", _listed(hosts)
    if one.last_line:
        yield "time zone", _zone(one)
    if unknown := one.logs.not_understood + one.metrics.not_understood:
        yield (
            "unknown",
            f"{unknown} records have no known layout or metric name: docs/inputs.md lists those that are read",
        )
    yield from _gaps(one)


def spans(found: InputSurvey) -> Iterator[str]:
    """One sentence about what was read of each topic."""
    for topic, span in found.topics.items():
        rejected = ", ".join(f"{count} {reason}" for reason, count in span.rejected.most_common())
        more = f"; rejected: {rejected}" if rejected else ""
        times = f"{UTC_CLOCK.time(span.first)} to {UTC_CLOCK.time(span.last)}"
        yield f"Read the newest {span.records} records of {topic}, {times}{more}."


def document(name: str, one: ClusterInputs) -> dict[str, Any]:
    """The same for `--json`. Times are epoch ms, zones minutes east of UTC."""
    offsets, learned = one.offsets()
    blind, weaker = without_metrics(one.names)
    streams = {
        key: {
            "records": stream.records,
            "last": last,
            "hosts": sorted(stream.hosts),
            "sources": sorted(stream.sources),
            "formats": dict(stream.formats.most_common()),
            "not_understood": stream.not_understood,
        }
        for key, stream, last in (("logs", one.logs, one.last_line), ("metrics", one.metrics, one.last_sample))
    }
    zones = {"offsets": [offset // 60_000 for offset in offsets], "learned": learned}
    needs = [need.title for need in missing(one.names)]
    return {
        **streams,
        "cluster": name,
        "processes": one.processes,
        "zone": zones,
        "missing_metrics": needs,
        "blind": blind,
        "weaker": weaker,
    }


def _stream(stream: InputStream, last: int, now: int, what: str) -> str:
    if not last:
        return f"no {what}"
    text = f"last {what} {humanize(now - last)} ago, at {UTC_CLOCK.time(last)}"
    if not stream.records:
        return f"{text}; none in the newest records"
    count = len(stream.sources)
    sources = f"; {count} source{'s' * (count > 1)}" if count else ""
    formats = ", ".join(name for name, _ in stream.formats.most_common(_SHOWN))
    return f"{text}; {stream.records} of the newest records{sources}; {formats}"


def _zone(one: ClusterInputs) -> str:
    offsets, learned = one.offsets()
    if not offsets:
        return "printed in the lines, or no line with a time was seen"
    names = ", ".join(Clock(offset).name for offset in offsets)
    return f"{names}, learned from checkpoint lines" if learned else f"{names}, guessed from the times of arrival"


def _gaps(one: ClusterInputs) -> Iterator[Row]:
    if not one.logs.records:
        yield "missing", "log lines: causes are mostly in logs, so most kinds are not found without them"
    if not one.names:
        blind, weaker = without_metrics(())
        yield (
            "missing",
            f"all metrics: not found: {', '.join(blind)}; found later or only from logs: {', '.join(weaker)}",
        )
        return
    for need in missing(one.names):
        normal = f" (normal without {need.only_with})" if need.only_with else ""
        yield "missing", f"{need.title}{normal}: {_effects(need.blind, need.weaker)}"


def _effects(blind: Sequence[str], weaker: Sequence[str]) -> str:
    effects = [("not found", blind), ("found later or only from logs", weaker)]
    return "; ".join(f"{what}: {', '.join(kinds)}" for what, kinds in effects if kinds)


def _listed(names: Collection[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{len(names)}: {', '.join(sorted(names)[:_SHOWN])}{more}"
