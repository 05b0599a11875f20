"""What the notification log knows of one incident."""

import msgspec

from sinks.delivery.notification_log import Entry
from streaming.stored_notifications import of_incident


def record(receiver: str, incident: str, **fields: object) -> tuple[bytes, bytes]:
    entry = Entry(incident=incident, **({"seq": 1, "state": "sent", "at": 5} | fields))  # type: ignore[arg-type]
    return f"{receiver}/{incident}".encode(), msgspec.json.encode(entry)


def test_each_receiver_has_what_it_got_in_order_of_time() -> None:
    records = [
        record("slack:#ops", "a", at=9, seq=2),
        record("webhook", "a", at=7, state="undelivered", reason="500"),
        record("webhook", "b", at=1),
    ]
    found = [(one.receiver, one.seq, one.state, one.reason) for one in of_incident(records, "a")]
    assert found == [("webhook", 1, "undelivered", "500"), ("slack:#ops", 2, "sent", "")]


def test_an_intent_is_no_notification_and_what_cannot_be_read_hides_nothing() -> None:
    records = [record("slack", "a", state="intent"), (b"slack/a", b"{"), (b"slack/a", None), record("slack", "a")]
    assert [one.state for one in of_incident(records, "a")] == ["sent"]


def test_the_first_time_at_which_a_change_was_sent_counts() -> None:
    assert [one.at for one in of_incident([record("slack", "a", at=3), record("slack", "a", at=8)], "a")] == [3]
