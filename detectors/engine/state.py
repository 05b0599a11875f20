"""The state of one cluster, as it is kept between two steps, and its bytes."""

import zlib

import msgspec

from detectors.engine.cluster_profile import ClusterProfile
from detectors.engine.delta_sums import DeltaSums
from detectors.engine.late_lines import LateLines
from detectors.engine.time_zones import TimeZoneOffsets
from detectors.flink.stack_traces import StackTraces
from detectors.flink.topology import Topology
from detectors.incidents.ended_by_hand import EndedFindings
from detectors.incidents.orphaned import OrphanedFindings
from detectors.incidents.recurrence import Occurrence
from detectors.incidents.transitions import Incident
from detectors.values.decoding import UndecodableError
from detectors.values.stored_format import StoredFormat

STATE_VERSION = 3


class StateVersionError(Exception):
    """The state is damaged, or was written by a version from which no migration leads to this one."""


class ClusterState(msgspec.Struct, tag_field="version", tag=STATE_VERSION):
    """The state of one cluster.

    `detectors` holds the encoded state of each detector, decoded only when it is needed. `readings` holds the keys of
    each detector's published readings, compressed because they are long and similar. `mark` is the `Engine.mark` of the
    last step. `followed` are the incidents that can no longer reopen and are followed up.
    """

    clock: int = 0
    last_event: int = 0
    zones: TimeZoneOffsets = msgspec.field(default_factory=TimeZoneOffsets)
    topology: Topology = msgspec.field(default_factory=Topology)
    throwables: StackTraces = msgspec.field(default_factory=StackTraces)
    detectors: dict[str, msgspec.Raw] = {}
    deadlines: dict[str, int] = {}
    incidents: list[Incident] = []
    followed: list[Incident] = []
    past: list[Occurrence] = []
    orphaned: OrphanedFindings = msgspec.field(default_factory=OrphanedFindings)
    readings: dict[str, bytes] = {}
    readings_at: int = 0
    unread: list[str] = []
    mark: str = ""
    deltas: DeltaSums = msgspec.field(default_factory=DeltaSums)
    late: LateLines = msgspec.field(default_factory=LateLines)
    profile: ClusterProfile = msgspec.field(default_factory=ClusterProfile)
    ended_by_hand: EndedFindings = msgspec.field(default_factory=EndedFindings)

    def reading_keys(self) -> list[str]:
        """The keys of all readings that are published."""
        return [*self.profile.keys, *(key for kind in self.readings for key in self.reading_keys_of(kind))]

    def reading_keys_of(self, kind: str) -> list[str]:
        """The keys of the published readings of a detector."""
        keys = self.readings.get(kind)
        text = zlib.decompress(keys).decode() if keys is not None else ""
        return text.split("\0") if text else []

    def keep_reading_keys(self, kind: str, keys: list[str]) -> None:
        """Set the keys of the published readings of a detector."""
        self.readings[kind] = zlib.compress("\0".join(keys).encode(), 1)


_encode = msgspec.msgpack.Encoder().encode
STATE_FORMAT = StoredFormat("the state of a cluster", ClusterState, msgspec.msgpack)


def encode_state(state: ClusterState) -> bytes:
    """Encode a state for the state store. It is compressed because IDs and texts are repeated in it."""
    return zlib.compress(_encode(state), level=1)


def decode_state(data: bytes) -> ClusterState:
    """Decode a state. Raises StateVersionError if it is damaged or of a version that cannot be migrated."""
    try:
        return STATE_FORMAT.decode(zlib.decompress(data))
    except (zlib.error, msgspec.MsgspecError) as error:
        raise StateVersionError(f"the state of a cluster cannot be read: {error}") from error
    except UndecodableError as error:
        raise StateVersionError(str(error)) from error
