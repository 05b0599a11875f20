"""The schema of the configuration file: current, and of one mind with the models."""

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from detectors import DETECTORS
from streaming.configuration.settings import Settings, load
from streaming.errors import ConfigError
from streaming.reference.configuration_file import configuration_file
from streaming.reference.json_schema import configuration_schema

CONF = Path(__file__).parents[4] / "conf"
SCHEMA = json.loads(configuration_schema())
VALIDATORS = [jsonschema.Draft7Validator(SCHEMA), jsonschema.Draft202012Validator(SCHEMA)]
SILENCE = "{until: 2026-12-01T06:00:00Z, author: ann, comment: why}"


class _Loader(yaml.SafeLoader):
    """As an editor reads YAML: a time is text."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def editor_says(text: str) -> list[str]:
    """The errors an editor would show; all drafts agree on them."""
    document = yaml.load(text, _Loader)
    first, second = (sorted(error.message for error in one.iter_errors(document)) for one in VALIDATORS)
    assert bool(first) == bool(second)
    return first


def flinkwatch_says(text: str, path: Path) -> str:
    """The error of `config check`; empty when there is none."""
    path.write_text(text)
    try:
        load(path, {})
    except ConfigError as error:
        return str(error)
    return ""


def test_the_schema_is_current_and_a_schema() -> None:
    """Write it again with `flinkwatch config schema > conf/flinkwatch.schema.json`."""
    assert (CONF / "flinkwatch.schema.json").read_text() == configuration_schema()
    jsonschema.Draft7Validator.check_schema(SCHEMA)


def test_the_shipped_file_names_its_schema_and_keeps_it() -> None:
    text = (CONF / "flinkwatch.yaml").read_text()
    assert text.splitlines()[0] == "# yaml-language-server: $schema=flinkwatch.schema.json"
    assert editor_says(text) == editor_says(configuration_file()) == []


GOOD = [
    "{}",
    "detectors: {restart_loop: {count: 5, window: 1.5m}}",
    "detectors: {incidents: {resolve_after: 500ms}}",
    "kafka: {access: {bootstrap_servers: a:9092, security_protocol: SSL}, logs: [a, b]}",
    "streaming: {spark: {spark.executor.cores: '4'}, starting_offsets: earliest}",
    "overrides: [{cluster: prod-*, detectors: {taskmanager_lost: {enabled: false}}}]",
    "overrides: [{job: '*', detectors: {taskmanager_lost: {enabled: false}}}]",
    "overrides: [{job: '~a|b', namespace: x, detectors: {restart_loop: {count: 5}}}]",
    f"silences: [{SILENCE}]",
    "silences: [{begins: 2026-11-30T20:00:00+01:00, until: 2026-12-01 06:00:00+01:00, author: a, comment: b}]",
    "silences: [{kinds: ['checkpoint_*', backpressure], until: 2026-12-01T06:00:00Z, author: a, comment: b}]",
    "sinks: {slack: {enabled: true, channel: C1}, routing: {quiet_hours: [{begin: '22:00', end: '07:00'}]}}",
    "sinks: {routing: {routes: [{to: [slack], continue: true, severity: info}]}, slack: {enabled: true, channel: C0}}",
]

BAD = [
    "[]",
    "detector: {}",
    "detectors: {restart_storm: {}}",
    "detectors: {restart_loop: {counts: 5}}",
    "detectors: {restart_loop: {count: 1}}",
    "detectors: {restart_loop: {count: 1000}}",
    "detectors: {restart_loop: {count: many}}",
    "detectors: {restart_loop: {window: 5}}",
    "detectors: {restart_loop: {window: '5'}}",
    "detectors: {restart_loop: {window: 5 m}}",
    "detectors: {restart_loop: {enabled: perhaps}}",
    "kafka: {access: {security_protocol: SSL}}",
    "kafka: {access: {bootstrap_servers: a:9092, security_protocol: TLS}}",
    "kafka: {logs: []}",
    "streaming: {buckets: 0}",
    "streaming: {driver_memory: much}",
    "overrides: {cluster: prod}",
    "overrides: [{cluster: prod}]",
    "overrides: [{detectors: {}}]",
    "overrides: [{cluster: '', detectors: {restart_loop: {count: 5}}}]",
    "overrides: [{detectors: {restart_storm: {count: 5}}}]",
    "overrides: [{detectors: {restart_loop: {counts: 5}}}]",
    "overrides: [{detectors: {restart_loop: {window: 5}}}]",
    "overrides: [{detectors: {restart_loop: {count: 1}}}]",
    "overrides: [{job: orders, detectors: {taskmanager_lost: {enabled: false}}}]",
    "overrides: [{job: orders, detectors: {incidents: {resolve_after: 5m}}}]",
    "silences: [{until: 2026-12-01T06:00:00Z, author: ann}]",
    "silences: [{until: 2026-12-01T06:00:00, author: ann, comment: no zone}]",
    "silences: [{until: tomorrow, author: ann, comment: why}]",
    "silences: [{until: 2026-12-01T06:00:00Z, author: '', comment: why}]",
    "silences: [{kinds: [], until: 2026-12-01T06:00:00Z, author: ann, comment: why}]",
    "sinks: {routing: {quiet_hours: [{begin: '22:00'}]}}",
    "sinks: {routing: {routes: [{to: [slack], severity: bad}]}}",
    "sinks: {slack: {token: xoxb}}",
]

BEYOND = {
    "bounds of durations": "streaming: {trigger: 1ms}",
    "patterns that do not compile": "overrides: [{cluster: '~(', detectors: {restart_loop: {count: 5}}}]",
    "settings that must fit together": "sinks: {webhook: {enabled: true}}",
    "an end before the beginning": "silences: [{begins: 2026-12-02T06:00:00Z, until: 2026-12-01T06:00:00Z, "
    "author: ann, comment: why}]",
}


@pytest.mark.parametrize("text", GOOD)
def test_editor_and_flinkwatch_take_what_is_good(text: str, tmp_path: Path) -> None:
    assert editor_says(text) == []
    assert flinkwatch_says(text, tmp_path / "c.yaml") == ""


@pytest.mark.parametrize("text", BAD)
def test_editor_and_flinkwatch_refuse_what_is_bad(text: str, tmp_path: Path) -> None:
    assert editor_says(text)
    assert flinkwatch_says(text, tmp_path / "c.yaml")


@pytest.mark.parametrize("what", BEYOND)
def test_what_a_schema_cannot_say_is_refused_by_flinkwatch(what: str, tmp_path: Path) -> None:
    assert editor_says(BEYOND[what]) == []
    assert flinkwatch_says(BEYOND[what], tmp_path / "c.yaml")


DEFAULTS: dict[str, Any] = Settings().model_dump(mode="json", by_alias=True)


def places(node: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The places of all settings."""
    if isinstance(node, dict) and node:
        return [place for key, value in node.items() for place in places(value, (*path, key))]
    return [path]


