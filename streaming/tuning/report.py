"""The report of `flinkwatch tune` on a terminal."""

from collections.abc import Iterator
from datetime import UTC, datetime
from io import StringIO

import yaml
from rich.table import Table
from rich.text import Text

from detectors.settings.overrides import Override
from detectors.values.durations import humanize
from streaming.terminal import Console
from streaming.tuning.compare import Comparison
from streaming.tuning.incidents import ReplayedIncident
from streaming.tuning.suggest import Suggestions
from streaming.tuning.trial import Suggestion

_STYLES = {"added": "red", "removed": "green", "silenced": "dim", "unsilenced": "red"}
_UNTOLD = "cannot be told"


def print_comparison(found: Comparison) -> None:
    """Print the changed incidents of each job, then the number of incidents by change."""
    console = Console(highlight=False)
    for (cluster, job), rows in _by_job(found).items():
        console.print(_title(cluster, job))
        table = _table("change", "cause", "severity", "opened (UTC)")
        for change, *cells in rows:
            table.add_row(Text(change.replace("_", " "), _STYLES.get(change, "yellow")), *cells)
        console.print(table)
    counts = {"added": len(found.added), "removed": len(found.removed)} | {k: len(v) for k, v in found.moved().items()}
    summary = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items() if count)
    same = f"{found.same} incident{'s' * (found.same != 1)} the same in both"
    console.print(f"{humanize(found.span)} of recordings: {summary or 'no difference'}; {same}.")


def print_suggestions(made: Suggestions) -> None:
    """For each job its thresholds with limits and margins; then the overrides, and what a replay under them said."""
    console = Console(highlight=False)
    if not made.suggestions:
        console.print("No incident that a threshold decides, and no alarm on healthy history: nothing to tune.")
        return
    for cluster, job in sorted({(row.cluster, row.job) for row in made.suggestions}):
        console.print(_title(cluster, job))
        table = _table("threshold", "now", "silent from", "found until", "suggested", "headroom")
        for row in made.suggestions:
            if (row.cluster, row.job) == (cluster, job):
                table.add_row(*_cells(row))
        console.print(table)
    console.print(
        f"Replayed with this: {made.found} of {made.incidents} incidents found, {made.alarms} alarms when healthy.",
        style="green" if made.found == made.incidents and not made.alarms else "yellow",
    )
    console.print(Text(overrides_yaml(made.overrides)), soft_wrap=True)


def _cells(row: Suggestion) -> Iterator[Text]:
    yield Text(f"{row.kind}.{row.setting}")
    yield Text(str(row.current), "" if not row.alarms else "red")
    for limit in (row.silent_from, row.found_until):
        yield Text(_UNTOLD, "dim") if limit is None else Text(str(limit))
    yield Text(row.note, "red") if row.note else Text(str(row.suggested), "bold green" if row.chosen else "")
    yield Text(" / ".join("–" if m is None else f"×{m:g}" for m in (row.margin_healthy, row.margin_incidents)))


def overrides_yaml(overrides: list[Override]) -> str:
    """The section `overrides`, to be pasted; empty when there are none."""
    if not overrides:
        return "# No override is needed.\n"
    out = StringIO("# Put these before your own overrides: the first that fits and names a setting wins.\n")
    out.seek(0, 2)
    yaml.safe_dump(
        {"overrides": [o.model_dump(exclude_unset=True) for o in overrides]}, out, sort_keys=False, allow_unicode=True
    )
    return out.getvalue()


def _rows(found: Comparison) -> list[tuple[str, ReplayedIncident, str, str, str]]:
    """Change, incident, cause, severity, time of opening."""
    both = [("added", t) for t in found.added] + [("removed", t) for t in found.removed]
    rows: list[tuple[str, ReplayedIncident, str, str, str]] = [
        (change, t, t.cause, t.severity, clock(t.opened_at)) for change, t in both
    ]
    for change, moved in found.moved().items():
        for m in moved:
            by = m.new.opened_at - m.old.opened_at
            shift = f" {'+' if by > 0 else '−'}{humanize(abs(by))}" if by else ""
            changed = _arrow(m.old.cause, m.new.cause), _arrow(m.old.severity, m.new.severity)
            rows.append((change, m.new, *changed, clock(m.old.opened_at) + shift))
    return rows


def _arrow(old: str, new: str) -> str:
    return new if old == new else f"{old} → {new}"


def clock(time: int) -> str:
    """A time of the stream, in UTC."""
    return datetime.fromtimestamp(time / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _by_job(found: Comparison) -> dict[tuple[str, str], list[tuple[str, ...]]]:
    by_job: dict[tuple[str, str], list[tuple[str, ...]]] = {}
    for change, incident, *cells in sorted(_rows(found), key=lambda r: (r[1].cluster, r[1].job, r[1].opened_at, r[0])):
        by_job.setdefault((incident.cluster, incident.job), []).append((change, *cells))
    return by_job


def _title(cluster: str, job: str) -> Text:
    return Text(f"{cluster} / {job}" if job else cluster, "bold")


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for name in columns:
        # An identifier must not be wrapped, so that it can be read and copied.
        table.add_column(name, overflow="fold", no_wrap=name == "threshold")
    return table
