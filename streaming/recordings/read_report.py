"""Reports how much of each file a replay has understood, since "no incidents" depends on it."""

from collections.abc import Iterator

from streaming.recordings.input_file import InputFile
from streaming.recordings.inputs import InputFiles
from streaming.terminal import Clock

_WHAT = {"recording": "Kafka records", "page": "metrics page", "server": "scrapes from Prometheus"}
_FREE_TEXT = (".out", ".err", "stdout", "stderr")


def understood(one: InputFile) -> int:
    if one.log is not None:
        return max(one.log.understood, one.events > 0)
    return one.understood


def lines(one: InputFile) -> int:
    return one.log.lines if one.log is not None else one.records


def total(files: list[InputFile]) -> str:
    """What was read of all files, and how much of it was understood."""
    scrapes = sum(one.records for one in files if one.kind == "server")
    also = f", {scrapes:,} scrapes from Prometheus" if scrapes else ""
    files = [one for one in files if one.kind != "server"] or files
    read, known = sum(map(lines, files)), sum(map(understood, files))
    count = f"{len(files)} file{'s' * (len(files) != 1)}"
    if any(one.log for one in files):
        return f"{read:,} lines of {count}, {known:,} understood{also}"
    return f"{read:,} records of {count}{also}" if files[0].kind != "server" else also.removeprefix(", ")


def failures(files: list[InputFile]) -> list[InputFile]:
    """The files that were not understood at all and make the replay fail.

    Standard output of a process and files that were found in a folder may have no known line, as long as other files
    have one.
    """
    none = [one for one in files if not understood(one)]
    if len(none) == len(files):
        return none
    return [one for one in none if not one.walked and not _plain_name(one).endswith(_FREE_TEXT)]


def sentence(one: InputFile) -> str:
    if one.problem:
        return f"{one.path}: {one.problem}"
    if one.kind != "log":
        rejected = ", ".join(f"{count:,} {reason}" for reason, count in sorted(one.rejected.items()))
        what = _WHAT[one.kind]
        text = f"{one.path}: {one.records:,} {what}" + (f", rejected: {rejected}" if rejected else "")
        return text if understood(one) else f"{text}; nothing in it was understood"
    log = one.log
    if log is None:
        return str(one.path)
    text = f"{one.path}: {log.lines:,} line{'s' * (log.lines != 1)}, {log.understood:,} in a Flink log layout"
    if any(section.part.container for section in log.sections):
        return f"{text}; looks like `yarn logs`"
    if log.format.name != "a log file":
        return f"{text}; looks like {log.format.name}"
    return text if log.understood else f"{text}; looks like {_looks_like(one)}"


def notes(inputs: InputFiles, clock: Clock, given: str) -> Iterator[str]:
    """Notes about the time zone, lines without times, and files without any known line."""
    logs = [one for one in inputs.files if one.log is not None]
    if given:
        yield f"Times without a zone are read as {given} (--time-zone)."
    elif inputs.zone is not None and inputs.local:
        yield f"The logs' local time is {clock.name}, inferred from times in the logs."
    elif inputs.local:
        yield "The logs have no time zone and none could be inferred. Times are read as UTC; --time-zone sets another."
    if any(one.log is not None and one.log.lines and all(s.first < 0 for s in one.log.sections) for one in logs):
        yield "Files without any time are placed at their modification time, or at the end of related logs."
    if logs and not any(one.events for one in inputs.files) and any(understood(one) for one in logs):
        yield (
            "The files contain no line that flinkwatch looks for. Are these logs of Flink's JobManager or TaskManagers "
            "at level INFO?"
        )


def _plain_name(one: InputFile) -> str:
    """The name of the file without that of its compression."""
    return one.path.name.removesuffix(".gz").removesuffix(".zst")


def _looks_like(one: InputFile) -> str:
    name = one.path.name.lower()
    if "gc" in name.split(".")[0].replace("-", "_").split("_"):
        return "a garbage collection log of the JVM"
    if _plain_name(one).lower().endswith(_FREE_TEXT):
        return "a process's standard output"
    return "text that is not a Flink log (a log pattern needs a date, a time and a level at the start of its lines)"
