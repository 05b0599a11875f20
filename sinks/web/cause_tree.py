"""The findings of an incident as a tree from the cause to its symptoms, by the cause graph.

Each finding is shown once, below the finding that explains it most closely.
"""

from collections.abc import Sequence

import msgspec

from detectors.incident import Finding, Transition
from detectors.incidents.cause_graph import explains


class CauseNode(msgspec.Struct):
    """A finding and what it leads to. `number` is its place among the findings, from 1. `together`: it and the finding
    above explain each other, such as TaskManagers that were lost at the same time.
    """

    number: int
    finding: Finding
    together: bool = False
    effects: list["CauseNode"] = []


def in_order(transition: Transition) -> list[Finding]:
    """The findings of a transition: the cause first, the others by their first symptom."""
    cause = cause_of(transition)
    others = sorted((f for f in transition.findings if f is not cause), key=lambda f: (f.since, f.kind, f.subject))
    return others if cause is None else [cause, *others]


def cause_of(transition: Transition) -> Finding | None:
    """The finding that is the cause of a transition; None if it is not among those that are listed."""
    of_kind = [f for f in transition.findings if f.kind == transition.cause]
    return next((f for f in of_kind if f.summary == transition.summary), of_kind[0] if of_kind else None)


def cause_tree(findings: Sequence[Finding]) -> list[CauseNode]:
    """The trees of findings that `in_order` has ordered. The first tree begins with the cause; others begin with what
    the cause does not explain.
    """
    above = _ancestors(findings)
    depths: dict[int, int] = {}
    nodes = [CauseNode(number, finding) for number, finding in enumerate(findings, 1)]
    roots = []
    # Findings that explain each other are ordered by their place, so that no one is below itself.
    for i in sorted(range(len(findings)), key=lambda i: (len(_strictly(above, i)), i)):
        parents = [j for j in depths if explains(findings[j], findings[i])] if i else []
        depths[i] = max((depths[j] + 1 for j in parents), default=0)
        if not parents:
            roots.append(i)
            continue
        parent = max(parents, key=lambda j: (depths[j], -j))
        nodes[i].together = i in above[parent]
        nodes[parent].effects.append(nodes[i])
    return [nodes[i] for i in sorted(roots)]


def _strictly(above: list[set[int]], i: int) -> set[int]:
    return {j for j in above[i] if i not in above[j]}


def _ancestors(findings: Sequence[Finding]) -> list[set[int]]:
    """For each finding the places of those that explain it, directly or through others."""
    count = len(findings)
    above = [{j for j in range(count) if j != i and explains(findings[j], findings[i])} for i in range(count)]
    for via in range(count):
        for i in range(count):
            if via in above[i]:
                above[i] |= above[via] - {i}
    return above
