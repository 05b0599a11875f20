"""Overrides: other thresholds for some clusters or jobs.

Each setting has the value of the first matching override that contains it. Settings in no matching override have the
general value. Kinds that are detected per job (`per_job`) can be overridden by job, all kinds by cluster and namespace.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ConfigDict, Field, ValidationError, ValidationInfo, create_model, field_validator
from pydantic_core import PydanticCustomError

from detectors import DETECTORS
from detectors.incidents.settings import IncidentConfig
from detectors.values.name_pattern import NamePatterns

INCIDENTS = "incidents"
_MODELS: dict[str, Any] = {d.kind: d.Config for d in DETECTORS} | {INCIDENTS: IncidentConfig}
_PER_JOB = sorted(d.kind for d in DETECTORS if d.per_job)
_NOT_PER_JOB = PydanticCustomError(
    "not_per_job",
    "cannot be overridden by job, only by cluster or namespace; these kinds can be overridden by job: {kinds}",
    {"kinds": ", ".join(_PER_JOB)},
)


_BLOCKS: dict[str, Any] = {kind: (model, None) for kind, model in _MODELS.items()}
_CONFIG = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
OverriddenDetectors: Any = create_model("OverriddenDetectors", __config__=_CONFIG, **_BLOCKS)
"""Validates the blocks of an override."""


class Override(NamePatterns):
    """Settings of some detectors for the clusters, namespaces and jobs that match every pattern."""

    detectors: dict[str, dict[str, Any]] = Field(
        min_length=1, description="Blocks as in the section `detectors`, with only the settings to override."
    )

    @field_validator("detectors")
    @classmethod
    def _valid(cls, blocks: dict[str, dict[str, Any]], others: ValidationInfo) -> dict[str, dict[str, Any]]:
        # The errors contain kind and key as their location.
        valid = OverriddenDetectors.model_validate(blocks)
        wrong = [kind for kind in blocks if kind not in _PER_JOB]
        if others.data.get("job", "*") != "*" and wrong:
            raise ValidationError.from_exception_data(
                cls.__name__, [{"type": _NOT_PER_JOB, "loc": (kind,), "input": None} for kind in wrong]
            )
        # In the normalized form in which the section `detectors` is written.
        written: dict[str, dict[str, Any]] = valid.model_dump(mode="json", exclude_unset=True)
        return written


class WrittenValue(NamedTuple):
    """A setting as written, and the number of the override it comes from, None for the section `detectors`."""

    value: Any
    override: int | None


def matching(overrides: Sequence[Override], cluster: str, job: str) -> list[int]:
    """The numbers of the overrides for a job of a cluster. `job` is empty if it is unknown or there is no job."""
    return [i for i, o in enumerate(overrides) if o.fits_cluster(cluster) and (not o.by_job or o.fits_job(job))]


def resolve(
    detectors: Mapping[str, Mapping[str, Any]], overrides: Sequence[Override], chosen: Iterable[int]
) -> dict[str, dict[str, WrittenValue]]:
    """Every setting of every kind and its origin, with the overrides whose numbers are in `chosen` applied."""
    found = {
        kind: {key: WrittenValue(value, None) for key, value in block.items()} for kind, block in detectors.items()
    }
    for number in sorted(chosen, reverse=True):
        for kind, block in overrides[number].detectors.items():
            found[kind].update({key: WrittenValue(value, number) for key, value in block.items()})
    return found
