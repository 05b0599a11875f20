"""Where bin/setup put the jars; FLINKWATCH_JARS names another directory, as in the container image."""

import os
from pathlib import Path

JARS = Path(__file__).resolve().parents[2] / ".flinkwatch" / "jars"


class JarsNotFoundError(RuntimeError):
    """The jars are not there; the message says what to do."""


def jars_of(process: str) -> list[Path]:
    """The jars that `spark` loads in addition to its own, or the class path of a Kafka `broker`.

    Raises JarsNotFoundError.
    """
    folder = Path(os.environ.get("FLINKWATCH_JARS") or JARS) / process
    jars = sorted(folder.glob("*.jar"))
    if not jars:
        raise JarsNotFoundError(
            f"{folder}: there are no jars here. Run bin/setup, or set FLINKWATCH_JARS to the directory that holds "
            f"{process}/*.jar."
        )
    return jars
