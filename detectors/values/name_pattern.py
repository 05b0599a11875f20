"""What an override or a silence is about: patterns of names of clusters, namespaces and jobs.

A pattern is a glob with * and ? (`prod-*`), or after `~` a regular expression that fits the whole name, in RE2 as in
Prometheus and Alertmanager: it takes time in proportion to the name, whatever somebody writes.
"""

from functools import lru_cache
from typing import Annotated, Any

import re2
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

_REGEX = "~"
_WILD = {"*": ".*", "?": "."}


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors, options.dot_nl = False, True
    if pattern.startswith(_REGEX):
        return re2.compile(pattern.removeprefix(_REGEX), options)
    return re2.compile("".join(_WILD.get(c) or re2.escape(c) for c in pattern), options)


def fits(pattern: str, name: str) -> bool:
    """Whether the pattern fits the whole name."""
    return pattern == "*" or _compiled(pattern).fullmatch(name) is not None


def _compiles(pattern: str) -> str:
    if pattern == _REGEX:
        raise ValueError("'~' wants an RE2 expression behind it, such as ~orders-(eu|us)")
    try:
        _compiled(pattern)
    except re2.error as error:
        raise ValueError(
            f"{pattern!r} does not compile: {_text(error)}; write a glob such as prod-*, or ~ and an RE2 expression"
        ) from None
    return pattern


def _text(error: Any) -> str:
    said = error.args[0] if error.args else ""
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)


Pattern = Annotated[str, Field(min_length=1, max_length=300), AfterValidator(_compiles)]
"""A glob, or an RE2 expression after `~`."""


def namespace_of(cluster: str) -> str:
    """The part before the / of a cluster that the identity rule `namespace/app` has named; else empty."""
    namespace, slash, _ = cluster.partition("/")
    return namespace if slash else ""


class NamePatterns(BaseModel):
    """Patterns that must all fit; one that is left out fits everything."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    cluster: Pattern = Field("*", description="Pattern of the cluster's name.")
    namespace: Pattern = Field("*", description="Pattern of the namespace, where clusters are named namespace/app.")
    job: Pattern = Field("*", description="Pattern of the job's name.")

    @property
    def by_job(self) -> bool:
        """Whether it chooses among the jobs of a cluster."""
        return self.job != "*"

    def fits_cluster(self, cluster: str) -> bool:
        """Whether it may be about something in this cluster."""
        return fits(self.cluster, cluster) and fits(self.namespace, namespace_of(cluster))

    def fits_job(self, job: str) -> bool:
        """Whether it is about a job of this name; the empty name is that of a job not known by name, or of no job."""
        return fits(self.job, job)
