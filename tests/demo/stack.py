"""Starts and stops the processes of the demo: a broker, a fake Slack, and `flinkwatch run` as a user starts it."""

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.embedded.broker import Broker
from tests.embedded.job_process import JobProcess, free_port
from tests.fake_slack.server import APP_TOKEN, TOKEN, Call, SlackServer

CHANNEL = "flink-alerts"
TOKENS = {"SLACK_BOT_TOKEN": TOKEN, "SLACK_APP_TOKEN": APP_TOKEN}


class Stack:
    """The demo's processes; leaving the `with` block stops all of them.

    On entry, `slack` and `broker` are started; `job` is created but not started.
    """

    def __init__(self, on_slack_call: Callable[[Call], None]) -> None:
        self._on_slack_call = on_slack_call
        self._exits = ExitStack()

    def __enter__(self) -> Self:
        try:
            folder = Path(
                self._exits.enter_context(
                    tempfile.TemporaryDirectory(prefix="flinkwatch-demo-", ignore_cleanup_errors=True)
                )
            )
            self.slack = self._exits.enter_context(SlackServer(channels=(CHANNEL,), on_call=self._on_slack_call))
            self.broker = self._exits.enter_context(Broker())
            port = free_port()
            configuration = self._configuration(folder, f"http://127.0.0.1:{port}")
            self.job = JobProcess(folder, configuration, environment=TOKENS, page_port=port)
            self._exits.callback(self.job.terminate)
        except BaseException:
            self._exits.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exits.close()

    def _configuration(self, folder: Path, site: str) -> dict[str, Any]:
        actions = {"enabled": True, "allowed": ["*"]}
        return {
            "kafka": {"access": {"bootstrap_servers": self.broker.bootstrap}},
            # The player sends the heartbeat, with the recording's time.
            "streaming": {"checkpoint": str(folder / "checkpoint"), "starting_offsets": "earliest", "heartbeat": False},
            "sinks": {
                "slack": {"enabled": True, "channel": CHANNEL, "base_url": self.slack.base_url, "actions": actions},
                "web": {"external_url": site},
            },
        }
