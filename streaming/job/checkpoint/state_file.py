"""The file of `flinkwatch state export`: JSON lines with a header, then one line for each bucket and each cluster.

`data` is what the state store holds and what an import takes; `state` shows the same to people and programs.
"""

import base64
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import msgspec

from detectors.engine.bucket import INDEX_VERSION, BucketIndex, decode_index, encode_index
from detectors.engine.fold import STATES
from detectors.engine.state import STATE_VERSION, ClusterState, StateVersionError, decode_state, encode_state
from detectors.values.decoding import UndecodableError, carried
from detectors.values.stored_format import StoredFormat
from streaming.errors import UserError
from streaming.job.checkpoint.offsets import Offsets


class StateFileError(UserError):
    """The state cannot be exported or imported; the message names the file and says what to do."""


class UnfinishedBatch(msgspec.Struct, frozen=True):
    """A batch that was planned and not finished: its `ends`, and the lines before them in its file.

    Some of its transitions may be in Kafka already. The import repeats it with the same ends, so that they get the same
    numbers.
    """

    head: list[str]
    ends: Offsets


class ExportHeader(msgspec.Struct, frozen=True, kw_only=True, tag_field="version", tag=1):
    """The first line: the layout of the checkpoint, its newest finished `batch`, and the `offsets` where that ended."""

    written_by: str
    buckets: int
    shuffle_partitions: int
    batch: int
    offsets: Offsets
    unfinished: UnfinishedBatch | None = None


class ExportLine(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a cluster, or the index of the bucket if `cluster` is empty. `data` has version `data_version`."""

    bucket: int
    cluster: str = ""
    data_version: int
    data: bytes
    state: Any = None


class StateExport(NamedTuple):
    """A file that was read: its header, the indexes by bucket, and the encoded states by cluster."""

    header: ExportHeader
    indexes: dict[int, BucketIndex]
    clusters: dict[str, bytes]


EXPORT_FORMAT = StoredFormat("the export", ExportHeader, msgspec.json)
_decode_header = carried(EXPORT_FORMAT.decode)
_decode_line = carried(msgspec.json.Decoder(ExportLine).decode)
_encode = msgspec.json.Encoder().encode


def index_line(bucket: int, data: bytes) -> ExportLine:
    """The line of an index, migrated to the current version. Raises StateVersionError."""
    index = decode_index(data)
    return ExportLine(bucket=bucket, data_version=INDEX_VERSION, data=encode_index(index), state=readable(index))


def cluster_line(bucket: int, cluster: str, data: bytes) -> ExportLine:
    """The line of a cluster, migrated to the current version. Raises StateVersionError."""
    state = decode_state(data)
    encoded, shown = encode_state(state), _readable_state(state)
    return ExportLine(bucket=bucket, cluster=cluster, data_version=STATE_VERSION, data=encoded, state=shown)


def write_export(out: TextIO, header: ExportHeader, lines: Iterable[ExportLine]) -> int:
    """Write an export; returns the number of clusters. Raises OSError."""
    out.write(_encode(header).decode() + "\n")
    clusters = 0
    for line in lines:
        out.write(_encode(line).decode() + "\n")
        clusters += bool(line.cluster)
    return clusters


def read_export(file: Path) -> StateExport:
    """Read an export as a whole, and check that this flinkwatch reads each state. Raises StateFileError."""
    number = 1
    try:
        with file.open("rb") as lines:
            export = StateExport(_decode_header(next(lines, b"")), {}, {})
            for line in lines:
                number += 1
                _take(export, _decode_line(line))
    except OSError as error:
        raise StateFileError(f"{file}: {error.strerror or error}") from error
    except (UndecodableError, StateVersionError) as error:
        raise StateFileError(f"{file}, line {number}: {error}") from error
    if missing := _missing(export):
        raise StateFileError(f"{file} is not whole: {missing} is missing. Export the state again")
    return export


def _missing(export: StateExport) -> str:
    indexes = sorted(set(range(export.header.buckets)) - set(export.indexes))
    known = {cluster for index in export.indexes.values() for cluster in index.deadlines}
    clusters = sorted(known - set(export.clusters))
    if indexes:
        return f"the index of bucket {indexes[0]}"
    return f"the state of cluster {clusters[0]}" if clusters else ""


def _take(export: StateExport, line: ExportLine) -> None:
    if line.cluster:
        decode_state(line.data)
        export.clusters[line.cluster] = line.data
    else:
        export.indexes[line.bucket] = decode_index(line.data)


def readable(value: Any) -> Any:
    """A value with the names of its fields, which its encoded form leaves out."""
    if isinstance(value, msgspec.Struct):
        return {name: readable(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {str(key): readable(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [readable(one) for one in value]
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _readable_state(state: ClusterState) -> dict[str, Any]:
    detectors = {kind: readable(msgspec.msgpack.decode(raw, type=STATES.get(kind, Any))) for kind, raw in _raw(state)}
    published = {kind: state.reading_keys_of(kind) for kind in state.readings}
    shown = {name: getattr(state, name) for name in state.__struct_fields__ if name not in ("detectors", "readings")}
    return {**readable(shown), "detectors": detectors, "readings": published}


def _raw(state: ClusterState) -> Iterator[tuple[str, bytes]]:
    return ((kind, bytes(raw)) for kind, raw in state.detectors.items())
