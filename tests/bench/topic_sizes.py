"""Bytes of an incident in `flinkwatch.incidents`: `python -m tests.bench.topic_sizes [SCENARIO…]`, by default all."""

import sys
from collections import defaultdict
from statistics import fmean, median, quantiles

import msgspec

from tests.recorded import NAMES, records, said


def sizes(names: list[str]) -> dict[str, list[int]]:
    """The bytes of key and value of every transition, by incident, in order."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for name in names:
        for transition in said(records(name)):
            found[f"{name}/{transition.incident}"].append(
                len(transition.incident) + len(msgspec.json.encode(transition))
            )
    return found


def _row(name: str, values: list[int]) -> str:
    high = quantiles(values, n=20)[-1]
    return f"{name}: median {median(values):,.0f}, mean {fmean(values):,.0f}, 95 % {high:,.0f}, most {max(values):,}"


def main(names: list[str]) -> None:
    """Print the figures."""
    found = sizes(names or list(NAMES))
    print(f"{len(found)} incidents of {len(names or NAMES)} scenarios")
    print(_row("transitions of an incident", [len(one) for one in found.values()]))
    print(_row("bytes of all transitions of an incident", [sum(one) for one in found.values()]))
    print(_row("bytes of its newest transition", [one[-1] for one in found.values()]))


if __name__ == "__main__":
    main(sys.argv[1:])
