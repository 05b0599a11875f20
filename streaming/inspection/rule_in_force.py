"""The rule that found an incident, in words, with the thresholds that were in force and where each came from."""

import sys
from collections.abc import Iterable
from typing import NamedTuple

from detectors import DETECTORS
from detectors.incident import Transition
from detectors.settings.live import LiveSettings, PublishedConfiguration
from sinks.contract.wording import written
from streaming.configuration.effective import settings_for

_BEGINS = "Opens"


class Threshold(NamedTuple):
    """A setting of a detector: its value, where it comes from, and its description."""

    key: str
    value: str
    origin: str
    about: str


class RuleInForce(NamedTuple):
    """The rule in words and its thresholds; `note` says why they may be others than those in force, else empty."""

    words: str
    thresholds: list[Threshold]
    note: str = ""


def rule_in_force(t: Transition, published: Iterable[PublishedConfiguration]) -> RuleInForce:
    """The rule of the incident's cause for its cluster and job, with the configuration that the transition names."""
    detector = next((d for d in DETECTORS if d.kind == t.cause), None)
    if detector is None:
        return RuleInForce("", [], f"This version of flinkwatch has no detector {t.cause}.")
    own = next((p for p in published if p.hash == t.config), None)
    live = own.live() if own is not None else LiveSettings()
    changed = {s.key: s for s in settings_for(live, t.cluster, t.job_name)}
    usual = LiveSettings().detectors.model_dump(mode="json")[t.cause]
    thresholds = []
    for name, field in detector.Config.model_fields.items():
        key = f"{t.cause}.{name}"
        value, origin = written(usual[name]), "default"
        if (one := changed.get(key)) is not None:
            value, origin = one.value, "configuration" if one.override is None else f"override {one.override}"
        thresholds.append(Threshold(key, value, origin, field.description or ""))
    note = ""
    if own is None:
        note = f"The configuration topic does not have the configuration {t.config}, so these are the defaults."
    return RuleInForce(_words(sys.modules[detector.__module__].__doc__ or ""), thresholds, note)


def _words(docstring: str) -> str:
    """The paragraph that says when a finding opens, or the first one."""
    paragraphs = [" ".join(part.split()) for part in docstring.split("\n\n")]
    return next((part for part in paragraphs if part.startswith(_BEGINS)), paragraphs[0])
