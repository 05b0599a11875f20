"""The effective settings of one job or cluster, and where each value comes from."""

from collections.abc import Iterable
from typing import NamedTuple

from detectors.settings.live import LiveSettings
from detectors.settings.overrides import matching, resolve
from detectors.values.name_pattern import NamePatterns
from sinks.contract.wording import written


class EffectiveSetting(NamedTuple):
    """A setting that differs from its default or is set by an override.

    `override` is the number of the override, None if the value comes from `detectors`.
    """

    key: str
    value: str
    default: str
    override: int | None


def settings_for(live: LiveSettings, cluster: str, job: str) -> list[EffectiveSetting]:
    """The settings for a job of a cluster; an empty job name means detectors that do not work per job."""
    usual = LiveSettings().detectors.model_dump(mode="json")
    found = resolve(live.detectors.model_dump(mode="json"), live.overrides, matching(live.overrides, cluster, job))
    return [
        EffectiveSetting(f"{kind}.{key}", written(one.value), written(usual[kind][key]), one.override)
        for kind, block in found.items()
        for key, one in block.items()
        if one.override is not None or one.value != usual[kind][key]
    ]


def about(match: NamePatterns, kinds: Iterable[str] = ()) -> str:
    """The patterns of an override or a silence, such as `cluster=prod-*, job=orders`."""
    patterns = [(key, getattr(match, key)) for key in NamePatterns.model_fields] + [("kind", kind) for kind in kinds]
    return ", ".join(f"{key}={pattern}" for key, pattern in patterns if pattern != "*") or "everything"
