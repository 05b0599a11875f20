"""Texts of causes for messages: cut so that what follows a long path can still be read."""

import re

_PATH = re.compile(r"(?:[/\\][^\s/\\'\"(),;<>\[\]]+){3,}")
_LONG = 80
_HEAD = 32
_TAIL = 40


def shorten_paths(text: str) -> str:
    """Replace the middle of each long path. Its beginning shows the disk, its end the file.

    >>> shorten_paths("/data/flink/tm_tm-1:6122-aaaaaa/tmp/job_5cd64f8a_op_StreamMap_0a448493__1_2/db/000012.sst: full")
    '/data/flink/tm_tm-1:6122-aaaaaa/…/000012.sst: full'
    """
    return _PATH.sub(lambda found: _shortened(found[0]), text)


def cut(text: str, most: int) -> str:
    """The text, at most `most` characters of it: paths are shortened first, then its end is cut off."""
    if len(text) <= most:
        return text
    text = shorten_paths(text)
    return text if len(text) <= most else text[:most].rstrip() + "…"


def _shortened(path: str) -> str:
    if len(path) <= _LONG:
        return path
    separator = path[0]
    head = path[: path.rfind(separator, 0, _HEAD) + 1]
    tail = path[path.rfind(separator) + 1 :]
    return f"{head if len(head) > 1 else path[:_HEAD]}…{separator}{tail[-_TAIL:]}"
