"""`flinkwatch config`: check, publish and look at the configuration."""

import time
from collections.abc import Iterable
from pathlib import Path

import click
import msgspec
from click.core import ParameterSource

from detectors.settings.live import LiveSettings, publish
from detectors.settings.overrides import Override
from streaming.cli import config_report
from streaming.cli.options import (
    asking,
    config_option,
    config_path,
    json_option,
    say_where,
    settings_of,
    timeout_option,
    user,
)
from streaming.cli.reference import docs, schema
from streaming.cli.silenced_incidents import places
from streaming.configuration.diff import changes
from streaming.configuration.effective import about
from streaming.configuration.settings import RESTART_ONLY, SECTIONS, Kafka, Settings, load, validate
from streaming.configuration.topic import ConfigTopic
from streaming.configuration.yaml_document import YamlDocument, read_document
from streaming.errors import ConfigError, PublishedError, RefusedError
from streaming.terminal import echo, echo_json

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.group()
def config() -> None:
    """Check, publish and look at the configuration."""


@config.command()
@click.argument("file", type=_FILE)
def check(file: Path) -> None:
    """Validate FILE and the known issues; every error names file, line, key and what is allowed."""
    from streaming.configuration.known_issues import shipped

    load(file, {})
    shipped()
    echo(f"{file}: ok")


@config.command()
def defaults() -> None:
    """Print the configuration file with every setting, its default and its reason."""
    from streaming.reference.configuration_file import configuration_file

    echo(configuration_file(), newline=False)


@config.command()
@click.argument("file", type=_FILE)
@config_option
@click.option("--dry-run", is_flag=True, help="Show the difference and publish nothing.")
@click.option(
    "--check-against",
    "recordings",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="RECORDING",
    help="Refuse when FILE changes too much of what is found in this recording; may be given several times.",
)
@click.option("--max-new", type=click.IntRange(min=0), default=0, show_default=True, help="Incidents it may add.")
@click.option("--max-lost", type=click.IntRange(min=0), default=0, show_default=True, help="Incidents it may lose.")
@timeout_option
@click.pass_context
def apply(
    ctx: click.Context,
    file: Path,
    config_file: Path | None,
    dry_run: bool,
    recordings: tuple[Path, ...],
    max_new: int,
    max_lost: int,
    timeout: int,
) -> None:
    """Publish all detectors, overrides and silences from FILE, replacing the current ones.

    A running job applies them with its next batch. If the job itself watches a file, the newest change wins. The
    brokers are those of FILE if it has a section `kafka`; --config names another file for them.
    """
    document = read_document(file, SECTIONS)
    new = validate(document, {}).live
    used = _brokers_of(file, document, config_file, ctx)
    settings = settings_of(used)
    say_where(settings, config_path(used))
    topic = _topic(settings, timeout)
    with asking(settings, timeout):
        in_force = topic.history().in_force
    if ignored := [section for section in RESTART_ONLY if section in document.data]:
        echo(f"Not published, because a running job does not reload them: {', '.join(ignored)}.", error=True)
    old = in_force.live() if in_force is not None else LiveSettings()
    config_report.difference(changes(old, new))
    if new.overrides:
        with asking(settings, timeout):
            _warn_of_unmatched(new.overrides, settings.kafka, timeout)
    if recordings:
        _check_against(recordings, old, new, settings, max_new, max_lost)
    published = publish(new, _now(), user(), "apply")
    if in_force is not None and in_force.hash == published.hash:
        echo(f"{published.hash} is in force already.")
    elif dry_run:
        echo(f"{published.hash} would be published.")
    else:
        with asking(settings, timeout):
            topic.publish(published)
        echo(f"{published.hash} is published.")


@config.command()
@config_option
@click.option("--for", "subject", metavar="CLUSTER/JOB", help="What counts for a job; for a cluster end with a slash.")
@json_option
@timeout_option
def show(config_file: Path | None, subject: str | None, as_json: bool, timeout: int) -> None:
    """Print the configuration in force, as the topic has it: what is not default, overrides and silences."""
    from streaming.configuration.effective import settings_for

    settings = settings_of(config_file)
    with asking(settings, timeout):
        history = _topic(settings, timeout).history()
    in_force = history.in_force
    if in_force is None:
        raise PublishedError(
            f"{settings.kafka.topics.config}: nothing was published yet; `flinkwatch run` does at start"
        )
    if subject is not None:
        cluster, _, job = subject.rpartition("/") if "/" in subject else (subject, "", "")
        config_report.settings_for(settings_for(in_force.live(), cluster, job), cluster, job, in_force, as_json)
        return
    if as_json:
        echo_json(
            msgspec.json.encode(
                {
                    **msgspec.to_builtins(in_force),
                    "silences_by_command": [msgspec.to_builtins(s) for s in history.silences.values()],
                }
            )
        )
    else:
        config_report.in_force(history, in_force, _now())


