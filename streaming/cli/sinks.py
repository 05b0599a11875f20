"""`flinkwatch sinks test` sends a test incident to each receiver and prints the results."""

from sinks.receivers import make_lanes
from sinks.self_test import try_lanes
from streaming.configuration.settings import Settings
from streaming.errors import ConfigError
from streaming.terminal import echo

_MARKS = {True: "ok     ", None: "missing", False: "FAILED "}


def run_sinks_test(settings: Settings, only: str = "") -> int:
    """Return the exit status, 0 if every receiver works. Raises ConfigError if there is nothing to test."""
    lanes = make_lanes(settings.sinks)
    chosen = tuple(lane for lane in lanes if only in ("", lane.name))
    if not lanes:
        raise ConfigError("sinks: no receiver is enabled. Set for example sinks.slack.enabled: true")
    if not chosen:
        raise ConfigError(f"sinks: no receiver {only!r}. Enabled receivers: {', '.join(lane.name for lane in lanes)}")
    failed = False
    for finding in try_lanes(chosen):
        echo(f"{_MARKS[finding.ok]}  {finding.lane}: {finding.text}")
        failed = failed or finding.ok is False
    return 1 if failed else 0
