"""The transitions of log files, recordings and a Prometheus server, for the commands that replay them."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import NamedTuple

from detectors.events.reader import Reader
from detectors.incident import Transition
from detectors.settings.live import publish
from streaming.cli.prometheus_options import MetricsServer
from streaming.cli.time_zone import TimeZone
from streaming.configuration.known_issues import in_force, read_files
from streaming.configuration.settings import Settings
from streaming.gc_pause import gc_paused
from streaming.recordings.follow import FollowedInputs, now_ms
from streaming.recordings.followed_samples import FollowedSamples
from streaming.recordings.input_file import Arrival
from streaming.recordings.inputs import InputFiles
from streaming.recordings.prometheus_samples import TOPIC
from streaming.recordings.replay import AFTER_MS, ONE_CLUSTER_BATCH_MS, TRIGGER_MS, Arrived, run
from streaming.recordings.standard_input import StandardInput
from streaming.terminal import UTC_CLOCK, echo, progress
from streaming.threads import Stop

_STDIN = Path("-")
_SAY_EVERY = 500
# The share of the time that it takes to look at all files before the first event.
_SURVEY = 0.2


class ReplayedFiles(NamedTuple):
    """The files of a replay, and its transitions, which are made while they are taken."""

    inputs: InputFiles
    transitions: Iterator[Transition]


@contextmanager
def replaying(
    paths: Iterable[Path],
    settings: Settings,
    time_zone: TimeZone | None,
    server: MetricsServer | None = None,
    *,
    follow: bool = False,
) -> Iterator[ReplayedFiles]:
    """A replay of files, with a progress bar, or until a signal if it follows them; `-` is standard input.

    Raises RecordingError.
    """
    paths = list(paths)
    with StandardInput() if _STDIN in paths else nullcontext() as stdin:
        if stdin is not None:
            paths = [stdin.backlog(whole=not follow) if path == _STDIN else path for path in paths]
        if follow:
            yield follow_files(paths, settings, time_zone, server, stdin)
        else:
            with progress("reading") as show, gc_paused():
                yield replay_files(paths, settings, time_zone, show, server)


def replay_files(
    paths: Iterable[Path],
    settings: Settings,
    time_zone: TimeZone | None,
    show: Callable[[float, str], None],
    server: MetricsServer | None = None,
) -> ReplayedFiles:
    """A replay of files and of a Prometheus server under the settings of `--config`. Raises RecordingError.

    `show` gets how far it is.
    """
    inputs, reader = _opened(paths, settings, time_zone, partial(_show_survey, show), server)
    return _replayed(inputs, settings, _read(inputs, inputs.arrivals(), reader, settings, show))


def follow_files(
    paths: Iterable[Path],
    settings: Settings,
    time_zone: TimeZone | None,
    server: MetricsServer | None,
    stdin: StandardInput | None,
) -> ReplayedFiles:
    """A replay that continues until a signal, as files and a Prometheus server grow. Raises RecordingError."""
    stop = Stop()
    stop.install()
    samples = None
    if server is not None:
        server = server.until_now()
        samples = FollowedSamples(server.samples(), server.end or now_ms(), _warn)
    inputs, reader = _opened(paths, settings, time_zone, _show_nothing, server)
    followed = FollowedInputs(inputs, stop, stdin=stdin, samples=samples)
    return _replayed(inputs, settings, _read(inputs, followed.arrivals(), reader, settings, _show_nothing), live=True)


def _opened(
    paths: Iterable[Path],
    settings: Settings,
    time_zone: TimeZone | None,
    survey: Callable[[float, str], None],
    server: MetricsServer | None,
) -> tuple[InputFiles, Reader]:
    identity = settings.identity
    if server is not None and server.cluster:
        identity = identity.model_copy(update={"default": server.cluster})
    reader = Reader(identity, frozenset({*settings.kafka.metrics, TOPIC}))
    zone = time_zone.zone if time_zone else None
    config_topic = settings.kafka.topics.config
    inputs = InputFiles(paths, reader, settings.kafka.for_files, config_topic=config_topic, zone=zone, say=survey)
    if server is not None:
        server.add_to(inputs)
    return inputs, reader


def _replayed(
    inputs: InputFiles, settings: Settings, arrived: Iterator[Arrived], *, live: bool = False
) -> ReplayedFiles:
    transitions = run(
        arrived,
        publish(settings.live, at=0, by="replay"),
        settings.kafka.topics.config,
        versions=inputs.versions(),
        after_ms=0 if live else AFTER_MS,
        issues=in_force(read_files(settings.known_issues.files)),
        one_cluster_ms=TRIGGER_MS if live else ONE_CLUSTER_BATCH_MS,
    )
    return ReplayedFiles(inputs, transitions)


def _read(
    inputs: InputFiles,
    arrivals: Iterator[Arrival],
    reader: Reader,
    settings: Settings,
    show: Callable[[float, str], None],
) -> Iterator[Arrived]:
    """Read each arrival, count it by file, and report the progress."""
    config_topic = settings.kafka.topics.config
    for number, (clock, file, record) in enumerate(arrivals):
        found = [] if record is None or record.topic == config_topic else reader.read(record)
        if record is not None:
            inputs.files[file].take(record, found)
        if number % _SAY_EVERY == 0:
            show(_SURVEY + (1 - _SURVEY) * inputs.share(clock), UTC_CLOCK.time(clock))
        yield clock, record, found


def _show_survey(show: Callable[[float, str], None], share: float, file: str) -> None:
    show(_SURVEY * share, f"looking at {file}")


def _warn(text: str) -> None:
    echo(f"flinkwatch: {text}", error=True)


def _show_nothing(_share: float, _detail: str) -> None:
    """A run without an end has no progress."""