@config.command("history")
@config_option
@json_option
@timeout_option
def history_(config_file: Path | None, as_json: bool, timeout: int) -> None:
    """Print every configuration that was published, oldest first, with what it changed."""
    settings = settings_of(config_file)
    with asking(settings, timeout):
        found = _topic(settings, timeout).history().configurations
    if as_json:
        for published in found:
            echo_json(msgspec.json.encode(published))
    else:
        config_report.history(found)


@config.command()
@click.argument("hash", required=False, metavar="[HASH]")
@config_option
@timeout_option
def rollback(hash: str | None, config_file: Path | None, timeout: int) -> None:  # noqa: A002 - click names it so
    """Roll back to the configuration HASH; by default, to the previous one."""
    settings = settings_of(config_file)
    say_where(settings, config_path(config_file))
    topic = _topic(settings, timeout)
    with asking(settings, timeout):
        found = topic.history().configurations
    if not found:
        raise PublishedError(f"{topic.name}: nothing was published yet")
    in_force = found[-1]
    chosen = [p for p in found if (p.hash == hash if hash else p.hash != in_force.hash)]
    if not chosen:
        hashes = list(dict.fromkeys(p.hash for p in found))
        if hash is None:
            raise ConfigError(f"Nothing to roll back to: {hashes[0]} is the only configuration in the history.")
        raise ConfigError(f"{hash}: there is no such configuration in the history, which has {', '.join(hashes)}")
    old, new = in_force.live(), chosen[-1].live()
    config_report.difference(changes(old, new))
    published = publish(new, _now(), user(), "rollback")
    if published.hash == in_force.hash:
        echo(f"{published.hash} is in force already.")
        return
    topic.publish(published)
    echo(f"{published.hash} is published again.")


def _check_against(
    recordings: tuple[Path, ...], old: LiveSettings, new: LiveSettings, settings: Settings, max_new: int, max_lost: int
) -> None:
    from streaming.tuning.compare import compare

    found = compare(recordings, old, new, settings)
    for sign, incidents in (("+", found.added), ("-", found.removed)):
        for one in incidents:
            echo(f"{sign} {one.cause} {one.cluster} {one.job}: {one.summary}")
    echo(f"On the recordings: {len(found.added)} new, {len(found.removed)} lost.")
    if len(found.added) > max_new or len(found.removed) > max_lost:
        raise RefusedError(
            f"refused: {len(found.added)} new and {len(found.removed)} lost incidents; "
            f"allowed are {max_new} (--max-new) and {max_lost} (--max-lost). Nothing is published"
        )


def _warn_of_unmatched(overrides: Iterable[Override], kafka: Kafka, timeout: int) -> None:
    """Name each override that fits none of the clusters and jobs that the job has readings of, if it has any."""
    known = [(cluster, job) for cluster, job in places(kafka, timeout) if cluster]
    for number, override in enumerate(overrides):
        if known and not any(override.fits_cluster(c) and override.fits_job(j) for c, j in known):
            match = f"override {number} ({about(override)})"
            echo(f"Warning: {match} matches none of the known clusters and jobs. Check the patterns.", error=True)


def _brokers_of(file: Path, document: YamlDocument, config_file: Path | None, ctx: click.Context) -> Path | None:
    """The file that says which Kafka is published to: --config, else FILE itself, else what is usual."""
    given = ctx.get_parameter_source("config_file") is ParameterSource.COMMANDLINE
    return config_file if given or "kafka" not in document.data else file


def _topic(settings: Settings, timeout: int) -> ConfigTopic:
    return ConfigTopic(settings.kafka.access, settings.kafka.topics.config, timeout)


def _now() -> int:
    return int(time.time() * 1000)


config.add_command(schema)
config.add_command(docs)
