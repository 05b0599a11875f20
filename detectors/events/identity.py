"""Which cluster, source and host a record belongs to.

The cluster of a record is the first that exists of an ordered list of rules (`Identity.cluster`). The rules are the
same for logs and metrics, so that both meet in one cluster.
"""

import re
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

Rule = Literal["header", "field", "app", "namespace/app", "yarn", "key", "default"]

Envelope = Literal["auto", "always", "never"]

MAX_NAME = 300
EXERCISE = "exercise-"
"""What the names of clusters begin with that `flinkwatch play` made up."""
_MAX_ORIGINS = 4096
_FROM_VALUE: frozenset[Rule] = frozenset({"field", "app", "namespace/app"})
_YARN = re.compile(r"(?:application|container(?:_e\d+)?)_(\d{10,}_\d{4,})")


class Identity(BaseModel):
    """How records are given to clusters; needs a restart when changed, because state is kept per cluster."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cluster: tuple[Rule, ...] = Field(
        ("header", "field", "app", "yarn", "key", "default"),
        description="Rules for the cluster of a record, first that exists wins: `header` (the Kafka header named "
        "below), `field` (fields.cluster or the tag `cluster`), `app` (the Kubernetes label app, which for native "
        "Kubernetes is the cluster-id), `namespace/app` (for names that repeat across namespaces: then metrics must "
        "carry the same name, as tag or header), `yarn` (the application id in a container id), `key` (the Kafka key "
        "up to the first /), `default` (the name below).",
    )
    header: str = Field("cluster", description="Name of the Kafka header for the rule `header`.")
    envelope: Envelope = Field(
        "auto",
        description="Whether what the value of a log record says of its cluster (`field`, `app`, `namespace/app`, "
        "`yarn`) counts also where Kafka's header or key names one. A job could print a line that looks like a "
        "shipper's envelope, and speak for any cluster. `auto`: not where there is that header, or a key such as "
        "cluster/host; `never`: not where there is any key; `always`: it does, for shippers that wrap every line.",
    )
    default: str = Field("default", description="Cluster of a record to which no other rule applies.")


class Origin(NamedTuple):
    """What a record says of where it comes from; the empty string where it says nothing.

    `transport` is None where all of it may name the cluster; else only header and key may, and this text, which did not
    come out of the value.
    """

    header: str = ""
    key: str = ""
    field: str = ""
    namespace: str = ""
    app: str = ""
    pod: str = ""
    container: str = ""
    file: str = ""
    host: str = ""
    transport: str | None = None

    def cluster(self, identity: Identity) -> str:
        """The cluster, by the first rule that applies."""
        for rule in identity.cluster:
            found = self._by(rule, identity)
            if found and (rule not in _FROM_VALUE or self._may(found)):
                return found
        return identity.default

    def guarded(self, envelope: Envelope) -> "Origin":
        """What header and key tell, such that what the value tells cannot name another cluster where they name one."""
        named = self.header or (self.key if envelope == "never" else "/" in self.key)
        if envelope == "always" or not named:
            return self
        return self._replace(transport=f"{self.file} {self.host}")

    def _may(self, found: str) -> bool:
        """Whether the value may give that name: where header or key names a cluster, only the same one."""
        return self.transport is None or f"{self.header or self.key}/".startswith(f"{found}/")

    def _by(self, rule: Rule, identity: Identity) -> str:
        match rule:
            case "header" | "field" | "app":
                found: str = getattr(self, rule)
                return found
            case "namespace/app":
                return f"{self.namespace}/{self.app}" if self.namespace and self.app else ""
            case "yarn":
                places = (self.file, self.container, self.host) if self.transport is None else (self.transport,)
                ids = next((match for place in places if (match := _YARN.search(place))), None)
                return f"application_{ids[1]}" if ids else ""
            case "key":
                return self.key.partition("/")[0]
            case "default":
                return identity.default

    def source(self) -> str:
        """The process that wrote it: one file or container of one pod or host, without the cluster."""
        place = self.pod or self.host or self.key
        return f"{place}:{self.container or self.file}" if self.container or self.file else place


class Location(NamedTuple):
    """Where a record belongs, each name cut to MAX_NAME."""

    cluster: str
    source: str
    host: str


class Locations:
    """The places of origins. Lines share origins by the thousand: cached."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._known: dict[Origin, Location] = {}

    def of(self, origin: Origin) -> Location:
        """The place of an origin."""
        place = self._known.get(origin)
        if place is None:
            if len(self._known) >= _MAX_ORIGINS:
                self._known.clear()
            cluster, source = origin.cluster(self._identity), origin.source()
            # A key is often all that comes with a raw line: cluster/host.
            host = origin.host or origin.key.partition("/")[2]
            place = Location(cluster[:MAX_NAME], source[:MAX_NAME], host[:MAX_NAME])
            self._known[origin] = place
        return place
