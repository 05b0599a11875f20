"""The options of a command that also reads metrics from a Prometheus server."""

from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from streaming.cli.options import PastTime, now

if TYPE_CHECKING:
    from streaming.recordings.inputs import InputFiles
    from streaming.recordings.prometheus_samples import PrometheusSamples


_HOUR_MS = 3_600_000


class MetricsServer(NamedTuple):
    """What the options name. Times are epoch ms, None without the option."""

    url: str
    begin: int | None
    end: int | None
    match: str
    cluster: str
    cluster_label: str
    auth: Path | None

    def until_now(self) -> "MetricsServer":
        """The server without an end of its samples; the samples of the last hour come first, if nothing is named.

        Raises click.UsageError if the options name an end.
        """
        if self.end is not None:
            raise click.UsageError("--follow reads until Ctrl-C; --to is the end of a replay.")
        end = now()
        return self._replace(begin=end - _HOUR_MS if self.begin is None else self.begin, end=end)

    def samples(self) -> "PrometheusSamples":
        """The samples of the server. Raises PrometheusError."""
        from streaming.recordings.prometheus_api import PrometheusApi
        from streaming.recordings.prometheus_samples import PrometheusSamples, authorization

        api = PrometheusApi(self.url, partial(authorization, self.auth) if self.auth else lambda: "")
        return PrometheusSamples(api, match=self.match, cluster=self.cluster, cluster_label=self.cluster_label)

    def add_to(self, inputs: "InputFiles") -> None:
        """Let the files be read with the samples of their time, or of the one that the options name.

        Raises PrometheusError, or click.UsageError if neither is known.
        """
        from streaming.recordings.inputs import RecordSource

        span = inputs.span()
        begin = self.begin if self.begin is not None else span[0] if span else None
        end = self.end if self.end is not None else span[1] if span else now()
        if begin is None:
            raise click.UsageError("--prometheus without log files needs --from, such as --from 6h.")
        if begin >= end:
            raise click.UsageError("--from has to be before --to.")
        samples = self.samples()
        inputs.add(RecordSource(samples.name, begin, end, lambda: samples.between(begin - 1, end)))


def prometheus_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options; it gets the argument `server`, None without --prometheus."""

    @click.option(
        "--prometheus",
        "prometheus_url",
        metavar="URL",
        help="Also read Flink's metrics from a Prometheus server: http://prometheus:9090.",
    )
    @click.option(
        "--from",
        "begin",
        type=PastTime(),
        metavar="TIME",
        help="First sample: 6h, or 2026-11-21T22:00:00Z. Default: the first line of the log files.",
    )
    @click.option(
        "--to", "end", type=PastTime(), metavar="TIME", help="Last sample. Default: the last line of the log files."
    )
    @click.option("--match", default="", metavar="SELECTOR", help="Only series with such labels: '{job=\"flink\"}'.")
    @click.option(
        "--cluster", default="", metavar="NAME", help="The cluster of the samples and of log lines that name none."
    )
    @click.option(
        "--cluster-label", default="cluster", show_default=True, help="Label of the samples that names the cluster."
    )
    @click.option(
        "--prometheus-auth",
        "auth",
        type=click.Path(path_type=Path, dir_okay=False, exists=True),
        metavar="FILE",
        help="File with user:password, or with a bearer token, for the Prometheus server.",
    )
    @wraps(command)
    def with_server(*args: Any, prometheus_url: str | None, **options: Any) -> Any:
        given = {name: options.pop(name) for name in MetricsServer._fields if name != "url"}
        if prometheus_url is None:
            lone = [name for name in ("begin", "end", "match", "cluster", "auth") if given[name]]
            if lone:
                raise click.UsageError("--from, --to, --match, --cluster and --prometheus-auth need --prometheus.")
            return command(*args, server=None, **options)
        return command(*args, server=MetricsServer(prometheus_url, **given), **options)

    return with_server
