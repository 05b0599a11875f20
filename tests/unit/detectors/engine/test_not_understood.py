"""When a source counts as not understood, for how long it is shown, and what bounds it."""

import pytest

from detectors.engine.not_understood import READING, Recognition, SourceSample

MINUTE = 60_000
LASTING, FORGOTTEN = 2 * MINUTE, 60 * MINUTE


def seen(count: int, missed: int, flink: int = 1, host: str = "tm-1", topic: str = "flink.logs") -> SourceSample:
    return SourceSample(topic, "orders", host, count, missed, flink)


def shown(known: Recognition, at: int = 0) -> list[float]:
    """The shares that are not understood, of the sources that matter."""
    return [r.value for r in known.readings({}, at) if r.name == READING]


def lasting(*samples: SourceSample, over: int = LASTING) -> Recognition:
    """The samples, and an empty one at the end of that time."""
    known = Recognition()
    known.fold(samples, 0)
    known.fold([seen(0, 0, 0)], over)
    return known


@pytest.mark.parametrize(
    ("sample", "over", "matters"),
    [
        (seen(100, 95), LASTING, True),
        (seen(100, 94), LASTING, False),
        (seen(50, 50), LASTING, True),
        (seen(49, 49), LASTING, False),
        (seen(100, 100), LASTING - 1, False),
        (seen(100, 100, flink=0), LASTING, False),
    ],
)
def test_a_source_matters_if_nearly_all_of_enough_records_are_not_understood_for_long_enough(
    sample: SourceSample, over: int, matters: bool
) -> None:
    assert shown(lasting(sample, over=over)) == ([sample.missed / sample.seen] if matters else [])


def test_the_reading_names_the_source_and_ends_with_it() -> None:
    known = lasting(seen(100, 100))
    (reading,) = [r for r in known.readings({}, 5) if r.name == READING]
    assert (reading.labels, reading.value, reading.at) == (
        {"topic": "flink.logs", "cluster": "orders", "source": "tm-1"},
        1.0,
        5,
    )
    assert known.fold([seen(900, 0)], LASTING + 1) == [reading.key()]
    assert shown(known) == []


def test_a_source_without_records_is_forgotten_after_an_hour() -> None:
    known = lasting(seen(100, 100))
    (reading,) = [r for r in known.readings({}, 0) if r.name == READING]
    assert known.fold([], LASTING + FORGOTTEN) == []
    assert known.fold([], LASTING + FORGOTTEN + 1) == [reading.key()]


def test_a_source_that_was_never_shown_ends_without_a_word() -> None:
    known = Recognition()
    known.fold([seen(100, 100)], 0)
    assert known.fold([seen(900, 0)], 1) == []
    assert known.sources == {}


def test_what_is_understood_now_counts_more_than_what_was_not_long_ago() -> None:
    known = lasting(seen(1_900, 1_900))
    known.fold([seen(200, 0)], LASTING + 1)
    known.fold([seen(1_100, 0)], LASTING + 2)
    assert known.sources == {}


def test_records_are_counted_by_topic() -> None:
    known = Recognition()
    known.fold([seen(10, 4), seen(5, 5, host="tm-2"), seen(3, 0, topic="flink.metrics")], 0)
    counts = {(r.name, r.labels["topic"]): r.value for r in known.readings({"bucket": "7"}, 0)}
    assert counts == {
        ("records_understood_total", "flink.logs"): 6.0,
        ("records_not_understood_total", "flink.logs"): 9.0,
        ("records_understood_total", "flink.metrics"): 3.0,
        ("records_not_understood_total", "flink.metrics"): 0.0,
    }


def test_sources_and_topics_are_bounded() -> None:
    known = Recognition()
    known.fold([seen(10, 10, host=f"tm-{n}", topic=f"t-{n}") for n in range(500)], 0)
    assert (len(known.sources), len(known.topics)) == (100, 100)


@pytest.mark.parametrize("flink", [(1, 0), (0, 1)])
def test_what_is_seen_of_a_source_adds_up(flink: tuple[int, int]) -> None:
    known = lasting(seen(60, 60, flink[0]), seen(60, 59, flink[1]))
    assert shown(known) == [119 / 120]


def test_the_older_half_counts_half_and_a_single_line_of_flink_stays_one() -> None:
    known = lasting(seen(1_900, 1_900), seen(200, 190, flink=0))
    (source,) = known.sources.values()
    assert (source.looked.seen, source.looked.missed, source.looked.flink) == (1_050, 1_045, 1)


def test_a_few_records_do_not_show_that_a_source_is_understood() -> None:
    few, enough = Recognition(), Recognition()
    few.fold([seen(49, 1)], 0)
    enough.fold([seen(50, 1)], 0)
    assert (len(few.sources), len(enough.sources)) == (1, 0)


def test_the_time_counts_from_the_first_record_that_was_not_understood() -> None:
    begun = 10 * MINUTE
    known = Recognition()
    known.fold([seen(10, 0)], 0)
    known.fold([seen(1_000, 1_000)], begun)
    known.fold([seen(1, 1)], begun + LASTING - 1)
    assert shown(known) == []
    known.fold([seen(1, 1)], begun + LASTING)
    assert shown(known) == [1.0]
