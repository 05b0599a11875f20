"""Compares what known issues say of releases with the source jars on Maven Central.

mvn dependency:copy -Dartifact=org.apache.flink:flink-runtime:1.17.1:jar:sources -DoutputDirectory=DIR
python -m tests.bench.known_issue_sources DIR

Jars that DIR does not have are listed. The result is 1 if a file differs from what
tests/unit/detectors/incidents/known_issue_sources.tsv says of it.
"""

import csv
import re
import sys
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

FILE = Path(__file__).parents[1] / "unit" / "detectors" / "incidents" / "known_issue_sources.tsv"


class Source(NamedTuple):
    """A file of a release, and whether it prints or has the text."""

    id: str
    artifact: str
    release: str
    file: str
    has: str
    text: str


def sources(file: Path = FILE) -> list[Source]:
    """The rows of the table."""
    with file.open(encoding="utf-8", newline="") as opened:
        return [Source(**row) for row in csv.DictReader(opened, delimiter="\t", quoting=csv.QUOTE_NONE)]


def joined(code: str) -> str:
    """Java code with single spaces and with joined parts of texts, so that line breaks do not matter."""
    return re.sub(r"\s+", " ", re.sub(r'"\s*\+\s*"', "", code))


def differs(source: Source, folder: Path) -> str:
    """What is wrong with a row, empty if nothing is."""
    jar = folder / f"{source.artifact}-{source.release}-sources.jar"
    if not jar.exists():
        return "no jar"
    with ZipFile(jar) as opened:
        code = joined(opened.read(source.file).decode())
    return "" if (joined(source.text) in code) == (source.has != "no") else "DIFFERS"


def main(folder: Path) -> int:
    """Print every row that differs or cannot be compared."""
    found = [(source, wrong) for source in sources() if (wrong := differs(source, folder))]
    for source, wrong in found:
        print(f"{wrong}: {source.id} {source.artifact} {source.release} {source.file}: {source.has} {source.text}")
    return int(any(wrong == "DIFFERS" for _, wrong in found))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
