"""A Python worker connects to Spark before it imports anything."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import streaming

FOLDER = Path(streaming.__file__).parent / "job" / "spark" / "worker_start"
WORKER = """
import socket, sys
sys.stdin.readline()  # as slow as imports on a busy host
s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
s.settimeout(15)
s.connect(PATH)
s.sendall(b"pid")
assert s.recv(2) == b"ok"
"""


def test_the_connection_exists_before_the_worker_asks_for_it(tmp_path: Path) -> None:
    path = str(tmp_path / "sock")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(5)
        server.settimeout(60)
        environment = {**os.environ, "PYTHONPATH": str(FOLDER), "PYTHON_WORKER_FACTORY_SOCK_PATH": path}
        program = WORKER.replace("PATH", repr(path))
        with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, env=environment) as worker:
            connection, _ = server.accept()
            assert worker.stdin is not None
            worker.stdin.write(b"\n")
            worker.stdin.flush()
            assert connection.recv(3) == b"pid"
            connection.sendall(b"ok")
            assert worker.wait(60) == 0
        server.settimeout(0.2)
        try:
            server.accept()
        except TimeoutError:
            return
        raise AssertionError("the worker connected twice")


def test_a_sitecustomize_of_the_host_still_takes_effect(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.mark = 'seen'")
    environment = {**os.environ, "PYTHONPATH": f"{FOLDER}{os.pathsep}{tmp_path}"}
    result = subprocess.run(
        [sys.executable, "-c", "print(mark)"], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert result.stdout == "seen\n"
