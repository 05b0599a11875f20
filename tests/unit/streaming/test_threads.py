"""The end by signals, in a process of its own."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = """
import time
from streaming.threads import Stop
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


def test_ctrl_c_in_the_first_moments_is_no_error(tmp_path: Path) -> None:
    """While modules are imported, when a command begins, and while it works: not a word, and a shell's exit status."""
    statuses = set()
    for delay in (0, 0.1, 0.2, 0.4, 0.8):
        command = [sys.executable, "-m", "streaming", "config", "show", "--config", str(tmp_path / "flinkwatch.yaml")]
        (tmp_path / "flinkwatch.yaml").write_text("kafka: {access: {bootstrap_servers: '127.0.0.1:9'}}")
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            # The interpreter itself heeds SIGINT at its beginning; from the first library on it is the program's.
            while "site-packages" not in Path(f"/proc/{process.pid}/maps").read_text():
                assert process.poll() is None
            time.sleep(delay)
            process.send_signal(signal.SIGINT)
            out, error = process.communicate(timeout=60)
        assert "Aborted" not in out + error
        assert "Traceback" not in out + error
        statuses.add(process.returncode)
    assert statuses <= {-signal.SIGINT, 130}
