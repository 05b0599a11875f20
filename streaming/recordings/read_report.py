"""How much of each file a replay has understood: an all-clear is worth as much as what was read."""

from collections.abc import Iterator

from streaming.cli.replay_report import ReportClock
from streaming.recordings.inputs import InputFile, InputFiles

_FREE_TEXT = (".out", ".err", "stdout", "stderr")


def understood(one: InputFile) -> int:
    """How many lines, or records, of a file were understood."""
    if one.log is not None:
        return max(one.log.understood, one.events > 0)
    return one.understood


def lines(one: InputFile) -> int:
    """How many lines, or records, a file has."""
    return one.log.lines if one.log is not None else one.records


def failures(files: list[InputFile]) -> list[InputFile]:
    """The files of which nothing was understood, and because of which the replay says nothing.

    A process's standard output need not have a line that is understood, nor a file that was found in a folder, as long
    as others have.
    """
    none = [one for one in files if not understood(one)]
    if len(none) == len(files):
        return none
    return [one for one in none if not one.walked and not one.path.name.removesuffix(".gz").endswith(_FREE_TEXT)]


def sentence(one: InputFile) -> str:
    if one.problem:
        return f"{one.path}: {one.problem}"
    if one.kind != "log":
        rejected = ", ".join(f"{count:,} {reason}" for reason, count in sorted(one.rejected.items()))
        what = "Kafka records" if one.kind == "recording" else "metrics page"
        said = f"{one.path}: {one.records:,} {what}" + (f", not read: {rejected}" if rejected else "")
        return said if understood(one) else f"{said}; nothing in it was understood"
    log = one.log
    if log is None:
        return str(one.path)
    said = f"{one.path}: {log.lines:,} line{'s' * (log.lines != 1)}, {log.understood:,} in a Flink log layout"
    if any(section.part.container for section in log.sections):
        return f"{said}; looks like `yarn logs`"
    if log.format.name != "a log file":
        return f"{said}; looks like {log.format.name}"
    return said if log.understood else f"{said}; looks like {_looks_like(one)}"


def notes(inputs: InputFiles, clock: ReportClock, given: str) -> Iterator[str]:
    """What a reader should know of the times, and of text without anything in it that flinkwatch looks for."""
    logs = [one for one in inputs.files if one.log is not None]
    if given:
        yield f"Times without a zone are read as {given} (--time-zone)."
    elif inputs.zone is not None and inputs.local:
        yield f"The logs' local time is {clock.name}, learned from times in the logs."
    elif inputs.local:
        yield "The logs print no zone and none could be learned: times are read as UTC (--time-zone sets another)."
    if any(one.log is not None and one.log.lines and all(s.first < 0 for s in one.log.sections) for one in logs):
        yield "Lines of files without any time are placed by the file's own time, or behind the logs next to them."
    if logs and not any(one.events for one in inputs.files) and any(understood(one) for one in logs):
        yield (
            "No line is one that flinkwatch looks for: are these the logs of Flink's JobManager and TaskManagers, "
            "at level INFO?"
        )


def _looks_like(one: InputFile) -> str:
    name = one.path.name.lower()
    if "gc" in name.split(".")[0].replace("-", "_").split("_"):
        return "a garbage collection log of the JVM"
    if name.removesuffix(".gz").endswith(_FREE_TEXT):
        return "a process's standard output"
    return "text that is not a Flink log (a log pattern needs a date, a time and a level at the start of its lines)"
