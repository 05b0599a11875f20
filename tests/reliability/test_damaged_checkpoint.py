"""Every kind of file of a real checkpoint, emptied, cut in half, or with one bit flipped.

Promise: the query either does what it does with the whole checkpoint, or ends with one line that names the file and
what to do. It never goes on with less.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streaming.job.checkpoint.starts import Start, keep_limit, note_start
from streaming.job.checkpoint.topic_ids import keep_gaps, kept_gaps
from tests.e2e.harness import Installation
from tests.embedded.broker import Broker
from tests.reliability.damage import Damaged, empty, flipped, half, spark_session

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1_800)]

Damage = Callable[[bytes], bytes]
DAMAGES = [empty, half, flipped]

LOGS = ("offsets/1", "commits/1")
FATAL = ("metadata", "flinkwatch.json", "state/0/*/2_*.changelog", "state/0/_stateSchema/default/0_*")
NOT_NEEDED = ("state/0/*/*.zip", "state/0/*/SSTs/*.sst", "state/0/_metadata/v2/0", "sources/0/0")
"""Snapshots while there are changelogs, and what is read by tools alone or before the first batch."""


@pytest.fixture(scope="module")
def damaged(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    with spark_session() as spark:
        folder = tmp_path_factory.mktemp("damaged")
        yield Damaged(spark, Installation(broker.bootstrap, folder, "damaged", {}))


def test_what_can_break_first_ends_with_the_file_and_what_to_do(damaged: Damaged) -> None:
    """One of each: a log that is empty, one that is cut, a bit of the state, the state's folder."""
    for pattern, damage in (("offsets/1", half), ("commits/1", empty), ("metadata", flipped)):
        ends_with_the_file(damaged, pattern, damage)
    _, line = damaged.with_damage("state", None)
    assert isinstance(line, str)
    assert "has lost its folder `state`" in line
    assert "flinkwatch rebuild" in line


def test_a_torn_log_is_moved_away_as_the_line_says(damaged: Damaged) -> None:
    """The records of that batch are read again, and everything after it as ever."""
    ends_with_the_file(damaged, "offsets/1", half)
    for name in LOGS:
        (damaged.checkpoint / name).unlink()
    # Batch 1 is planned again, and takes everything that is there.
    said = damaged.outcome(last=1)
    assert isinstance(said, Counter)
    assert not damaged.expected - said


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("pattern", [*LOGS, *FATAL])
def test_a_damaged_file_that_is_needed_ends_the_job_with_its_name(
    damaged: Damaged, pattern: str, damage: Damage
) -> None:
    ends_with_the_file(damaged, pattern, damage)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("pattern", NOT_NEEDED)
def test_a_damaged_file_that_is_not_needed_changes_nothing(damaged: Damaged, pattern: str, damage: Damage) -> None:
    _, outcome = damaged.with_damage(pattern, damage)
    assert outcome == damaged.expected


def test_damaged_notes_of_earlier_starts_count_as_none(tmp_path: Path) -> None:
    """They only make the next start better; without them the job does what a first start does."""
    place, gaps = str(tmp_path), [("in.logs", "0")]
    with spark_session() as spark:
        for damage in DAMAGES:
            keep_gaps(spark, place, gaps)
            start = keep_limit(spark, place, note_start(spark, place), 7)
            assert (kept_gaps(spark, place), note_start(spark, place)) == (gaps, start)
            for file in tmp_path.glob("flinkwatch-*.json"):
                file.write_bytes(damage(file.read_bytes()))
            assert (kept_gaps(spark, place), note_start(spark, place)) == ([], Start())


def ends_with_the_file(damaged: Damaged, pattern: str, damage: Damage) -> None:
    file, line = damaged.with_damage(pattern, damage)
    assert isinstance(line, str), f"{pattern} {damage.__name__}: the query went on"
    assert "\n" not in line
    kind = Path(str(file).removeprefix(str(damaged.checkpoint) + "/")).parts[0]
    assert f"{damaged.checkpoint}/{kind}" in line
    assert "flinkwatch rebuild" in line
    assert "Exception" not in line
