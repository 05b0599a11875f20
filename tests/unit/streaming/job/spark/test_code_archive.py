"""The program as one file: an interpreter that has the dependencies alone runs it."""

import subprocess
import sys
import sysconfig
from pathlib import Path

from streaming.configuration.known_issues import shipped
from streaming.job.spark.code_archive import program

CODE = """
import sys
from streaming.job import read, watch
from streaming.configuration.known_issues import shipped
print(watch.__file__, len(shipped().entries), shipped().hash)
"""


def test_the_read_and_the_state_stage_and_the_known_issues_are_in_it(tmp_path: Path) -> None:
    archive = program()
    path = f"{archive}:{sysconfig.get_path('purelib')}"
    command = [sys.executable, "-S", "-c", CODE]
    done = subprocess.run(
        command, env={"PYTHONPATH": path}, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    file, count, version = done.stdout.split()
    assert file.startswith(str(archive))
    assert (int(count), version) == (len(shipped().entries), shipped().hash)


def test_nothing_of_it_is_left_when_the_process_has_ended() -> None:
    code = "from streaming.job.spark.code_archive import program; print(program())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    assert not Path(done.stdout.strip()).parent.exists()
