"""The compression codecs that kafka-python can read here.

gzip is part of Python. The others need a library each; the locked requirements have all three, another installation may
lack one. Without it a consumer fails at the first compressed record, long after the start.
"""

from kafka import codec

_CODECS = {
    "gzip": (codec.has_gzip, ""),
    "snappy": (codec.has_snappy, "python-snappy"),
    "lz4": (codec.has_lz4, "lz4"),
    "zstd": (codec.has_zstd, "zstandard"),
}


def missing_codecs() -> dict[str, str]:
    """Codecs that cannot be read, each with the Python package that is missing."""
    return {name: package for name, (present, package) in _CODECS.items() if not present()}
