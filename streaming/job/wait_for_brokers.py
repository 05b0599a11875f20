"""Waits for the brokers at the start, for a limited time, and logs why none answers.

Brokers may start after flinkwatch, or an address may be wrong. Without the wait, a container would restart until the
brokers are up, and each start would hide the reason of the last.
"""

import time
from collections.abc import Callable

import structlog

from sinks.kafka.access import client_options
from sinks.kafka.diagnosis import lasting_obstacle, unreachable
from sinks.secret import SecretError
from streaming.configuration.settings import Settings
from streaming.errors import PreflightError
from streaming.threads import Stop

log = structlog.get_logger()

_EVERY_S = 1.0
_REPORT_EVERY_S = 15.0


def await_brokers(settings: Settings, stop: Stop, say: Callable[[str], object]) -> None:
    """Return once one of the brokers accepts connections; `say` is called with the reason while none does.

    Raises PreflightError if a secret of Kafka is missing or streaming.wait_for_brokers has passed, Stopped on `stop`.
    """
    # Waiting does not fix a missing secret.
    try:
        client_options(settings.kafka.access)
    except SecretError as error:
        raise PreflightError(f"kafka.access.{error}") from None
    servers, within = settings.kafka.access.bootstrap_servers, settings.streaming.wait_for_brokers / 1000
    begun = time.monotonic()
    reported_at = begun - _REPORT_EVERY_S
    while problem := connection_problem(servers):
        now = time.monotonic()
        if now - begun >= within:
            waited = f" after {now - begun:.0f} s (streaming.wait_for_brokers)" if within else ""
            raise PreflightError(f"{problem} (kafka.access.bootstrap_servers){waited}")
        say(problem)
        if now - reported_at >= _REPORT_EVERY_S:
            reported_at = now
            log.warning("waiting for Kafka", reason=problem, for_s=round(begun + within - now))
        stop.pause(_EVERY_S)
    if lasting := lasting_obstacle(settings.kafka.access):
        raise PreflightError(f"kafka.access: {lasting}")


def connection_problem(servers: str) -> str:
    """Why none of the servers accepts connections; empty if one does."""
    problems = []
    for server in servers.split(","):
        problem = unreachable(server)
        if problem is None:
            return ""
        problems.append(problem)
    return f"no Kafka broker answers: {'; '.join(problems)}"
