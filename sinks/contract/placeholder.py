"""The transition of a digest or an overview, where delivery expects that of an incident."""

from detectors.incident import Transition


def placeholder(name: str, seq: int, at: int, cause: str, opened_at: int) -> Transition:
    """A transition with nothing to show, under which the message passes through outbox and notification log."""
    return Transition(
        incident=name,
        seq=seq,
        transition="updated",
        at=at,
        cluster="",
        cause=cause,
        severity="critical",
        summary="",
        findings=[],
        evidence=[],
        opened_at=opened_at,
    )
