"""What a replay found, for a person at a terminal."""

from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table

from detectors.incidents.incident import Transition


def print_transitions(transitions: list[Transition], records: int) -> None:
    """One row a transition, in order; says so when there is none."""
    console = Console()
    incidents = {t.incident: t for t in transitions}
    if not transitions:
        console.print(f"{records} records: nothing to report.")
        return
    table = Table(title=None, expand=True, show_lines=False)
    for name in ("time (UTC)", "incident", "change", "severity", "cause"):
        table.add_column(name, no_wrap=True)
    table.add_column("what", ratio=1)
    for t in transitions:
        when = datetime.fromtimestamp(t.at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        table.add_row(when, t.incident, t.transition, t.severity, t.cause, t.summary)
    console.print(table)
    causes = ", ".join(sorted(t.cause for t in incidents.values()))
    console.print(f"{records} records, {len(incidents)} incident{'s' * (len(incidents) != 1)}: {causes}")
