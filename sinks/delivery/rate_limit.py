"""When the next call of each method may be made: a token bucket keeps us below the receiver's limit, and what the
receiver itself asks for comes on top.
"""

from collections.abc import Callable, Mapping

from sinks.contract.sink import Rate, Traits
from sinks.delivery.outbox import METHODS, Method


class TokenBucket:
    """`burst` calls at once, then `per_second`. Without a rate it never limits."""

    def __init__(self, rate: Rate | None, now: float) -> None:
        self._rate = rate
        self._tokens = float(rate.burst) if rate is not None else 0.0
        self._at = now

    def opens(self, now: float) -> float:
        """When the next call may be made; long ago when it may at once."""
        self._fill(now)
        if self._rate is None or self._tokens >= 1:
            return float("-inf")
        return now + (1 - self._tokens) / self._rate.per_second

    def take(self, now: float) -> None:
        """A call is made."""
        self._fill(now)
        self._tokens -= 1

    def _fill(self, now: float) -> None:
        if self._rate is not None:
            gained = (now - self._at) * self._rate.per_second
            # A shade more: n times 1/n must be a whole call.
            self._tokens = min(float(self._rate.burst), self._tokens + gained + 1e-9)
        self._at = now


class Gates:
    """One gate a method."""

    def __init__(self, traits: Traits, clock: Callable[[], float]) -> None:
        self._clock = clock
        now = clock()
        rates = {"post": traits.posts, "edit": traits.changes}
        self._buckets = {method: TokenBucket(rates[method], now) for method in METHODS}
        self._shut_until: dict[Method, float] = dict.fromkeys(METHODS, now)

    def opens(self) -> Mapping[Method, float]:
        """When each method may be used next."""
        now = self._clock()
        return {method: max(self._buckets[method].opens(now), self._shut_until[method]) for method in METHODS}

    def take(self, method: Method) -> None:
        """A call is made."""
        self._buckets[method].take(self._clock())

    def shut(self, method: Method, seconds: float) -> None:
        """No call for so long: the receiver asks for it, or every call would fail alike."""
        self._shut_until[method] = max(self._shut_until[method], self._clock() + seconds)