PLACES = places(DEFAULTS)


@settings(max_examples=600, deadline=None)
@given(
    st.sampled_from(PLACES), st.sampled_from([None, True, 7, -7, 0.5, "", "x", "10m", "10", [], ["x"], {}, {"x": 1}])
)
def test_wherever_the_schema_refuses_a_value_so_does_flinkwatch(place: tuple[str, ...], value: Any) -> None:
    """One value anywhere. Only "10" and true for a number it takes all the same."""
    data = copy.deepcopy(DEFAULTS)
    inner = data
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    try:
        Settings.model_validate(data)
    except ValidationError:
        return
    if value is not True and value != "10":
        assert list(VALIDATORS[0].iter_errors(data)) == []


def test_overrides_know_every_kind_and_what_is_decided_for_a_job() -> None:
    override = SCHEMA["definitions"]["Override"]
    kinds = {detector.kind for detector in DETECTORS}
    assert set(override["properties"]["detectors"]["properties"]) == kinds | {"incidents"}
    per_job = {detector.kind for detector in DETECTORS if detector.per_job}
    assert set(override["then"]["properties"]["detectors"]["propertyNames"]["enum"]) == per_job


def test_every_setting_is_described_and_unknown_keys_are_refused_everywhere() -> None:
    for name, definition in SCHEMA["definitions"].items():
        assert definition["additionalProperties"] is False, name
        for key, setting in definition["properties"].items():
            assert setting.get("description") or "$ref" in setting, f"{name}.{key}"


def test_the_defaults_an_editor_offers_are_the_defaults() -> None:
    blocks = DEFAULTS["detectors"] | {"Streaming": DEFAULTS["streaming"], "SlackConfig": DEFAULTS["sinks"]["slack"]}
    for name, block in blocks.items():
        # A section has the defaults of its own settings.
        properties = {
            k: v for k, v in SCHEMA["definitions"][name]["properties"].items() if not {"$ref", "allOf"} & set(v)
        }
        offered = {key: one["default"] for key, one in properties.items() if key != "spark"}
        assert offered == {key: value for key, value in block.items() if key in offered}
        sections = SCHEMA["definitions"][name]["properties"].keys() - properties.keys()
        assert block.keys() - offered.keys() <= sections | {"spark"}
