"""Finds the origin of a line of `yarn logs`, which prints container, host and name before each file."""

import re
from typing import NamedTuple

_CONTAINER = re.compile(rb"Container: (container_\w+)(?: on ([^\s_:]+)\S*)?\s*$")
_LOG_TYPE = re.compile(rb"LogType: ?(\S+)\s*$")
_BETWEEN = (
    b"=====",
    b"*****",
    b"LogAggregationType:",
    b"LogLastModifiedTime:",
    b"Log Upload Time:",
    b"LogLength:",
    b"LogContents:",
    b"Log Contents:",
    b"End of LogType:",
)


class AggregateFile(NamedTuple):
    """A file in the output of `yarn logs`: its host, container and name, empty for other lines."""

    host: str = ""
    container: str = ""
    file: str = ""


NO_PART = AggregateFile()


def part_of(line: bytes, before: AggregateFile) -> AggregateFile | None:
    """The file after a line printed by `yarn logs` itself; None for a line of a log.

    >>> part_of(b"Container: container_1_2_3_4 on node-7_8041", NO_PART)
    AggregateFile(host='node-7', container='container_1_2_3_4', file='')
    """
    if line.startswith(b"Container: ") and (found := _CONTAINER.match(line)) is not None:
        return AggregateFile((found[2] or b"").decode(errors="replace"), found[1].decode())
    if not before.container:
        return None
    if line.startswith(b"LogType:") and (found := _LOG_TYPE.match(line)) is not None:
        return before._replace(file=found[1].decode(errors="replace"))
    return before if line.startswith(_BETWEEN) else None
