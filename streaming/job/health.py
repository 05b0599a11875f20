"""The page of a running job, from its first second: alive while it starts, ready once batches finish."""

import time
from contextlib import ExitStack

from sinks.delivery.service import Delivery
from sinks.prometheus.http_server import StatusServer
from streaming.configuration.settings import Settings
from streaming.errors import PreflightError
from streaming.job.deliver import new_delivery
from streaming.job.telemetry import Build


class Health:
    """Whether batches still finish; `problem` is what readiness says of it."""

    def __init__(self, trigger_ms: int) -> None:
        self._patience = max(60.0, 10 * trigger_ms / 1000)
        self._batch = -1
        self._finished_at: float | None = None
        self._before_the_first = "no batch has finished yet"

    def waiting(self, reason: str) -> None:
        """Why it has not begun."""
        self._before_the_first = reason

    def started(self) -> None:
        """Nothing is waited for any more."""
        self._before_the_first = "no batch has finished yet"

    def failed(self, reason: str) -> None:
        """The query has failed and is started again: not ready until a batch has finished."""
        self._batch, self._finished_at = -1, None
        self._before_the_first = f"the query failed and is started again: {reason}"

    def finished(self, batch: int) -> None:
        if batch != self._batch:
            self._batch, self._finished_at = batch, time.monotonic()

    def problem(self) -> str | None:
        """Why the job is not ready, or None."""
        if self._finished_at is None:
            return self._before_the_first
        age = time.monotonic() - self._finished_at
        return f"the last batch finished {age:.0f} s ago" if age > self._patience else None


def listen(settings: Settings, deliver: bool, health: Health, exits: ExitStack) -> tuple[StatusServer, Delivery | None]:
    """The page of delivery, which is not started, or without delivery one of the job's own; it listens when enabled.

    Raises PreflightError when it cannot, SecretError when a sink's secret is missing.
    """
    place, setting = settings.sinks.prometheus, "sinks.prometheus"
    delivery = new_delivery(settings) if deliver else None
    if delivery is not None:
        delivery.check()
        page = delivery.page
    else:
        place, setting = place.model_copy(update={"port": settings.streaming.metrics_port}), "streaming.metrics_port"
        page = StatusServer(place)
        page.registry.register(Build())
    page.add_readiness_check("query", health.problem)
    if place.enabled:
        try:
            page.start()
        except OSError as error:
            reason = (error.strerror or str(error)).removeprefix("sinks.prometheus: ")
            raise PreflightError(f"{setting}: {reason}") from error
        exits.callback(page.stop)
    return page, delivery
