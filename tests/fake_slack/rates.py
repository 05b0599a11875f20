"""Slack's rate limits per method, as its documentation states them: what is over them is answered with 429."""

import math
from typing import Any

# Calls a minute. chat.postMessage has a tier of its own: one a second in each channel, short bursts allowed.
PER_MINUTE = {
    "chat.postMessage": 60,
    "chat.update": 50,
    "conversations.history": 50,
    "conversations.replies": 50,
    "files.getUploadURLExternal": 100,
    "files.completeUploadExternal": 100,
}
_BURST_S = 10


class Rates:
    """A bucket of calls for each method, and for posts for each channel; it fills evenly."""

    def __init__(self) -> None:
        self._buckets: dict[tuple[str, str], tuple[float, float]] = {}

    def wait(self, method: str, body: dict[str, Any], now: float) -> int:
        """Takes one call at `now` (seconds). 0: it may go on; else the whole seconds of Retry-After."""
        if method not in PER_MINUTE:
            return 0
        per_second = PER_MINUTE[method] / 60
        most = max(per_second * _BURST_S, 1.0)
        key = method, str(body.get("channel", "")) if method == "chat.postMessage" else ""
        had, at = self._buckets.get(key, (most, now))
        has = min(most, had + (now - at) * per_second)
        if has < 1:
            self._buckets[key] = has, now
            return max(1, math.ceil((1 - has) / per_second))
        self._buckets[key] = has - 1, now
        return 0
