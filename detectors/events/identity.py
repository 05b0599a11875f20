"""Finds the cluster, source and host to which a record belongs.

The cluster is given by the first rule that applies of an ordered list (`Identity.cluster`). The rules are the same for
logs and metrics, so that both get the same cluster.
"""

import re
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

Rule = Literal["header", "field", "app", "namespace/app", "yarn", "key", "default"]

Envelope = Literal["auto", "always", "never"]

MAX_NAME = 300
EXERCISE = "exercise-"
"""Prefix of the cluster names that `flinkwatch play` generates."""
_FROM_VALUE: frozenset[Rule] = frozenset({"field", "app", "namespace/app"})
_YARN = re.compile(r"(?:application|container(?:_e\d+)?)_(\d{10,}_\d{4,})")


class Identity(BaseModel):
    """How the cluster of a record is found. A change needs a restart, because state is kept per cluster."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cluster: tuple[Rule, ...] = Field(
        ("header", "field", "app", "yarn", "key", "default"),
        description="Rules for the cluster of a record. The first rule that gives a name is used: `header` (the Kafka "
        "header set in `header`), `field` (`fields.cluster` or the tag `cluster`), `app` (the Kubernetes label app, "
        "which is the cluster-id of native Kubernetes deployments), `namespace/app` (if names repeat across "
        "namespaces; metrics must then have the same name as tag or header), `yarn` (the application ID in a container "
        "ID), `key` (the Kafka key up to the first /), `default` (the name set in `default`).",
    )
    header: str = Field("cluster", description="Name of the Kafka header that the rule `header` reads.")
    envelope: Envelope = Field(
        "auto",
        description="Trust in the cluster named in the value of a log record (rules `field`, `app`, `namespace/app`, "
        "`yarn`) if the Kafka header or key names a cluster too. A job could print a line that looks like a log "
        "shipper's document and so pretend to be another cluster. `auto` ignores the value if there is that header, a "
        "key such as cluster/host, or a key that is not the host, pod, container, file, app or cluster in the value; "
        "`never` if there is any key; `always` uses it, for shippers that wrap every line.",
    )
    default: str = Field("default", description="Cluster name of records to which no other rule applies.")


class Location(NamedTuple):
    """Cluster, source and host of a record, each cut to MAX_NAME."""

    cluster: str
    source: str
    host: str


class Origin(NamedTuple):
    """What a record says about where it comes from; unknown parts are empty.

    If `transport` is None, all parts may name the cluster. Otherwise only header, key and `transport` may, the text
    that does not come from the record's value.
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
        for rule in identity.cluster:
            found = self._by(rule, identity)
            if found and (rule not in _FROM_VALUE or self._may(found)):
                return found
        return identity.default

    def guarded(self, envelope: Envelope) -> "Origin":
        """The origin from header and key, such that the value cannot name a different cluster if they name one."""
        named = self.header or (self.key if envelope == "never" else "/" in self.key)
        if envelope == "always" or not named:
            return self
        return self._replace(transport=f"{self.file} {self.host}")

    def of_document(self, known: "Origin", envelope: Envelope) -> "Origin":
        """The origin that a document in the value completed. `known` is that of headers and key alone.

        Raw lines that are keyed by their host have no shipper's document around them. If a document does not know that
        key, or the headers have the place already, a job has printed it, so it names no cluster.
        """
        if envelope != "auto" or not known.key or self.transport is not None:
            return self
        if not (known.host or known.file) and self._knows(known.key):
            return self
        return self._replace(transport=f"{known.file} {known.host}")

    def of_raw_text(self, envelope: Envelope) -> "Origin":
        """The origin of a text without a document around it: a JSON line in it is the process's own."""
        return self.guarded("never") if envelope == "auto" and self.transport is None else self

    def _knows(self, key: str) -> bool:
        """Whether the key of the record is a part of the origin. A host may have its domain in one of the two only."""
        names = (self.pod, self.container, self.file, self.app, self.namespace, self.field)
        return key in names or f"{self.host}.".startswith(f"{key}.") or f"{key}.".startswith(f"{self.host}.")

    def _may(self, found: str) -> bool:
        """Whether the value may give that name: if header or key name a cluster, it must be the same one."""
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
        """The process that wrote the record: one file or container of one pod or host, without the cluster."""
        place = self.pod or self.host or self.key
        return f"{place}:{self.container or self.file}" if self.container or self.file else place

    def location(self, identity: Identity) -> Location:
        """The location. Raw lines often have only a key of the form cluster/host."""
        host = self.host or self.key.partition("/")[2]
        return Location(self.cluster(identity)[:MAX_NAME], self.source()[:MAX_NAME], host[:MAX_NAME])
