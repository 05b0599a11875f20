"""`flinkwatch config` checks, publishes and shows the configuration."""

from collections.abc import Iterable
from pathlib import Path

import click
import msgspec
from click.core import ParameterSource

from detectors.settings.live import LiveSettings, publish
from detectors.settings.overrides import Override
from streaming.cli import config_report, options
from streaming.cli.config_init import init
from streaming.cli.incidents.known_incidents import places
from streaming.cli.options import asking, config_option, history_of, json_option, settings_of, timeout_option
from streaming.cli.reference import defaults, docs, schema
from streaming.configuration.diff import changes
from streaming.configuration.effective import about, settings_for
from streaming.configuration.known_issues import read_files
from streaming.configuration.settings import RESTART_ONLY, SECTIONS, Kafka, Settings, load, validate
from streaming.configuration.yaml_document import YamlDocument, read_document
from streaming.errors import ConfigError, PublishedError, RefusedError
from streaming.terminal import echo, echo_json
from streaming.tuning.compare import compare

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.group()
def config() -> None:
    """Check, publish and show the configuration."""


@config.command()
@click.argument("file", type=_FILE)
def check(file: Path) -> None:
    """Validate FILE and the known issues. Each error names the file, the line, the key and the allowed values."""
    read_files(load(file, {}).known_issues.files)
    echo(f"{file}: ok")


@config.command()
@click.argument("file", type=_FILE)
@config_option
@click.option("--dry-run", is_flag=True, help="Show the changes without publishing them.")
@click.option(
    "--check-against",
    "recordings",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="RECORDING",
    help="Recording (or log file) to replay: refuse FILE if it adds or loses more incidents than allowed. Repeatable.",
)
@options.max_new_option
@options.max_lost_option
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
    """Publish the detectors, overrides, silences and maintenance windows of FILE. They replace the current ones.

    A running job applies them in its next batch. If the job also watches a file, the newest change wins. The brokers
    are taken from --config if it is given, else from the section `kafka` of FILE, else from the default configuration.
    """
    document = read_document(file, SECTIONS)
    new = validate(document, {}).live
    used = _brokers_of(file, document, config_file, ctx)
    settings = settings_of(used)
    options.say_where(settings, used)
    in_force = history_of(settings, timeout).in_force
    if ignored := [section for section in RESTART_ONLY if section in document.data]:
        echo(f"Not published, because a running job does not reload them: {', '.join(ignored)}.", error=True)
    old = in_force.live() if in_force is not None else LiveSettings()
    config_report.difference(changes(old, new))
    if new.overrides:
        with asking(settings, timeout):
            _warn_of_unmatched(new.overrides, settings.kafka, timeout)
    if recordings:
        _check_against(recordings, old, new, settings, max_new, max_lost)
    published = publish(new, options.now(), options.user(), "apply")
    if in_force is not None and in_force.hash == published.hash:
        echo(f"Configuration {published.hash} is in force already.")
    elif dry_run:
        echo(f"Configuration {published.hash} would be published.")
    else:
        with asking(settings, timeout):
            options.topic_of(settings, timeout).publish(published)
        echo(f"Published configuration {published.hash}.")


@config.command()
@config_option
@click.option(
    "--for",
    "subject",
    metavar="CLUSTER/JOB",
    help="Show the effective settings of one job, or of one cluster as CLUSTER/ with the slash.",
)
@json_option
@timeout_option
def show(config_file: Path | None, subject: str | None, as_json: bool, timeout: int) -> None:
    """Print the configuration in force.

    It shows settings that differ from the default, overrides, silences and maintenance windows.
    """
    settings = settings_of(config_file)
    history = history_of(settings, timeout)
    in_force = history.in_force
    if in_force is None:
        raise PublishedError(
            f"{settings.kafka.topics.config}: no configuration has been published yet. Start `flinkwatch run`, which "
            "publishes one"
        )
    if subject is not None:
        cluster, _, job = subject.rpartition("/") if "/" in subject else (subject, "", "")
        config_report.settings_for(settings_for(in_force.live(), cluster, job), cluster, job, in_force, as_json)
    elif as_json:
        silences = [msgspec.to_builtins(s) for s in history.silences.values()]
        echo_json(msgspec.json.encode({**msgspec.to_builtins(in_force), "silences_by_command": silences}))
    else:
        config_report.in_force(history, in_force, options.now())


@config.command("history")
@config_option
@json_option
@timeout_option
def history_(config_file: Path | None, as_json: bool, timeout: int) -> None:
    """Print all published configurations, oldest first, with their changes."""
    found = history_of(settings_of(config_file), timeout).configurations
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
    """Publish an earlier configuration again.

    HASH is the configuration to publish, by default the previous one.
    """
    settings = settings_of(config_file)
    options.say_where(settings, config_file)
    found = history_of(settings, timeout).configurations
    if not found:
        raise PublishedError(f"{settings.kafka.topics.config}: no configuration has been published yet")
    in_force = found[-1]
    chosen = [p for p in found if (p.hash == hash if hash else p.hash != in_force.hash)]
    if not chosen:
        hashes = list(dict.fromkeys(p.hash for p in found))
        if hash is None:
            raise ConfigError(f"Nothing to roll back to: {hashes[0]} is the only configuration in the history.")
        raise ConfigError(f"No configuration {hash} in the history. It has: {', '.join(hashes)}")
    old, new = in_force.live(), chosen[-1].live()
    config_report.difference(changes(old, new))
    published = publish(new, options.now(), options.user(), "rollback")
    if published.hash == in_force.hash:
        echo(f"Configuration {published.hash} is in force already.")
    else:
        options.topic_of(settings, timeout).publish(published)
        echo(f"Published configuration {published.hash} again.")


def _check_against(
    recordings: tuple[Path, ...], old: LiveSettings, new: LiveSettings, settings: Settings, max_new: int, max_lost: int
) -> None:
    found = compare(recordings, old, new, settings)
    for sign, incidents in (("+", found.added), ("-", found.removed)):
        for one in incidents:
            echo(f"{sign} {one.cause} {one.cluster} {one.job}: {one.summary}")
    echo(f"On the recordings: {len(found.added)} new, {len(found.removed)} lost.")
    if len(found.added) > max_new or len(found.removed) > max_lost:
        raise RefusedError(
            f"the configuration is not published: with it the recordings have {len(found.added)} new incidents (at "
            f"most {max_new}, --max-new) and lose {len(found.removed)} (at most {max_lost}, --max-lost)"
        )


def _warn_of_unmatched(overrides: Iterable[Override], kafka: Kafka, timeout: int) -> None:
    """Name each override that fits none of the clusters and jobs that the job has readings of, if it has any."""
    known = [(cluster, job) for cluster, job in places(kafka, timeout) if cluster]
    for number, override in enumerate(overrides):
        if known and not any(override.fits_cluster(c) and override.fits_job(j) for c, j in known):
            match = f"override {number} ({about(override)})"
            echo(f"Warning: {match} matches none of the known clusters and jobs. Check the patterns.", error=True)


def _brokers_of(file: Path, document: YamlDocument, config_file: Path | None, ctx: click.Context) -> Path | None:
    """The file that names the brokers to publish to: --config, else FILE itself, else the default configuration."""
    given = ctx.get_parameter_source("config_file") is ParameterSource.COMMANDLINE
    return config_file if given or "kafka" not in document.data else file


for _command in (init, defaults, schema, docs):
    config.add_command(_command)
