"""`flinkwatch sinks test`: prints the result of each check."""

from sinks.receivers import make_receivers
from sinks.self_test import try_receivers
from streaming.configuration.settings import Settings
from streaming.errors import ConfigError
from streaming.terminal import echo

_MARKS = {True: "ok     ", None: "missing", False: "FAILED "}


def run_sinks_test(settings: Settings, only: str = "") -> int:
    """The exit status: 0 when everything needed works. Raises ConfigError when there is nothing to test."""
    receivers = make_receivers(settings.sinks)
    chosen = tuple(receiver for receiver in receivers if only in ("", receiver.name))
    if not receivers:
        raise ConfigError("sinks: none is enabled; set for instance sinks.slack.enabled: true")
    if not chosen:
        raise ConfigError(f"sinks: no receiver {only!r}; there are: {', '.join(one.name for one in receivers)}")
    failed = False
    for result in try_receivers(chosen):
        echo(f"{_MARKS[result.ok]}  {result.receiver}: {result.text}")
        failed = failed or result.ok is False
    return 1 if failed else 0
