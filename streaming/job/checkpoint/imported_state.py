"""The state with which a new checkpoint begins: one file for each bucket, read by the bucket's first batch alone."""

from pathlib import Path

import msgspec

FOLDER = "flinkwatch.imported"


class ImportedBucket(msgspec.Struct):
    """A bucket's encoded index, and the encoded states of its clusters."""

    index: bytes
    clusters: dict[str, bytes] = {}


_decode = msgspec.msgpack.Decoder(ImportedBucket).decode


def write_bucket(checkpoint: Path, number: int, bucket: ImportedBucket) -> None:
    """Write the file of a bucket. Raises OSError."""
    folder = checkpoint / FOLDER
    folder.mkdir(exist_ok=True)
    (folder / str(number)).write_bytes(msgspec.msgpack.encode(bucket))


def read_bucket(folder: str, number: int) -> ImportedBucket | None:
    """The state of a bucket; None if nothing was imported (`folder` is empty).

    Raises OSError or MsgspecError: the bucket must not begin without its state.
    """
    return _decode((Path(folder) / str(number)).read_bytes()) if folder else None
