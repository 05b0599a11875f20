"""The search over raw bytes; that it loses nothing which reading finds is in test_read.py."""

import pyarrow as pa
import pytest

from streaming.job.prefilter import LOG_SHAPE, log_shaped, matches


@pytest.mark.parametrize(
    "value",
    [
        b'{"message":"x"',
        b' {"message":"x"}',
        b'{"message":"x"}\n',
        b'{"message" : "x"}',
        b'{"message":1}',
        b'{"log":"x"}',
        b'["message":"x"]',
        b'{"other":"\\"message\\":\\"x"}',
        b"a raw line",
        b"",
        None,
    ],
)
def test_the_quick_look_at_a_shape_says_what_the_whole_pattern_says(value: bytes | None) -> None:
    values = pa.array([value, b'{"message":"beside it"}'], pa.binary())
    assert log_shaped(values).to_pylist() == matches(values, LOG_SHAPE).to_pylist()
