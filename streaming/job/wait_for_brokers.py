"""The brokers may come up after flinkwatch, and an address may be wrong: it waits for a while, and says what it sees.

Without it a container would end and begin anew until they are there, and each start would hide the reason of the last.
"""

import time
from collections.abc import Callable

import structlog

from sinks.kafka.access import client_options
from sinks.kafka.diagnosis import lasting_obstacle, unreachable
from sinks.secret import SecretError
from streaming.configuration.settings import Settings
from streaming.errors import PreflightError
from streaming.shutdown import Stop
from streaming.shutdown import Stopped as Stopped  # noqa: PLC0414 - part of this module for its callers

log = structlog.get_logger()

_EVERY_S = 1.0
_SAY_EVERY_S = 15.0


def await_brokers(settings: Settings, stop: Stop, say: Callable[[str], object]) -> None:
    """Return once one of the brokers takes connections; `say` hears why none does yet.

    Raises PreflightError without a secret of Kafka, and after streaming.wait_for_brokers; Stopped on `stop`.
    """
    # What no waiting mends comes first.
    try:
        client_options(settings.kafka.access)
    except SecretError as error:
        raise PreflightError(f"kafka.access.{error}") from None
    servers, within = settings.kafka.access.bootstrap_servers, settings.streaming.wait_for_brokers / 1000
    begun = time.monotonic()
    said = begun - _SAY_EVERY_S
    while problem := connection_problem(servers):
        now = time.monotonic()
        if now - begun >= within:
            waited = f", waited {now - begun:.0f} s (streaming.wait_for_brokers)" if within else ""
            raise PreflightError(f"{problem} (kafka.access.bootstrap_servers){waited}")
        say(problem)
        if now - said >= _SAY_EVERY_S:
            said = now
            log.warning("waiting for Kafka", reason=problem, for_s=round(begun + within - now))
        if stop.wait(_EVERY_S):
            raise Stopped
    if lasting := lasting_obstacle(settings.kafka.access):
        raise PreflightError(f"kafka.access: {lasting}")


def connection_problem(servers: str) -> str:
    """Empty as soon as one of them takes a connection."""
    problems = []
    for server in servers.split(","):
        problem = unreachable(server)
        if problem is None:
            return ""
        problems.append(problem)
    return f"no Kafka broker answers: {'; '.join(problems)}"
