"""The configuration in force, when its topic has lost it."""

import pytest

from detectors.settings.live import LiveSettings, publish
from streaming.configuration.follower import ConfigFollower
from streaming.errors import PublishedError
from tests.unit.streaming.configuration.memory_topic import MemoryTopic

PUBLISHED = publish(LiveSettings(), 17, "ann")


def in_force(topic: MemoryTopic) -> ConfigFollower:
    return ConfigFollower(topic, PUBLISHED, lambda _: None)  # type: ignore[arg-type]


def test_what_an_empty_topic_has_lost_is_published_again_as_it_was() -> None:
    topic = MemoryTopic()
    one = in_force(topic)
    one.publish_lost()
    assert topic.history().in_force == PUBLISHED
    one.publish_lost()
    assert len(topic.records) == 1


def test_a_topic_that_has_a_configuration_is_left_alone() -> None:
    newer = publish(LiveSettings.model_validate({"detectors": {"backpressure": {"enabled": False}}}), 18, "bob")
    topic = MemoryTopic(newer)
    in_force(topic).publish_lost()
    assert topic.hashes() == [newer.hash]


def test_without_brokers_it_says_so() -> None:
    topic = MemoryTopic()
    topic.down = True
    with pytest.raises(PublishedError):
        in_force(topic).publish_lost()
