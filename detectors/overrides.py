"""Overrides: other thresholds for some clusters or jobs.

Each setting has the value of the first override that fits and names it; what none names stays as it is for all. A kind
that is decided for a job (`per_job`) can be overridden by job, the others by cluster and namespace.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import Field, ValidationError, field_validator, model_validator

from detectors import DETECTORS
from detectors.incidents.life import Life
from detectors.matching import Match

INCIDENTS = "incidents"
_MODELS: dict[str, Any] = {d.kind: d.Config for d in DETECTORS} | {INCIDENTS: Life}
_PER_JOB = sorted(d.kind for d in DETECTORS if d.per_job)


class Override(Match):
    """Settings of some detectors for the clusters, namespaces and jobs that fit every pattern."""

    detectors: dict[str, dict[str, Any]] = Field(
        min_length=1, description="Blocks as in the section `detectors`, with only what is to be different."
    )

    @field_validator("detectors")
    @classmethod
    def _valid(cls, blocks: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        for kind, block in blocks.items():
            model = _MODELS.get(kind)
            if model is None:
                raise ValueError(f"there is no detector {kind}; allowed: {', '.join(sorted(_MODELS))}")
            try:
                model.model_validate(block)
            except ValidationError as error:
                raise ValueError(_told(kind, model, error)) from None
        return blocks

    @model_validator(mode="after")
    def _decided_for_jobs(self) -> "Override":
        wrong = [kind for kind in self.detectors if kind not in _PER_JOB]
        if self.by_job and wrong:
            raise ValueError(
                f"{', '.join(wrong)}: not decided for a job, so match by cluster or namespace; "
                f"by job can be overridden: {', '.join(_PER_JOB)}"
            )
        return self


class Value(NamedTuple):
    """A setting as written, and the number of the override it comes from; None: from the section `detectors`."""

    value: Any
    override: int | None


def resolve(
    detectors: Mapping[str, Mapping[str, Any]], overrides: Sequence[Override], chosen: Iterable[int]
) -> dict[str, dict[str, Value]]:
    """Every setting of every kind, under the overrides whose numbers are `chosen`, with where it comes from."""
    found = {kind: {key: Value(value, None) for key, value in block.items()} for kind, block in detectors.items()}
    for number in sorted(chosen, reverse=True):
        for kind, block in overrides[number].detectors.items():
            found[kind].update({key: Value(value, number) for key, value in block.items()})
    return found


def _told(kind: str, model: Any, error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"{kind}.{key}: unknown key; allowed: {', '.join(model.model_fields)}"
    return f"{kind}.{key}: {first['msg'].removeprefix('Value error, ')}"
