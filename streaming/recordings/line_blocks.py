"""Classifies the lines of a plain log file a block at a time, with Arrow and numpy.

Most lines of a log begin in one of Flink's default layouts and say nothing that flinkwatch looks for. Python code for
each of them costs ten times as much as a search over the whole block. A block with any line that only Python code can
judge, such as one in another layout, has no classification.
"""

from collections.abc import Iterator
from typing import IO, NamedTuple

import numpy as np
import pyarrow as pa

from detectors.events.layouts.wrappers import continues, head
from streaming.job.prefilter import has_literal, matches

_FIRST_BLOCK, _BLOCK = 4 * 1024, 512 * 1024
# Whatever these match, `text_layout.split` reads in the same way, and `wrappers.continues` continues.
_HEADED = (
    r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[,.]\d{3} +(?:\[[^\]\n]{0,200}\] +)?(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL) +"
    r"[\w.$/]+ +(?:\[[^\]\n]{0,200}\] +)?- "
)
_CONTINUED = r"^(?:[ \t]+(?:at |\.\.\. \d)|Caused by: |Suppressed: )"
_AGGREGATE = b"Container: "
_DIGITS = np.array([0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18, 20, 21, 22])
_PARTS = (4, 6, 8, 10, 12, 14)
_DAY_MS, _SECOND_MS = 86_400_000, 1_000

Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]
Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]


class LineBlock(NamedTuple):
    """The classified lines of a block, blank ones included.

    `begins` are the positions of the lines in the block, with its end as the last; `times` are those printed (ms, read
    as UTC), -1 for lines without one. `lines` counts lines that are not blank, `understood` those that have a head or
    continue another line.
    """

    values: pa.Array
    begins: Numbers
    times: Numbers
    lines: int
    understood: int

    def may_matter(self) -> Flags:
        """Which lines may have an event."""
        return _numpy(has_literal(self.values, metrics=False))

    def to_read(self, matter: Flags) -> Iterator[int]:
        """The places of the lines that may matter, and of the last line of each second."""
        seconds = np.maximum.accumulate(self.times) // _SECOND_MS
        last = np.append(seconds[1:] != seconds[:-1], True)
        yield from np.flatnonzero(matter | last).tolist()


def read_blocks(file: IO[bytes], size: int) -> Iterator[bytes]:
    """The next `size` bytes of a file in blocks of complete lines, a small one first: its lines are read one by one."""
    block = _FIRST_BLOCK
    while size > 0 and (data := file.read(min(block, size))):
        size, block = size - len(data), _BLOCK
        if size > 0 and not data.endswith(b"\n"):
            rest = file.readline()
            data, size = data + rest, size - len(rest)
        yield data


def classify(data: bytes) -> LineBlock | None:
    """Classify the lines of a block; None if that needs a look at each line, or if no line has a time."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1
    if not len(ends) or ends[-1] != len(data):
        ends = np.append(ends, len(data))
    begins = np.concatenate(([0], ends))
    offsets = pa.py_buffer(begins.astype(np.int32))
    values = pa.Array.from_buffers(pa.binary(), len(ends), [None, offsets, pa.py_buffer(data)])
    headed = _numpy(matches(values, _HEADED))
    if not headed.any():
        return None
    times = _times(data, begins[:-1][headed])
    odd = np.flatnonzero(~(headed | _numpy(matches(values, _CONTINUED))))
    counted = _count([data[begins[n] : ends[n]] for n in odd])
    if times is None or counted is None:
        return None
    all_times = np.full(len(ends), -1, np.int64)
    all_times[headed] = times
    blank, understood = counted
    return LineBlock(values, begins, all_times, len(ends) - blank, len(ends) - len(odd) + understood)


def _count(lines: list[bytes]) -> tuple[int, int] | None:
    """How many lines are blank, and how many of the others continue one; None if one may begin a log line or a file."""
    blank = understood = 0
    for line in lines:
        if line.isspace():
            blank += 1
            continue
        text = line.rstrip(b"\r\n").decode(errors="replace")
        may_be_stamped = line[10:11] == b"T"
        if may_be_stamped or line.startswith(_AGGREGATE) or head(text) is not None:
            return None
        understood += continues(text)
    return blank, understood


def _times(data: bytes, begins: Numbers) -> Numbers | None:
    """Epoch ms of the times at these positions, read as UTC; None if one does not exist."""
    digits = np.frombuffer(data, np.uint8)[begins[:, None] + _DIGITS].astype(np.int64) - ord("0")
    parts = np.split(digits, _PARTS, axis=1)
    year, month, day, hour, minute, second, ms = (part @ 10 ** np.arange(part.shape[1])[::-1] for part in parts)
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    days = months.astype("datetime64[D]").astype(np.int64) + day - 1
    following = (months + 1).astype("datetime64[D]").astype(np.int64)
    exists = (year >= 1970) & (month >= 1) & (month <= 12) & (day >= 1) & (days < following)
    if not (exists & (hour < 24) & (minute < 60) & (second < 60)).all():
        return None
    return days * _DAY_MS + ((hour * 60 + minute) * 60 + second) * _SECOND_MS + ms


def _numpy(mask: pa.Array) -> Flags:
    found: Flags = mask.to_numpy(zero_copy_only=False)
    return found
