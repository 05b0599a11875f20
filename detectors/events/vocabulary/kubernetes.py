"""Kubernetes events about Flink, as `envelopes/kubernetes_events.py` writes them into one line."""

from detectors.events.vocabulary.pattern import LogPattern, N

PREFILTER: tuple[str, ...] = ("involvedObject", "regarding", "k8s.event.reason")
"""Literals of which every record with an event contains one: the fields of both API groups, and an attribute."""

PATTERNS: tuple[LogPattern, ...] = (
    LogPattern(
        "kubernetes_event",
        rf"Kubernetes event: (?P<severity>Warning|Normal) (?P<happened>\w+) of (?P<object>\w+) (?P<target>\S+)"
        rf" \((?P<times>{N}) times? in (?P<spread>{N}) s\): (?P<note>.*)",
    ),
)
