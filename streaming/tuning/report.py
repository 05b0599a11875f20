"""The report of `flinkwatch tune` on a terminal."""

from rich.table import Table
from rich.text import Text

from detectors.values.durations import humanize
from streaming.terminal import UTC_CLOCK, Console
from streaming.tuning.compare import Comparison
from streaming.tuning.incidents import ReplayedIncident

_STYLES = {"added": "red", "removed": "green", "silenced": "dim", "unsilenced": "red"}


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
    if found.marked_kept:
        console.print(Text("marked as not an incident, and still reported:", "yellow"))
        for one in found.marked_kept:
            console.print(Text(f"  {one.incident}  {one.cause} on {one.cluster} {one.job}, {clock(one.opened_at)}"))
    same = f"{found.same} incident{'s' * (found.same != 1)} the same in both"
    console.print(f"{humanize(found.span)} of recordings: {summary or 'no difference'}; {same}.")


def _rows(found: Comparison) -> list[tuple[str, ReplayedIncident, str, str, str]]:
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
    return UTC_CLOCK.time(time).rstrip("Z")


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
        table.add_column(name, overflow="fold")
    return table
