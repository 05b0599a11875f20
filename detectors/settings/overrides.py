"""Overrides: other thresholds for some clusters or jobs.

Each setting has the value of the first override that fits and names it; what none names stays as it is for all. A kind
that is decided for a job (`per_job`) can be overridden by job, the others by cluster and namespace.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, create_model, field_validator
from pydantic_core import PydanticCustomError

from detectors import DETECTORS
from detectors.incidents.lifecycle import IncidentConfig
from detectors.values.name_pattern import NamePatterns

INCIDENTS = "incidents"
_MODELS: dict[str, Any] = {d.kind: d.Config for d in DETECTORS} | {INCIDENTS: IncidentConfig}
_PER_JOB = sorted(d.kind for d in DETECTORS if d.per_job)
_NOT_PER_JOB = PydanticCustomError(
    "not_per_job",
    "not decided for a job, so match by cluster or namespace; by job can be overridden: {kinds}",
    {"kinds": ", ".join(_PER_JOB)},
)


class _OverrideSection(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


_BLOCKS: dict[str, Any] = {kind: (model, None) for kind, model in _MODELS.items()}
OverriddenDetectors: Any = create_model("OverriddenDetectors", __base__=_OverrideSection, **_BLOCKS)
"""What the blocks of an override must be like."""


class Override(NamePatterns):
    """Settings of some detectors for the clusters, namespaces and jobs that fit every pattern."""

    detectors: dict[str, dict[str, Any]] = Field(
        min_length=1, description="Blocks as in the section `detectors`, with only what is to be different."
    )

    @field_validator("detectors")
    @classmethod
    def _valid(cls, blocks: dict[str, dict[str, Any]], others: ValidationInfo) -> dict[str, dict[str, Any]]:
        # Its errors keep their places: the kind and the key.
        valid = OverriddenDetectors.model_validate(blocks)
        wrong = [kind for kind in blocks if kind not in _PER_JOB]
        if others.data.get("job", "*") != "*" and wrong:
            raise ValidationError.from_exception_data(
                cls.__name__, [{"type": _NOT_PER_JOB, "loc": (kind,), "input": None} for kind in wrong]
            )
        # As the section `detectors` is written, whatever forms a value may have.
        written: dict[str, dict[str, Any]] = valid.model_dump(mode="json", exclude_unset=True)
        return written


class WrittenValue(NamedTuple):
    """A setting as written, and the number of the override it comes from; None: from the section `detectors`."""

    value: Any
    override: int | None


def resolve(
    detectors: Mapping[str, Mapping[str, Any]], overrides: Sequence[Override], chosen: Iterable[int]
) -> dict[str, dict[str, WrittenValue]]:
    """Every setting of every kind, under the overrides whose numbers are `chosen`, with where it comes from."""
    found = {
        kind: {key: WrittenValue(value, None) for key, value in block.items()} for kind, block in detectors.items()
    }
    for number in sorted(chosen, reverse=True):
        for kind, block in overrides[number].detectors.items():
            found[kind].update({key: WrittenValue(value, number) for key, value in block.items()})
    return found
