"""Many files as one stream: in order of time, whatever they hold, and only those open that are needed."""

import gzip
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.events.identity import Identity
from detectors.events.reader import Reader
from streaming.errors import RecordingError
from streaming.recordings import inputs as module
from streaming.recordings.inputs import InputFiles

READER = Reader(Identity(), frozenset({"metrics"}))
TOPICS = ("logs", "metrics")
PIECES = [
    b"2026-11-21 02:14:59,758 INFO  a.B [] - x\n",
    b"2026-11-21 05:00:00,000 INFO  a.B [] - later\n",
    b"2016-01-01 00:00:00,000 INFO  a.B [] - earlier\n",
    b"2026-11-21T02:14:59.758Z stdout P part\n",
    b"Container: container_1_0001_01_000001 on node_1\n",
    b"LogType:taskmanager.log\n",
    b"\tat a.B.c(B.java:1)\n",
    b'{"log":"x\\n","time":"2026-11-21T02:14:59Z"}\n',
]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=80)), max_size=12), min_size=1, max_size=4)
)
def test_every_file_is_read_in_order_of_time_and_none_raises(files: list[list[bytes]]) -> None:
    with TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{number}.log" for number in range(len(files))]
        for path, content in zip(paths, files, strict=True):
            path.write_bytes(b"".join(content))
        try:
            arrivals = list(InputFiles(paths, READER, TOPICS).arrivals())
        except RecordingError:
            # Bytes that begin as gzip or as a recording and are none.
            return
    clocks = [a.clock for a in arrivals]
    assert clocks == sorted(clocks)
    for number in range(len(paths)):
        lines = [a.record.offset for a in arrivals if a.file == number]
        assert len(lines) == len(set(lines)), "each line once"


def test_of_hundreds_of_logs_one_after_the_other_few_are_open_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_open = most = 0
    opened = module.opened

    class Counted:
        def __init__(self, path: Path) -> None:
            self._inner = opened(path)

        def __enter__(self) -> object:
            nonlocal is_open, most
            is_open += 1
            most = max(most, is_open)
            return self._inner.__enter__()

        def __exit__(self, *error: object) -> None:
            nonlocal is_open
            is_open -= 1
            self._inner.__exit__(*error)  # type: ignore[arg-type]

    for number in range(300):
        line = f"2026-11-21 {number // 60:02}:{number % 60:02}:0{{}},000 INFO  a.B [] - x\n"
        (tmp_path / f"taskmanager.log.{number}").write_text(line.format(1) + line.format(2))
    found = InputFiles([tmp_path], READER, TOPICS)
    monkeypatch.setattr(module, "opened", Counted)
    assert len(list(found.arrivals())) == 600
    assert (is_open, most) == (0, 1)


def test_a_packed_log_of_several_is_unpacked_once_and_its_copy_is_removed(tmp_path: Path) -> None:
    one = b"".join(PIECES[:2])
    (tmp_path / "all.log.gz").write_bytes(gzip.compress(one * 5))
    found = InputFiles([tmp_path / "all.log.gz"], READER, TOPICS)
    assert len(found.files[0].log.sections if found.files[0].log else []) == 5
    assert [a.record.offset for a in found.arrivals()] == [1, 3, 5, 7, 9, 2, 4, 6, 8, 10]


@pytest.mark.parametrize("name", ["input.jsonl", "input.jsonl.gz"])
def test_of_a_scenario_only_the_records_are_read(tmp_path: Path, name: str) -> None:
    record = b'{"topic": "logs", "partition": 0, "offset": 0, "timestamp": 1, "value": "x"}\n'
    (tmp_path / name).write_bytes(gzip.compress(record) if name.endswith("gz") else record)
    (tmp_path / "README.md").write_text("About it.\n")
    (tmp_path / "transitions.txt").write_text("2018-11-29 10:42:00.839 56aee5cc50ea #1 opened\n")
    assert [one.path.name for one in InputFiles([tmp_path], READER, TOPICS).files] == [name]
