"""The compression codecs that kafka-python can read here.

gzip is part of Python. The others need a library each; the locked requirements have all three, another installation may
lack one. Without it a consumer fails at the first compressed record, long after the start.
"""

from typing import Any

from kafka import codec
from kafka.admin import ConfigResource, ConfigResourceType

_SETTING = "compression.type"
_CODECS = {
    "gzip": (codec.has_gzip, ""),
    "snappy": (codec.has_snappy, "python-snappy"),
    "lz4": (codec.has_lz4, "lz4"),
    "zstd": (codec.has_zstd, "zstandard"),
}


def missing_codecs() -> dict[str, str]:
    """Codecs that cannot be read, each with the Python package that is missing."""
    return {name: package for name, (present, package) in _CODECS.items() if not present()}


def codec_problems(admin: Any, topics: list[str]) -> list[str]:
    """One text for each topic whose records the broker compresses with a codec that cannot be read here."""
    missing = missing_codecs()
    if not missing or not topics:
        return []
    asked = [ConfigResource(ConfigResourceType.TOPIC, name, [_SETTING]) for name in topics]
    found = admin.describe_configs(asked, config_filter="all")["topic"]
    problems = []
    for name in topics:
        used = found.get(name, {}).get(_SETTING, {}).get("value")
        if used in missing:
            problems.append(
                f"{name}: {_SETTING} is {used}, which cannot be read here: the Python package {missing[used]} is "
                f"missing\n  pip install {missing[used]}"
            )
    return problems
