"""Readings next to the limits of their detectors."""

import re
from pathlib import Path

import pytest

from detectors import DETECTORS
from detectors.settings.live import LiveSettings
from sinks.prometheus.catalogue import READINGS
from sinks.web.site.readings import COMPARED
from tests.unit.sinks.web.site.filled import NOW, FilledSite

PROJECT = Path(__file__).parents[5]
KINDS = {detector.kind: detector for detector in DETECTORS}


def of_detectors() -> dict[str, set[str]]:
    """The kinds that export each reading, as their modules show it."""
    found: dict[str, set[str]] = {}
    for path in (PROJECT / "detectors" / "kinds").rglob("*.py"):
        for name in re.findall(r'\.reading\(\s*"([a-z_]+)"', path.read_text(encoding="utf-8")):
            found.setdefault(name, set()).add(path.stem)
    return found


def test_every_reading_of_a_detector_is_listed_under_it() -> None:
    exported = of_detectors()
    assert exported.keys() == COMPARED.keys()
    assert [name for name, one in COMPARED.items() if one.kind not in exported[name]] == []
    assert COMPARED.keys() <= READINGS.keys()


@pytest.mark.parametrize("name", COMPARED)
def test_a_limit_is_a_setting_of_the_detector_or_another_of_its_readings(name: str) -> None:
    one = COMPARED[name]
    assert not one.setting or one.setting in KINDS[one.kind].Config.model_fields
    assert not one.reading or COMPARED[one.reading].kind == one.kind


def shown(filled: FilledSite, name: str) -> dict[str, object]:
    document = filled.json("/clusters/prod-eu")
    (found,) = [one for detector in document["detectors"] for one in detector["readings"] if one["name"] == name]
    return dict(found)


def test_a_share_is_compared_with_the_threshold_in_force(filled: FilledSite) -> None:
    filled.read("gc_time_ratio", 0.31, tm="tm-1")
    found = shown(filled, "gc_time_ratio")
    assert (found["now"], found["limit"], found["exceeded"]) == (0.31, 0.3, True)
    assert (found["limit_from"], found["labels"]) == ("heap_exhaustion.gc_share", {"tm": "tm-1"})


def test_a_time_is_compared_by_its_age_or_by_the_time_left(filled: FilledSite) -> None:
    filled.read("last_sample_timestamp_seconds", NOW / 1000 - 61, process="tm-1")
    filled.read("heap_full_timestamp_seconds", NOW / 1000 + 3600, tm="tm-1")
    age, left = shown(filled, "last_sample_timestamp_seconds"), shown(filled, "heap_full_timestamp_seconds")
    assert (age["measure"], age["now"], age["limit"], age["exceeded"]) == ("age", 61, 60, True)
    assert (left["measure"], left["now"], left["exceeded"]) == ("time_left", 3600, True)
    page = filled.html("/clusters/prod-eu")
    assert "61 s ago" in page
    assert "in 1 h" in page


def test_a_limit_that_is_a_reading_is_that_of_the_same_job(filled: FilledSite) -> None:
    filled.read("checkpoint_duration_last_seconds", 31, job="a")
    filled.read("checkpoint_overdue_limit_seconds", 30, job="a")
    filled.read("checkpoint_overdue_limit_seconds", 90, job="b")
    assert shown(filled, "checkpoint_duration_last_seconds")["limit"] == 30


def test_an_override_is_in_force_for_its_job_alone(tmp_path: Path) -> None:
    block = {"job": "loud", "detectors": {"checkpoint_failing": {"in_a_row": 9}}}
    site = FilledSite(tmp_path, LiveSettings.model_validate({"overrides": [block]}))
    site.read("checkpoint_consecutive_failures", 4, job="loud")
    site.read("checkpoint_consecutive_failures", 4, job="usual")
    document = site.json("/clusters/prod-eu")
    (detector,) = document["detectors"]
    found = {one["labels"]["job"]: (one["limit"], one["overridden"], one["exceeded"]) for one in detector["readings"]}
    assert found == {"loud": (9, True, False), "usual": (3, False, True)}
    site.store.close()


def test_a_reading_of_another_version_is_shown_without_a_limit(filled: FilledSite) -> None:
    filled.read("from_the_future", 5, job="a")
    document = filled.json("/clusters/prod-eu")
    assert [one["kind"] for one in document["detectors"]] == ["other"]
    assert "from_the_future" in filled.html("/clusters/prod-eu")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1e300, 1e18, 0.0])
@pytest.mark.parametrize("name", ["gc_time_ratio", "last_sample_timestamp_seconds", "heap_floor_bytes", "x_seconds"])
def test_any_value_can_be_shown(filled: FilledSite, name: str, value: float) -> None:
    filled.read(name, value)
    assert name in filled.html("/clusters/prod-eu")
    assert filled.get("/api/v1/clusters/prod-eu").status == 200


def test_words_have_units(filled: FilledSite) -> None:
    filled.read("heap_floor_bytes", 512 * 2**20, tm="t")
    filled.read("source_clock_ahead_seconds", 45, source="s")
    page = filled.html("/clusters/prod-eu")
    assert "512 MB" in page
    assert "45 s" in page
    assert "30 s" in page
