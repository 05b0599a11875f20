"""What a replay found, for a person at a terminal."""

from collections.abc import Mapping
from datetime import UTC, datetime

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from detectors.incidents.incident import Transition

_STYLES = {"critical": "bold red", "warning": "yellow", "info": "dim", "resolved": "green"}


def print_transitions(transitions: list[Transition], records: int, rejected: Mapping[str, int]) -> None:
    """Two lines a transition, in order; then how many records and incidents, and what could not be read."""
    console = Console(highlight=False)
    for t in transitions:
        when = datetime.fromtimestamp(t.at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        head = Text(f"{when}  ").append(
            f"{t.transition:8} {t.severity:8} ", _STYLES.get(t.transition, _STYLES[t.severity])
        )
        console.print(head.append(f"{t.cause}  {t.cluster}  {t.job_name}").append(f"  {t.incident}#{t.seq}", "dim"))
        console.print(Padding(Text(t.summary), (0, 0, 0, 21)))
    causes = [t.cause for t in {t.incident: t for t in transitions}.values()]
    found = f"{len(causes)} incident{'s' * (len(causes) > 1)}: {', '.join(causes)}" if causes else "nothing to report"
    console.print(f"{records} records, {found}.")
    if rejected:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(rejected.items()))
        console.print(f"Not read: {reasons}.", style="yellow")
