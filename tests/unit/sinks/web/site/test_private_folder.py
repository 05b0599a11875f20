"""The folder of the store: no one else's, and nothing stays of a process that was killed."""

import stat
from pathlib import Path

from sinks.web.site.private_folder import PREFIX, private_folder


def test_only_the_user_can_read_it_and_it_ends_with_its_block(tmp_path: Path) -> None:
    with private_folder(tmp_path) as folder:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not folder.exists()


def test_what_a_killed_process_left_is_removed_and_a_running_one_keeps_its_own(tmp_path: Path) -> None:
    left = tmp_path / f"{PREFIX}left"
    left.mkdir()
    (left / "lock").touch()
    (left / "incidents.sqlite").touch()
    foreign = tmp_path / f"{PREFIX}without-a-lock"
    foreign.mkdir()
    with private_folder(tmp_path) as first, private_folder(tmp_path) as second:
        assert (first.exists(), second.exists(), left.exists(), foreign.exists()) == (True, True, False, True)
