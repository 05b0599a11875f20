"""Versions of what flinkwatch keeps in Kafka and in its checkpoint, and the way from each version to the next.

A format is a msgspec Struct with the tag field `version`, so its version is the first field of every record and the
decoder refuses any other. Within a version a format may only grow by fields with defaults at its end, which older
programs skip. For any other change the tag is increased and `MIGRATIONS` gets a function. A record without a version,
from a build before 0.1, is read as the current one.
"""

from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from detectors.values.decoding import UndecodableError

T = TypeVar("T", bound=msgspec.Struct)
Document = dict[str, Any]
Migration = Callable[[Document], Document]

MIGRATIONS: dict[str, dict[int, Migration]] = {}
"""By format, and by the version to migrate from: a pure function that makes the next version of a decoded document.

The states of detectors are part of the document of a state. Each function stays for two minor releases.
"""


class Codec(Protocol):
    """One of `msgspec.json` and `msgspec.msgpack`."""

    def encode(self, obj: Any, /) -> bytes:
        """The bytes of a value."""

    def decode(self, buf: bytes, /) -> Any:
        """The value of bytes, as lists and dicts."""


class StoredFormat(Generic[T]):
    """Reads the records of one format, of its current version and of those with a migration.

    `name` is that of the format in `MIGRATIONS`, and in errors.
    """

    def __init__(
        self, name: str, kind: type[T], codec: Any, migrations: Mapping[str, Mapping[int, Migration]] = MIGRATIONS
    ) -> None:
        self.name = name
        self.kind = kind
        self._codec: Codec = codec
        self._decode: Callable[[bytes], T] = codec.Decoder(kind).decode
        self._migrations = migrations

    @property
    def version(self) -> int:
        """The current version."""
        return int(self.kind.__struct_config__.tag or 0)

    @property
    def oldest(self) -> int:
        """The oldest version from which migrations lead to the current one."""
        known, oldest = self._migrations.get(self.name, {}), self.version
        while oldest - 1 in known:
            oldest -= 1
        return oldest

    def decode(self, data: bytes) -> T:
        """The record. Raises UndecodableError if no migration leads from its version, MsgspecError if it is damaged."""
        try:
            return self._decode(data)
        except msgspec.ValidationError:
            document = self._codec.decode(data)
            found = document.get("version") if isinstance(document, dict) else None
            if not isinstance(found, int) or found == self.version:
                raise
        return self._decode(self._codec.encode(self._migrated(document, found)))

    def _migrated(self, document: Document, found: int) -> Document:
        if not self.oldest <= found < self.version:
            raise UndecodableError("other_version", f"{self.name} has version {found}, {self.readable()}")
        for version in range(found, self.version):
            document = {**self._migrations[self.name][version](document), "version": version + 1}
        return document

    def readable(self) -> str:
        """The versions that this flinkwatch reads, as the end of an error."""
        older = f"{self.oldest} to " if self.oldest < self.version else ""
        return f"this flinkwatch reads version {older}{self.version}"
