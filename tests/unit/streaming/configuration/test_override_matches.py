"""Overrides that match nothing are told in the log: once of each configuration."""

from structlog.testing import capture_logs

from detectors.settings.live import LiveSettings, PublishedConfiguration, publish
from streaming.configuration.override_matches import Unmatched
from streaming.errors import PublishedError

LIVE = LiveSettings.model_validate(
    {
        "overrides": [
            {"cluster": "prod-*", "detectors": {"restart_loop": {"count": 9}}},
            {"cluster": "pord-*", "job": "orders", "detectors": {"restart_loop": {"count": 8}}},
        ]
    }
)
PUBLISHED = publish(LIVE, at=1, by="test")


def test_overrides_that_match_nothing_are_logged_once_for_each_configuration() -> None:
    now = 0.0
    answers: list[list[int | None] | Exception] = [PublishedError("no broker"), [None, None], [3, 0], [3, 1]]

    def count(published: PublishedConfiguration) -> list[int | None]:
        assert published is PUBLISHED
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    unmatched = Unmatched(count, clock=lambda: now)
    unmatched.expect(PUBLISHED)
    with capture_logs() as logged:
        unmatched.look()
        assert len(answers) == 4, "clusters have had no time to be heard of"
        for _ in range(5):
            now += 120.0
            unmatched.look()
        warnings = [line for line in logged if line["log_level"] == "warning"]
        assert [line["overrides"] for line in warnings] == [["1 (cluster=pord-*, job=orders)"]]
        unmatched.expect(PUBLISHED)
        now += 120.0
        unmatched.look()
    assert answers == []
    assert len([line for line in logged if line["log_level"] == "warning"]) == 1
