"""Pictures of Slack's channel: what the Slack sink sends for a scenario, as the fake Slack shows it, by Chromium."""

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import numpy as np
from PIL import Image

from detectors.incident import Transition
from sinks.contract.notified import NotifiedState
from sinks.contract.outcome import Delivered
from sinks.contract.sink import EditingSink, MessageRef, Notification
from sinks.integrations.slack.settings import SlackConfig
from sinks.receivers import make_receivers
from sinks.settings import Sinks
from streaming.recordings.redate import redated
from tests import recorded
from tests.fake_slack.server import TOKEN, SlackServer

_WIDTH, _HIGHEST = 900, 4_000
_CHARTS_WITHIN_S = 120.0


def draw_message(scenario: str, changes: int, file: Path, *, charts: bool) -> None:
    """Write the message of a scenario's first incident, after so many changes, to a PNG."""
    transitions = recent(scenario)
    first = transitions[0].incident
    with SlackServer() as server, mock.patch.dict(os.environ, {"SLACK_BOT_TOKEN": TOKEN}):
        deliver(server, [t for t in transitions if t.incident == first][:changes], charts=charts)
        photograph(server.url, file)


def recent(scenario: str) -> list[Transition]:
    """The transitions of a scenario that ends now."""
    records = recorded.records(scenario)
    length = records[-1].timestamp - records[0].timestamp
    return recorded.said(list(redated(records, int(time.time() * 1000) - length)))


def deliver(server: SlackServer, transitions: Sequence[Transition], *, charts: bool) -> None:
    """Post the first transition, edit the message for the others, and wait for charts."""
    config = SlackConfig(
        enabled=True,
        channel="flink-alerts",
        base_url=server.base_url,
        charts=charts,
        runbook_base_url="https://flinkwatch.example.org/runbooks/",
        dashboard_url="https://grafana.example.org/d/flink?var-job={job}&from={from}&to={to}",
    )
    sink = make_receivers(Sinks(slack=config))[0].sink
    assert isinstance(sink, EditingSink)
    message: MessageRef | None = None
    before: NotifiedState | None = None
    for transition in transitions:
        notification = Notification(transition=transition, at=transition.at, before=before)
        outcome = sink.send(notification) if message is None else sink.edit(notification, message)
        assert isinstance(outcome, Delivered), outcome
        message, before = MessageRef(outcome.channel, outcome.ts), outcome.notified
        for attachment in outcome.attachments:
            attachment.call()
    sink.close(_CHARTS_WITHIN_S)


def photograph(url: str, file: Path) -> None:
    """Write the page to a PNG with the colours that it needs, cut below its last line."""
    command = ["chromium", "--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={_WIDTH},{_HIGHEST}"]
    subprocess.run([*command, f"--screenshot={file}", url], check=True, timeout=300, capture_output=True)
    picture = Image.open(file).convert("RGB")
    lines = np.flatnonzero((np.asarray(picture) != 255).any(axis=(1, 2)))
    cut = picture.crop((0, 0, _WIDTH, min(int(lines[-1]) + 20, _HIGHEST)))
    cut.convert("P", palette=Image.Palette.ADAPTIVE, colors=128).save(file, optimize=True)
