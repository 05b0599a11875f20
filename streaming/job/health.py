"""Health of the job and its HTTP page: healthy from the start of the process, ready once batches finish."""

import time
from contextlib import ExitStack

from sinks.delivery.service import Delivery
from sinks.prometheus.http_server import StatusServer
from streaming.configuration.settings import Settings
from streaming.errors import PreflightError
from streaming.job.deliver import new_delivery
from streaming.job.telemetry import Build


class Health:
    """Tracks whether batches finish. `problem` is the reason that the readiness check reports."""

    def __init__(self, trigger_ms: int) -> None:
        self._patience = max(60.0, 10 * trigger_ms / 1000)
        self._batch = -1
        self._finished_at: float | None = None
        self.started()

    def waiting(self, reason: str) -> None:
        self._before_the_first = reason

    def started(self) -> None:
        self._before_the_first = "no batch has finished yet"

    def failed(self, reason: str) -> None:
        """Note that the query failed and is restarted. The job is not ready until a batch has finished."""
        self._batch, self._finished_at = -1, None
        self._before_the_first = f"the query failed and is being restarted: {reason}"

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
    """Start the HTTP page if it is enabled: the page of delivery, or the job's own page without delivery.

    Returns the page and delivery, which is not started. Raises PreflightError if the port cannot be opened, SecretError
    if a secret of a receiver is missing.
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
