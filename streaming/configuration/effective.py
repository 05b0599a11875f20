"""What counts for one job or cluster, and where each value comes from."""

from collections.abc import Iterable
from typing import NamedTuple

from detectors.settings.live import LiveSettings
from detectors.settings.overrides import resolve
from detectors.values.name_pattern import NamePatterns
from streaming.configuration.diff import written


class EffectiveSetting(NamedTuple):
    """A setting that is not at its default, or that an override names; `override` is its number, None: `detectors`."""

    key: str
    value: str
    default: str
    override: int | None


def settings_for(live: LiveSettings, cluster: str, job: str) -> list[EffectiveSetting]:
    """Settings for a job of a cluster; the empty name is for what is of no job."""
    chosen = [i for i, o in enumerate(live.overrides) if o.fits_cluster(cluster) and (not o.by_job or o.fits_job(job))]
    usual = LiveSettings().detectors.model_dump(mode="json")
    found = resolve(live.detectors.model_dump(mode="json"), live.overrides, chosen)
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
