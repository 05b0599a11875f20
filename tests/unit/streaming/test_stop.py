"""The end by signals, in a process of its own."""

import signal
import subprocess
import sys
import time

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
def test_the_first_signal_asks_and_a_later_one_ends_at_once(number: signal.Signals) -> None:
    """Two at a time are one: `timeout` sends its signal to the process and to the group."""
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        began = time.monotonic()
        process.send_signal(number)
        assert process.stdout.readline() == "ending\n"
        while process.poll() is None:
            process.send_signal(number)
            time.sleep(0.05)
        assert process.returncode == 128 + number
        assert time.monotonic() - began >= 1
