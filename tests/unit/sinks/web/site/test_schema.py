"""The published schema of the API: docs/api/v1.schema.json is made from the documents."""

from pathlib import Path

import jsonschema
import msgspec
import pytest

from sinks.web.site.schema import schema_text

FILE = Path(__file__).parents[5] / "docs" / "api" / "v1.schema.json"


def test_the_published_schema_is_that_of_the_code(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--regenerate"):
        FILE.write_text(schema_text(), encoding="utf-8")
    assert FILE.read_text(encoding="utf-8") == schema_text()


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(msgspec.json.decode(schema_text()))
