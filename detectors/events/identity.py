"""Which cluster, source and host a record belongs to.

The cluster of a record is the first that exists of an ordered list of rules (`Identity.cluster`). The rules are the
same for logs and metrics, so that both meet in one cluster.
"""

import re
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Rule = Literal["header", "field", "kubernetes", "yarn", "key", "default"]

_YARN = re.compile(r"(?:application|container(?:_e\d+)?)_(\d{10,}_\d{4,})")


class Identity(BaseModel):
    """How records are given to clusters; needs a restart when changed, because state is kept per cluster."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cluster: tuple[Rule, ...] = Field(
        ("header", "field", "kubernetes", "yarn", "key", "default"),
        description="Rules for the cluster of a record, first that exists wins: `header` (the Kafka header "
        "named below), "
        "`field` (fields.cluster or the tag `cluster`), `kubernetes` (namespace/app label), `yarn` (the "
        "application id in a "
        "container id), `key` (the Kafka key up to the first /), `default` (the name below).",
    )
    header: str = Field("cluster", description="Name of the Kafka header for the rule `header`.")
    default: str = Field("default", description="Cluster of a record to which no other rule applies.")


class Origin:
    """What a record says of where it comes from; the empty string where it says nothing."""

    __slots__ = ("app", "container", "field", "file", "header", "host", "key", "namespace", "pod")

    def __init__(self) -> None:
        self.header = self.field = self.namespace = self.app = self.pod = ""
        self.container = self.file = self.host = self.key = ""

    def cluster(self, identity: Identity) -> str:
        """The cluster, by the first rule that applies."""
        for rule in identity.cluster:
            found = self._by(rule, identity)
            if found:
                return found
        return identity.default

    def _by(self, rule: Rule, identity: Identity) -> str:
        match rule:
            case "header":
                return self.header
            case "field":
                return self.field
            case "kubernetes":
                return f"{self.namespace}/{self.app}" if self.namespace and self.app else ""
            case "yarn":
                found = _YARN.search(self.file) or _YARN.search(self.host)
                return f"application_{found[1]}" if found else ""
            case "key":
                return self.key.partition("/")[0]
            case "default":
                return identity.default

    def source(self) -> str:
        """The process that wrote it: one file or container of one pod or host, without the cluster."""
        place = self.pod or self.host or self.key
        return f"{place}:{self.container or self.file}" if self.container or self.file else place
