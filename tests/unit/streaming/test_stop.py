"""The end by signals, in a process of its own."""

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import time
from streaming.stop import Stop
stop = Stop()
stop.install()
print("ready", flush=True)
stop.wait(60)
print("ending", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_asks_and_the_second_ends_at_once(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for said in ("ready", "ending"):
            assert process.stdout.readline().strip() == said
            process.send_signal(number)
        assert process.wait(30) == 128 + number
