"""`flinkwatch deliver`: delivery alone, beside a job that runs elsewhere with --no-deliver."""

from sinks.delivery import Delivery
from streaming.settings import Settings
from streaming.stop import Stop


def run_delivery(settings: Settings, stop: Stop) -> None:
    """Deliver until `stop`."""
    delivery = Delivery(settings.kafka.access, settings.kafka.topics, settings.sinks.slack, settings.sinks.prometheus)
    delivery.start()
    try:
        while not stop.wait(1.0):
            pass
    finally:
        delivery.stop()
