"""Patterns for names of clusters, namespaces and jobs, used by overrides and silences.

A pattern is a glob with * and ? (`prod-*`), or `~` followed by an RE2 expression that matches the whole name, as in
Prometheus and Alertmanager. RE2 needs time proportional to the name, whatever the expression is.
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


def exactly(name: str) -> str:
    """The pattern that matches this name alone; any name if it is empty.

    >>> exactly("orders"), exactly("a*b"), exactly("")
    ('orders', '~a\\\\*b', '*')
    """
    if not name:
        return "*"
    plain = not name.startswith(_REGEX) and not any(wild in name for wild in _WILD)
    return name if plain else _REGEX + str(re2.escape(name))


def fits(pattern: str, name: str) -> bool:
    return pattern == "*" or _compiled(pattern).fullmatch(name) is not None


def _compiles(pattern: str) -> str:
    if pattern == _REGEX:
        raise ValueError("'~' must be followed by an RE2 expression, such as ~orders-(eu|us)")
    try:
        _compiled(pattern)
    except re2.error as error:
        raise ValueError(
            f"{pattern!r} is not valid: {_text(error)}; write a glob such as prod-*, or ~ and an RE2 expression"
        ) from None
    return pattern


def _text(error: Any) -> str:
    text = error.args[0] if error.args else ""
    return text.decode(errors="replace") if isinstance(text, bytes) else str(text)


Pattern = Annotated[str, Field(min_length=1, max_length=300), AfterValidator(_compiles)]
"""A glob, or an RE2 expression after `~`."""


def namespace_of(cluster: str) -> str:
    """The part before the / of a cluster name of the form `namespace/app`, else empty."""
    namespace, slash, _ = cluster.partition("/")
    return namespace if slash else ""


class NamePatterns(BaseModel):
    """Patterns that must all match; a pattern that is left out matches everything."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    cluster: Pattern = Field("*", description="Pattern for the cluster's name.")
    namespace: Pattern = Field("*", description="Pattern for the namespace of clusters named namespace/app.")
    job: Pattern = Field("*", description="Pattern for the job's name.")

    @property
    def by_job(self) -> bool:
        return self.job != "*"

    def fits_cluster(self, cluster: str) -> bool:
        return fits(self.cluster, cluster) and fits(self.namespace, namespace_of(cluster))

    def fits_job(self, job: str) -> bool:
        """Whether the pattern matches a job's name. The name is empty if it is unknown or there is no job."""
        return fits(self.job, job)
