"""What a replay found, for a person at a terminal."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from rich.padding import Padding
from rich.text import Text

from detectors.incidents.incident import Transition
from detectors.incidents.recurrence import spoken_recurrence
from streaming.terminal import Console

_STYLES = {"critical": "bold red", "warning": "yellow", "info": "dim", "resolved": "green"}


def _more(t: Transition) -> Iterator[str]:
    """What is known beside the sentence: what happens next, how sure it is, whether it has been before."""
    if t.part_of:
        yield f"goes on as part of incident {t.part_of}"
        return
    if t.merged:
        yield f"with incident {', '.join(t.merged)}"
    if t.transition == "resolved":
        return
    if t.forecast is not None:
        forecast, at = t.forecast, _clock(t.forecast.at)
        between = f" (between {_clock(forecast.earliest)} and {_clock(forecast.latest)})"
        yield f"next: {forecast.what} at {at}{between if forecast.earliest < forecast.latest else ''}"
    if t.confidence != "fair":
        yield f"confidence: {t.confidence}"
    if t.recurrence is not None:
        yield f"comes again: {spoken_recurrence(t.recurrence)}"
    if t.known_issue is not None:
        issue = t.known_issue
        yield f"looks like {issue.id} ({issue.applies}): {issue.title}; fixed in {issue.fixed_in}"


def _clock(time: int) -> str:
    return datetime.fromtimestamp(time / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def print_transitions(transitions: list[Transition], records: int, rejected: Mapping[str, int]) -> None:
    """A few lines a transition, in order; then how many records and incidents, and what could not be read."""
    console = Console(highlight=False)
    for t in transitions:
        head = Text(f"{_clock(t.at)}  ").append(
            f"{t.transition:8} {t.severity:8} ", _STYLES.get(t.transition, _STYLES[t.severity])
        )
        console.print(head.append(f"{t.cause}  {t.cluster}  {t.job_name}").append(f"  {t.incident}#{t.seq}", "dim"))
        for line in (t.summary, *_more(t)):
            console.print(Padding(Text(line), (0, 0, 0, 21)))
    causes = [t.cause for t in {t.incident: t for t in transitions}.values()]
    found = f"{len(causes)} incident{'s' * (len(causes) > 1)}: {', '.join(causes)}" if causes else "nothing to report"
    console.print(f"{records} records, {found}.")
    if rejected:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(rejected.items()))
        console.print(f"Not read: {reasons}.", style="yellow")
