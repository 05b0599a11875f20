"""`flinkwatch incident resolve` ends an incident by hand."""

import time
from pathlib import Path

import click

from detectors.incident import Transition
from detectors.settings.live import PublishedResolution
from streaming.cli import options
from streaming.cli.incidents import known_incidents
from streaming.cli.options import asking, config_option, settings_of, timeout_option
from streaming.configuration.settings import Settings
from streaming.errors import ConfigError, PublishedError
from streaming.terminal import UTC_CLOCK, echo

_LOOK_EVERY_S = 1.0
_MOST_CHARACTERS = 500


@click.command()
@click.argument("incident_id", metavar="INCIDENT")
@config_option
@click.option("--comment", required=True, help="Reason, which the message and the incident's history show.")
@click.option("--author", default=options.user, help="Person who resolves it. Default: user@host.")
@timeout_option
def resolve(incident_id: str, config_file: Path | None, comment: str, author: str, timeout: int) -> None:
    """Resolve INCIDENT, such as one of a cluster that was taken down.

    The job ends it, with your name and reason, and receivers are notified. Only new evidence opens it again. The
    command waits until the job has done so.
    """
    settings = settings_of(config_file)
    _check("--comment", comment)
    _check("--author", author)
    with asking(settings, timeout):
        found = known_incidents.open_incident(settings.kafka, incident_id, timeout)
        options.say_where(settings, config_file)
        asked = PublishedResolution(found, options.now(), author, comment)
        options.topic_of(settings, timeout).publish_resolution(asked)
        ended = _wait_for_end(settings, incident_id, timeout)
    echo(f"Resolved incident {incident_id} at {UTC_CLOCK.time(ended.at)}: {ended.reason}")


def _check(option: str, text: str) -> None:
    if not text.strip() or len(text) > _MOST_CHARACTERS:
        raise ConfigError(f"{option}: needs 1 to {_MOST_CHARACTERS} characters")


def _wait_for_end(settings: Settings, incident: str, timeout: int) -> Transition:
    deadline = time.monotonic() + timeout / 1000
    while True:
        newest = known_incidents.incidents(settings.kafka, timeout)
        for one in newest:
            if one.incident == incident and one.transition == "resolved":
                return one
        if time.monotonic() >= deadline:
            raise PublishedError(
                f"the job has not resolved incident {incident} within {timeout / 1000:g} s. The request is kept in "
                f"{settings.kafka.topics.config}, and the job ends it when it runs"
            )
        time.sleep(_LOOK_EVERY_S)
