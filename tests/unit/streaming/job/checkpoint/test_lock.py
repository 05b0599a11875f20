"""One job at a time on a checkpoint of this host."""

import os
from pathlib import Path

import pytest

from streaming.errors import PreflightError
from streaming.job.checkpoint.lock import CheckpointLock
from streaming.threads import Stop, Stopped


def test_a_second_job_is_refused_with_the_process_that_has_it(tmp_path: Path) -> None:
    refused = pytest.raises(PreflightError, match=rf"{tmp_path}/new is in use .*process {os.getpid()}")
    with CheckpointLock(tmp_path / "new").held(0), refused, CheckpointLock(tmp_path / "new").held(0.3):
        pass
    with CheckpointLock(tmp_path / "new").held(0) as lock:
        assert lock.descriptor is not None


def test_waiting_for_it_ends_with_the_process(tmp_path: Path) -> None:
    stop = Stop()
    stop.set()
    with CheckpointLock(tmp_path).held(0), pytest.raises(Stopped), CheckpointLock(tmp_path).held(60, stop):
        pass


def test_a_folder_that_cannot_be_written_is_left_to_the_check_of_the_checkpoint(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with CheckpointLock(file / "below").held(0) as lock:
        assert lock.descriptor is None
