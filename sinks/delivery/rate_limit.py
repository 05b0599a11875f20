"""When the next call of each method may be made. A token bucket keeps flinkwatch below the receiver's limit; a pause
that the receiver asks for is added to it.
"""

from collections.abc import Callable, Mapping
from typing import Literal

from sinks.contract.sink import Rate, Traits

Method = Literal["post", "edit"]
"""A new message, or a change of an existing one. Receivers limit them separately."""

METHODS: tuple[Method, ...] = ("post", "edit")


class TokenBucket:
    """`burst` calls at once, then `per_second`; without a rate as many as one likes. None before a pause has ended."""

    def __init__(self, rate: Rate | None, now: float) -> None:
        self._rate = rate
        self._tokens = float(rate.burst) if rate is not None else 0.0
        self._at = self.paused_until = now

    def available_at(self, now: float) -> float:
        """When the next call may be made; in the past if it may be made at once."""
        self._fill(now)
        if self._rate is None or self._tokens >= 1:
            return self.paused_until
        return max(self.paused_until, now + (1 - self._tokens) / self._rate.per_second)

    def acquire(self, now: float) -> None:
        self._fill(now)
        self._tokens -= 1

    def _fill(self, now: float) -> None:
        if self._rate is not None:
            gained = (now - self._at) * self._rate.per_second
            # A little more, because n times 1/n must be a whole call.
            self._tokens = min(float(self._rate.burst), self._tokens + gained + 1e-9)
        self._at = now


class RateLimiter:
    def __init__(self, traits: Traits, clock: Callable[[], float]) -> None:
        self._clock = clock
        rates = {"post": traits.post_rate, "edit": traits.edit_rate}
        self._buckets = {method: TokenBucket(rates[method], clock()) for method in METHODS}

    def available_at(self) -> Mapping[Method, float]:
        now = self._clock()
        return {method: bucket.available_at(now) for method, bucket in self._buckets.items()}

    def acquire(self, method: Method) -> None:
        self._buckets[method].acquire(self._clock())

    def pause(self, method: Method, seconds: float) -> None:
        """No call for so long, because the receiver asks for it or because every call would fail in the same way."""
        bucket = self._buckets[method]
        bucket.paused_until = max(bucket.paused_until, self._clock() + seconds)
