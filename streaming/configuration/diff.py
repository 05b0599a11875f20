"""The differences between two configurations, key by key, for the log and the command line."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from detectors.settings.live import LiveSettings
from sinks.contract.wording import written

_ABSENT = "—"


class SettingChange(NamedTuple):
    """A key and its value before and after, written as in the file."""

    key: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.key}: {self.before} → {self.after}"


def changes(before: LiveSettings, after: LiveSettings) -> list[SettingChange]:
    """The differences: settings of `detectors` by key, overrides by number, silences by id."""
    old, new = _by_key(before), _by_key(after)
    return [
        SettingChange(key, old.get(key, _ABSENT), new.get(key, _ABSENT))
        for key in [*old, *(key for key in new if key not in old)]
        if old.get(key) != new.get(key)
    ]


def leaves(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Dotted keys and values of a mapping of mappings."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(f"{prefix}.{key}", inner)
    else:
        yield prefix, value


def _by_key(live: LiveSettings) -> dict[str, str]:
    body = live.model_dump(mode="json")
    found = dict(leaves("detectors", body["detectors"]))
    found |= {f"overrides[{i}]": _without_defaults(o) for i, o in enumerate(body["overrides"])}
    found |= {f"silences.{s['id']}": _without_defaults(s) for s in body["silences"]}
    return {key: written(value) for key, value in found.items()}


def _without_defaults(element: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in element.items() if v not in ("*", None) and v != ["*"] and k != "id"}
