"""What a stream says, as text: every transition with every field, and every series of readings.

Of the transitions of one incident each shows what differs from the one before: `path: value` as JSON, `- path` for what
is gone. Nothing but empty fields is left out, so two texts are equal only if the transitions are. Numbers have nine
digits: the last ones of a logarithm are not the same on every machine.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from detectors.engine.bucket import BucketOutput
from detectors.incident import Finding, Reading, Transition

Flat = dict[str, str]


def transitions_text(transitions: Iterable[Transition]) -> str:
    """All transitions, in order."""
    before: dict[str, Flat] = {}
    lines: list[str] = []
    for transition in transitions:
        now = _flat(transition)
        lines.append(f"{_time(transition.at)} {transition.incident} #{transition.seq} {transition.transition}")
        lines += (f"  {line}" for line in _changes(before.get(transition.incident, {}), now))
        before[transition.incident] = now
    return "".join(f"{line}\n" for line in lines)


def readings_text(steps: Iterable[BucketOutput]) -> str:
    """Every series: how many readings it had, how often it was taken back, its first and its last reading."""
    own: dict[str, list[Reading]] = {}
    gone: Counter[str] = Counter()
    for said in steps:
        for reading in said.readings:
            own.setdefault(reading.key(), []).append(reading)
        gone.update(said.removed)
    return "".join(
        f"{key}\n  {len(found)} readings, gone {gone[key]} times, {_reading(found[0])} to {_reading(found[-1])}\n"
        for key, found in sorted(own.items())
    )


def _reading(reading: Reading) -> str:
    return f"{_time(reading.at)} {reading.type} {rounded(reading.value)}"


def _changes(before: Flat, now: Flat) -> Iterator[str]:
    yield from (f"{path}: {value}" for path, value in now.items() if before.get(path) != value)
    yield from (f"- {path}" for path in before if path not in now)


def _flat(transition: Transition) -> Flat:
    """Each field of a transition by its path; fields of a finding begin with its name."""
    names = [_name(f) for f in transition.findings]
    assert len(set(names)) == len(names), "a finding stands in its incident once"
    found: Flat = {}
    for name, finding in zip(names, transition.findings, strict=True):
        _flatten(found, name, msgspec.to_builtins(finding))
    fields = msgspec.to_builtins(transition)
    # The version of the format belongs to no incident; `tests/fixtures` has it.
    del fields["version"]
    for told in ("incident", "seq", "transition", "at"):  # they stand above the fields
        del fields[told]
    # A series is that of a finding, most often: the same numbers twice would only be longer.
    owner = next((n for n, f in zip(names, transition.findings, strict=True) if f.series == transition.series), None)
    if transition.series is not None and owner is not None:
        fields["series"] = f"of {owner}"
    _flatten(found, "", {**fields, "findings": names})
    return found


def _flatten(found: Flat, path: str, value: Any) -> None:
    """Maps field by field, lists of records one a line, all else in one line."""
    if isinstance(value, dict):
        for key, inner in value.items():
            _flatten(found, f"{path}.{key}" if path else key, inner)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        found.update((f"{path}.{i}", _json(inner)) for i, inner in enumerate(value))
    elif value not in (None, "", []):
        found[path] = _json(value)


def _json(value: Any) -> str:
    return msgspec.json.encode(rounded(value)).decode()


def rounded(value: Any) -> Any:
    """The same with nine digits in every number."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, list | tuple):
        return [rounded(inner) for inner in value]
    return {key: rounded(inner) for key, inner in value.items()} if isinstance(value, dict) else value


def _name(finding: Finding) -> str:
    return f"{finding.kind}[{finding.subject}]"


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%F %T") + f".{ms % 1000:03}"
