"""Reduces errors of Spark and its JVM to one line."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

_MAX_PLACES = 5


class StageError(Exception):
    """A stage of the job failed; the message names the records that it processed, and the error.

    Only its text reaches the driver, inside the stack traces of two languages, where `cause_of` finds it.
    """


@contextmanager
def naming(stage: str, where: Callable[[], str]) -> Iterator[None]:
    """Turn an error inside the block into a StageError that names the stage and `where` it failed."""
    try:
        yield
    except StageError:
        raise
    except Exception as error:
        text = " ".join(str(error).split())
        raise StageError(f"{stage} stage failed at {where()}: {type(error).__name__}: {text}") from error


def extent(places: Iterable[tuple[str, int, int]]) -> str:
    """Describe records given by (topic, partition, offset), such as `flink.logs/0 offsets 5 to 17`."""
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for topic, partition, offset in places:
        first, last = found.get((topic, partition), (offset, offset))
        found[topic, partition] = min(first, offset), max(last, offset)
    ranges = [
        f"{topic}/{partition} " + (f"offset {first}" if first == last else f"offsets {first} to {last}")
        for (topic, partition), (first, last) in sorted(found.items())
    ]
    more = [f"{len(ranges) - _MAX_PLACES} more partitions"] if len(ranges) > _MAX_PLACES else []
    return ", ".join(ranges[:_MAX_PLACES] + more) or "no record"


def cause_of(error: BaseException | str | None) -> str:
    """The root cause of an error in one line."""
    text = str(error) if error is not None else "the query ended"
    named = re.search(r"StageError: ([^\n]*)", text)
    if named is not None:
        return named[1].strip()[:500]
    causes = re.findall(r"(?:Caused by: |^)([\w.$]+(?:Error|Exception)[^\n]*)", text, re.MULTILINE)
    line = causes[-1] if causes else next((x for x in text.splitlines() if x.strip()), text)
    return line.strip()[:500]
