"""What the driver writes into the stream about incidents of several clusters, also after a restart."""

from typing import Any

import msgspec

from detectors.incident import Transition
from sinks.kafka.access import KafkaAccess
from streaming.job.followers.shared_resources import SharedResources
from tests.unit.detectors.incidents.test_shared_resources import about

NOW_S = 1_772_380_000.0
DAY_MS = 86_400_000
AT = int(NOW_S * 1000)


class Driver:
    """The thread's work without a thread."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.now = NOW_S
        access = KafkaAccess(bootstrap_servers="a:9092")
        self.shared = SharedResources(access, "flinkwatch.incidents", self.lines.append, lambda: self.now)

    def written(self) -> list[str]:
        """The incidents of the lines since the last call, with + for those that are open."""
        words = [line.partition("incident=")[2].split(" ")[0] + "+" * ("fails" in line) for line in self.lines]
        self.lines.clear()
        return words


def record(name: str, **changes: Any) -> tuple[bytes, bytes]:
    transition: Transition = about(**{"incident": name, "at": AT} | changes)
    return name.encode(), msgspec.json.encode(transition)


def test_each_change_is_written_once() -> None:
    driver = Driver()
    driver.shared.take(*record("a"))
    driver.shared.take(*record("a", seq=2, transition="updated"))
    driver.shared.take(*record("a", seq=3, transition="resolved"))
    assert driver.written() == ["a+", "a"]


def test_what_is_open_is_repeated_once_a_minute() -> None:
    driver = Driver()
    driver.shared.take(*record("a"))
    driver.shared.repeat()
    driver.shared.repeat()
    assert driver.written() == ["a+", "a+"]
    driver.now += 60
    driver.shared.repeat()
    assert driver.written() == ["a+"]


def test_after_a_start_all_that_is_open_and_what_ended_lately_is_written_once() -> None:
    driver = Driver()
    driver.shared.begin(
        [
            record("open"),
            record("open", seq=2, transition="updated"),
            record("ended"),
            record("ended", seq=2, transition="resolved"),
            record("long-ago", at=AT - DAY_MS - 1),
            record("long-ago", seq=2, transition="resolved", at=AT - DAY_MS - 1),
            record("again"),
            record("again", seq=2, transition="resolved"),
            record("again", seq=3, transition="updated"),
            record("other", kind="job_failed", entity={}),
        ]
    )
    assert sorted(driver.written()) == ["again+", "ended", "open+"]


def test_what_a_start_writes_is_what_was_written_before_it() -> None:
    """A restart in the middle: the lines are the same, so the stream sees repetitions."""
    before, after = Driver(), Driver()
    before.shared.take(*record("a"))
    before.shared.take(*record("b"))
    after.shared.begin([record("a"), record("b")])
    assert sorted(before.lines) == sorted(after.lines)


def test_records_that_cannot_be_read_are_skipped_and_a_deleted_one_has_ended() -> None:
    driver = Driver()
    driver.shared.take(b"x", b"{")
    driver.shared.take(None, None)
    driver.shared.take(*record("a"))
    driver.shared.take(b"a", None)
    assert driver.written() == ["a+", "a"]
