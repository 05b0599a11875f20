"""The checker: what was produced against what Slack was told. It knows every transition and judges by the log of calls.

The promises, per incident:

    none lost       what stands in the channel in the end is the newest transition, and every transition was told,
                    or a newer one of its incident in its place; but nowhere while it is silenced
    none woken      no new message for a transition under a silence
    in order        no call tells an older transition than one before it
    none doubled    one message in the channel; a doubled one counts against the kills of unknown outcome
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from detectors.incident import Transition
from tests.fake_slack.server import Call, Posted


@dataclass
class Verdict:
    """Each list names incidents and is empty where the promise was kept."""

    lost: list[str] = field(default_factory=list)
    out_of_order: list[str] = field(default_factory=list)
    doubled: Counter[str] = field(default_factory=Counter)
    """Messages too many, by incident."""
    told_under_silence: list[str] = field(default_factory=list)
    edited_again: int = 0
    """Edits that were repeated; nobody sees them."""
    transitions: int = 0
    calls: int = 0


def judge(produced: Iterable[Transition], calls: Iterable[Call], parents: Iterable[Posted]) -> Verdict:
    """The verdict on a history. `calls` are those that took effect, in order; `parents` stand in the channel."""
    newest: dict[str, int] = {}
    silenced: set[tuple[str, int]] = set()
    verdict = Verdict()
    for transition in produced:
        if transition.silence is not None:
            silenced.add((transition.incident, transition.seq))
        newest[transition.incident] = max(newest.get(transition.incident, 0), transition.seq)
        verdict.transitions += 1
    told: defaultdict[str, list[int]] = defaultdict(list)
    for call in calls:
        payload = _payload(call.body.get("metadata"))
        if call.method in {"chat.postMessage", "chat.update"} and payload:
            told[payload[0]].append(payload[1])
            if call.method == "chat.postMessage" and payload in silenced:
                verdict.told_under_silence.append(payload[0])
            verdict.calls += 1
    shown: defaultdict[str, list[int]] = defaultdict(list)
    for message in parents:
        if payload := _payload(message.metadata):
            shown[payload[0]].append(payload[1])
    for incident, seq in newest.items():
        numbers = told[incident]
        if (incident, seq) in silenced and not shown[incident]:
            continue
        if not numbers or max(numbers) < seq or seq not in shown[incident]:
            verdict.lost.append(incident)
        if numbers != sorted(numbers):
            verdict.out_of_order.append(incident)
        verdict.doubled[incident] += max(0, len(shown[incident]) - 1)
        verdict.edited_again += len(numbers) - len(set(numbers))
    verdict.doubled = +verdict.doubled
    verdict.edited_again -= sum(verdict.doubled.values())
    return verdict


def shows(parents: Iterable[Posted]) -> dict[str, int]:
    """The newest transition that the channel shows of each incident."""
    found: dict[str, int] = {}
    for message in parents:
        if payload := _payload(message.metadata):
            found[payload[0]] = max(found.get(payload[0], 0), payload[1])
    return found


def _payload(metadata: object) -> tuple[str, int] | None:
    payload = metadata.get("event_payload") if isinstance(metadata, dict) else None
    if not isinstance(payload, dict) or "incident" not in payload or "seq" not in payload:
        return None
    return str(payload["incident"]), int(payload["seq"])
