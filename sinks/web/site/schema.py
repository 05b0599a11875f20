"""The JSON schema of the documents: docs/api/v1.schema.json, which the site serves as /api/v1/schema.json."""

import json
from functools import cache

import msgspec

from sinks.web.site.documents import ALL

DIALECT = "https://json-schema.org/draft/2020-12/schema"


@cache
def schema_text() -> str:
    """The schema as text. Each document has its definition in `$defs`."""
    _, definitions = msgspec.json.schema_components(ALL, ref_template="#/$defs/{name}")
    for definition in definitions.values():
        if "description" in definition:
            definition["description"] = " ".join(definition["description"].split())
    whole = {
        "$schema": DIALECT,
        "title": "Documents of flinkwatch's status site",
        "anyOf": [{"$ref": f"#/$defs/{one.__name__}"} for one in ALL],
        "$defs": dict(sorted(definitions.items())),
    }
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
