"""Where bin/setup put the jars; FLINKWATCH_JARS names another directory, as in the container image."""

import os
from pathlib import Path

JARS = Path(__file__).resolve().parents[2] / ".flinkwatch" / "jars"


class JarsNotFoundError(RuntimeError):
    """The jars are not there; the message says what to do."""


def spark_jars() -> list[Path]:
    """What Spark loads in addition to its own: the Kafka connector."""
    return _jars("spark")


def broker_jars() -> list[Path]:
    """The class path of the embedded Kafka broker."""
    return _jars("broker")


def _jars(process: str) -> list[Path]:
    folder = Path(os.environ.get("FLINKWATCH_JARS") or JARS) / process
    jars = sorted(folder.glob("*.jar"))
    if not jars:
        raise JarsNotFoundError(
            f"{folder}: there are no jars here. Run bin/setup, or set FLINKWATCH_JARS to the directory that holds "
            f"{process}/*.jar."
        )
    return jars
