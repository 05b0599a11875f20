"""Maintenance windows: the same as silences, every week."""

from datetime import UTC, datetime

from detectors.incidents.maintenance import MaintenanceWindow
from detectors.incidents.silences import epoch_ms, in_force, next_edge
from detectors.settings.live import LiveSettings, encode_published, publish, read_published
from tests.unit.detectors.changes import play
from tests.unit.detectors.incidents.test_silences import MINUTE, OVER, expired, has_data, named
from tests.unit.detectors.streams import START

HOUR = 60 * MINUTE
ABOUT = ("prod-eu", "orders", "restart_loop")


def window(**fields: object) -> MaintenanceWindow:
    written = {"cluster": "prod-*", "begin": "02:00", "end": "04:00", "comment": "patching"}
    return MaintenanceWindow.model_validate(written | fields)


def clock(day: int, hour: int) -> int:
    return epoch_ms(datetime(2026, 11, day, hour, tzinfo=UTC))


def test_a_window_silences_what_matches_while_it_is_open() -> None:
    found = in_force([window()], *ABOUT, clock(21, 3))
    assert found is not None
    assert (found.until, found.author, found.comment) == (clock(21, 4), "maintenance", "patching")
    assert in_force([window()], *ABOUT, clock(21, 4)) is None
    assert in_force([window()], "test", "orders", "restart_loop", clock(21, 3)) is None
    assert in_force([window(kinds=["backpressure"])], *ABOUT, clock(21, 3)) is None


def test_the_next_change_is_its_end_and_then_its_next_begin() -> None:
    weekly = window(days=["sat"])
    assert next_edge([weekly], *ABOUT, clock(21, 3)) == clock(21, 4)
    assert next_edge([weekly], *ABOUT, clock(21, 4)) == clock(28, 2)


def test_a_window_travels_with_the_configuration() -> None:
    live = LiveSettings(maintenance=(window(),))
    assert read_published(encode_published(publish(live, 0, "ann"))).live() == live


def test_an_incident_that_is_open_at_the_end_of_the_window_is_notified_then() -> None:
    begin = datetime.fromtimestamp(START / 1000, UTC)
    now = window(cluster="*", begin=f"{begin:%H:%M}", end=f"{(begin.hour + 1) % 24:02}:{begin:%M}")
    made = publish(LiveSettings(maintenance=(now,)), START, "ann")
    found = play([made, named(0), expired(1_000), *has_data(90 * MINUTE)], until=90 * MINUTE)
    changes = [(t.transition, t.silence is not None, t.reason) for t in found]
    assert changes[0] == ("opened", True, "")
    assert ("updated", False, OVER) in changes
