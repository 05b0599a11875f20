"""Long paths in texts of causes: the error that follows them stays readable."""

import pytest

from detectors.values.texts import cut, shorten_paths

ROCKSDB = (
    "/tmp/tm_localhost:41757-f47192/tmp/job_18daff74196ef4ece97d401df0448275_op_KeyedProcessOperator_"
    "90bea66de1c231edf33913ecd54406c1__2_2__uuid_0d5a63fa-64a4-4a30-ae37-9c8d3b1b8ae2/db/000012.sst"
)
SHORT = "/tmp/tm_localhost:41757-f47192/…/000012.sst"
FULL = "No space left on device"


@pytest.mark.parametrize("text", ["", FULL, "/data: full", "/opt/flink/lib/a.jar is missing", "1/2/3", "a / b / c"])
def test_texts_without_a_long_path_stay_as_they_are(text: str) -> None:
    assert shorten_paths(text) == text
    assert cut(text, 200) == text


def test_the_beginning_of_a_path_its_file_and_all_that_follows_stay() -> None:
    text = f"IO error: {FULL}While appending to file: {ROCKSDB}: {FULL}"
    assert cut(text, 200) == f"IO error: {FULL}While appending to file: {SHORT}: {FULL}"
    assert len(text) > 200


def test_a_text_that_is_short_enough_keeps_its_paths() -> None:
    assert cut(f"{ROCKSDB}: x", 400) == f"{ROCKSDB}: x"


def test_every_long_path_is_shortened_and_a_scheme_stays() -> None:
    text = f"file:{ROCKSDB} (copied from s3://{ROCKSDB.lstrip('/')})"
    assert shorten_paths(text) == f"file:{SHORT} (copied from s3://tmp/tm_localhost:41757-f47192/…/000012.sst)"


def test_a_long_file_name_keeps_its_end_and_a_long_folder_its_beginning() -> None:
    path = f"/{'d' * 60}/{'e' * 60}/{'f' * 60}.sst"
    assert shorten_paths(path) == f"/{'d' * 31}…/{'f' * 36}.sst"


def test_windows_has_other_separators() -> None:
    path = "C:\\" + "\\".join(["flink-state"] * 9) + "\\000012.sst"
    assert shorten_paths(f"{path}: full") == "C:\\flink-state\\flink-state\\…\\000012.sst: full"


def test_what_is_too_long_all_the_same_is_cut() -> None:
    assert cut("x " * 200, 10) == "x x x x x…"
    assert len(cut("/a" * 5_000 + " y" * 5_000, 100)) <= 101
