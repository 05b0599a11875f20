"""`flinkwatch deliver`: delivery without the job, which runs elsewhere with --no-deliver."""

from sinks.delivery.service import Delivery
from sinks.kafka.diagnosis import lasting_obstacle
from streaming.configuration.known_issues import in_force, read_files
from streaming.configuration.settings import Settings
from streaming.errors import PreflightError
from streaming.threads import Stop


def new_delivery(settings: Settings) -> Delivery:
    """Create delivery without starting it. Its page is ready only while canaries return."""
    issues = in_force(read_files(settings.known_issues.files))
    delivery = Delivery(settings.kafka.access, settings.kafka.topics, settings.sinks, issues=issues)
    every = settings.streaming.canary if settings.streaming.heartbeat else 0
    if every:
        delivery.page.add_readiness_check("canary", lambda: delivery.board.canary.problem(every))
    return delivery


def run_delivery(settings: Settings, stop: Stop) -> None:
    """Deliver until `stop`. Raises PreflightError if it cannot start, SecretError if a secret is missing."""
    delivery = new_delivery(settings)
    if lasting := lasting_obstacle(settings.kafka.access):
        raise PreflightError(f"kafka.access: {lasting}")
    try:
        delivery.start()
    except OSError as error:
        raise PreflightError(error.strerror or str(error)) from error
    try:
        while not stop.wait(1.0):
            pass
    finally:
        delivery.stop()
