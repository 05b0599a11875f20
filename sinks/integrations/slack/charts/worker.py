"""Draws charts and uploads them to threads in the background. Delivery never waits for a chart, and a failed chart
does not affect messages.

Each chart is drawn in a short-lived process (0.8 s, 90 MB, one at a time), so that delivery needs little memory.
"""

import functools
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec
import structlog

from sinks.contract.outcome import Delivered, Outcome, Refused, RetryAfter
from sinks.integrations.slack.charts.draw import ChartRequest

log = structlog.get_logger()

# On a starved host the imports of matplotlib alone take half a minute.
_DRAW_TIMEOUT_S = 120.0
# In a storm only the newest charts are drawn. The messages contain everything.
_WAITING_MOST = 20
_TRIES = 3
_WAIT_S, _WAIT_MOST_S = 5.0, 60.0
_NOT_ALLOWED = frozenset({"missing_scope", "no_permission", "not_allowed_token_type", "file_uploads_disabled"})
_WHAT_TO_DO = {
    "what_to_do": "add the scope files:write to the app and install it again, or set sinks.slack.charts: false"
}
_ROOT = Path(__file__).parents[4]
# The drawing process gets no tokens.
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "HOME", "LD_LIBRARY_PATH", "SYSTEMROOT")


# Charts of all channels are drawn one at a time.
_one_at_a_time = threading.Lock()


class DrawingError(Exception):
    """A chart could not be drawn; the text says why."""


class ChartImage(NamedTuple):
    """A PNG, its title, and its text for screen readers."""

    content: bytes
    title: str
    alt: str


Upload = Callable[[str, str, ChartImage], Outcome]
"""Uploads a chart to the thread of a message, given by channel ID and `ts`: `SlackClient.upload`."""


class Charts:
    """A worker thread that runs while there are charts to draw. Safe to use from several threads."""

    def __init__(
        self, upload: Upload, *, draw: Callable[[ChartRequest], bytes] | None = None, wait: float = _WAIT_S
    ) -> None:
        """`wait`: seconds before a retry if Slack asks for one without naming a time."""
        self._upload = upload
        self._draw = draw_apart if draw is None else draw
        self._wait = wait
        self._waiting: dict[str, tuple[ChartRequest, str]] = {}
        self.worker: threading.Thread | None = None
        self._lock = threading.Lock()
        self._at_hand = 0
        self._closed = threading.Event()
        self._off = False

    def order(self, order: ChartRequest, channel: str, ts: str) -> None:
        """Request a chart for the thread of `ts`. It replaces one that waits for the same thread."""
        with self._lock:
            if self._off or self._closed.is_set():
                return
            self._waiting.pop(ts, None)
            self._waiting[ts] = order, channel
            if len(self._waiting) > _WAITING_MOST:
                self._waiting.pop(next(iter(self._waiting)))
            if self.worker is None:
                self.worker = threading.Thread(target=self._work, name="charts", daemon=True)
                self.worker.start()

    def close(self, seconds: float = 0.0) -> None:
        """Wait at most `seconds` for the requested charts, then drop the remaining ones."""
        worker = self.worker
        if worker is not None:
            worker.join(timeout=seconds)
        self._closed.set()
        with self._lock:
            lost = len(self._waiting) + self._at_hand
            self._waiting.clear()
        if lost:
            log.warning("charts dropped at shutdown", count=lost)

    def _work(self) -> None:
        while True:
            with self._lock:
                self._at_hand = 0
                if not self._waiting or self._off:
                    self._waiting.clear()
                    self.worker = None
                    return
                ts = next(iter(self._waiting))
                order, channel = self._waiting.pop(ts)
                self._at_hand = 1
            try:
                self._deliver(order, channel, ts)
            except DrawingError as error:
                log.warning("chart not drawn", title=order.title, reason=str(error))
            except Exception:
                # A failure affects only this chart.
                log.exception("chart not drawn", title=order.title)

    def _deliver(self, order: ChartRequest, channel: str, ts: str) -> None:
        alt = f"Chart of {order.series.name} over time (UTC): {order.title}"[:1000]
        picture = ChartImage(self._draw(order), order.title, alt)
        for tries_left in reversed(range(_TRIES)):
            outcome = self._upload(channel, ts, picture)
            if isinstance(outcome, Delivered):
                return
            if isinstance(outcome, Refused) and outcome.code in _NOT_ALLOWED:
                self._off = True
                log.warning(
                    "Slack refused a chart, charts are disabled until restart", **_WHAT_TO_DO, error=outcome.code
                )
                return
            wait = self._wait_for(outcome)
            if wait is None or not tries_left or self._closed.wait(wait):
                log.warning("chart not uploaded", title=order.title, reason=outcome.reason)
                return

    def _wait_for(self, outcome: Outcome) -> float | None:
        """Seconds before a retry, None for no retry: after an unclear response the chart may already be there."""
        if not isinstance(outcome, RetryAfter):
            return None
        wait = self._wait if outcome.seconds is None else outcome.seconds
        return wait if wait <= _WAIT_MOST_S else None


def draw_apart(order: ChartRequest) -> bytes:
    """Draw the chart in a separate process. Raises DrawingError."""
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    # One thread is enough for a small chart.
    environment |= {"MPLBACKEND": "Agg", "MPLCONFIGDIR": _matplotlibs_folder().name, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "sinks.integrations.slack.charts.draw"]
    try:
        with _one_at_a_time:
            drawn = subprocess.run(
                command,
                input=msgspec.json.encode(order),
                capture_output=True,
                timeout=_DRAW_TIMEOUT_S,
                cwd=_ROOT,
                env=environment,
                check=False,
            )
    except subprocess.TimeoutExpired:
        raise DrawingError(f"drawing takes longer than {_DRAW_TIMEOUT_S:.0f} s") from None
    except OSError as error:
        raise DrawingError(f"cannot start {sys.executable}: {error.strerror}") from None
    if drawn.returncode != 0:
        last = drawn.stderr.decode("utf-8", "replace").strip().rsplit("\n", 1)[-1]
        raise DrawingError(last[:300] or f"exit status {drawn.returncode}")
    return drawn.stdout


@functools.cache
def _matplotlibs_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder for matplotlib's font cache, since a container's home may not be writable."""
    return tempfile.TemporaryDirectory(prefix="flinkwatch-charts-")
