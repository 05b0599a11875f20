"""`flinkwatch deliver`: delivery without the job, which runs elsewhere with --no-deliver."""

from contextlib import ExitStack
from pathlib import Path

from sinks.delivery.service import Delivery
from sinks.kafka.diagnosis import lasting_obstacle
from sinks.prometheus.http_server import StatusServer
from sinks.prometheus.reload_metrics import ReloadMetrics
from streaming.configuration.file_watch import FileWatch, WatchedFile
from streaming.configuration.known_issues import in_force, read_files
from streaming.configuration.settings import Settings
from streaming.configuration.sinks_file import SinksFile
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


def watch_file(file: WatchedFile, page: StatusServer) -> FileWatch:
    """The thread, not started, that reloads a file; the page shows whether that succeeded."""
    reloads = ReloadMetrics()
    page.registry.register(reloads)
    return FileWatch(file, reloads.reloaded)


def run_delivery(settings: Settings, stop: Stop, file: Path | None = None) -> None:
    """Deliver until `stop`. `file` contains the settings; its routes and mentions apply whenever it changes.

    Raises PreflightError if it cannot start, SecretError if a secret is missing.
    """
    delivery = new_delivery(settings)
    if lasting := lasting_obstacle(settings.kafka.access):
        raise PreflightError(f"kafka.access: {lasting}")
    try:
        delivery.start()
    except OSError as error:
        raise PreflightError(error.strerror or str(error)) from error
    with ExitStack() as exits:
        exits.callback(delivery.stop)
        if file is not None:
            watched = watch_file(SinksFile(file, settings, delivery.prepare), delivery.page)
            exits.callback(watched.stop)
            watched.start()
        while not stop.wait(1.0):
            pass
