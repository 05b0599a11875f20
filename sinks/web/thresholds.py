"""The settings of detectors that were in force for an incident."""

from collections.abc import Iterable

from detectors.incident import Transition
from detectors.settings.live import LiveSettings, settings_hash
from detectors.settings.overrides import matching, resolve
from sinks.contract.wording import written
from sinks.web.page_context import ThresholdInForce

_SWITCH = "enabled"


def thresholds_of(live: LiveSettings, transition: Transition) -> list[ThresholdInForce]:
    """The settings of the kinds of an incident, the cause's first; empty if it was decided under other settings."""
    if settings_hash(live) != transition.config:
        return []
    kinds = dict.fromkeys([transition.cause, *(finding.kind for finding in transition.findings)])
    return thresholds_in_force(live, transition.cluster, transition.job_name, kinds)


def thresholds_in_force(live: LiveSettings, cluster: str, job: str, kinds: Iterable[str]) -> list[ThresholdInForce]:
    """The settings of `kinds` for a job of a cluster, with overrides applied."""
    usual = LiveSettings().detectors
    found = resolve(live.detectors.model_dump(mode="json"), live.overrides, matching(live.overrides, cluster, job))
    defaults = usual.model_dump(mode="json")
    return [
        ThresholdInForce(
            f"{kind}.{key}",
            written(one.value),
            written(defaults[kind][key]),
            type(getattr(usual, kind)).model_fields[key].description or "",
            "" if one.override is None else f"overrides[{one.override}]",
        )
        for kind in kinds
        if kind in found
        for key, one in found[kind].items()
        if key != _SWITCH
    ]
