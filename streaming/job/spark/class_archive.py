"""Where the archive of the classes that Spark loads is, and the Java options that use and write it.

With it the start of Spark's JVM takes about half of the CPU time. A JVM of another version, or with another class path,
does without it. Reference: JEP 350, dynamic archives for class data sharing.
"""

from pathlib import Path

from streaming.setup.jars import JARS

ARCHIVE = JARS.with_name("classes.jsa")
"""`archive_classes.py` makes it."""

_SILENT = "-Xlog:cds*=off"  # The JVM would write its warnings to standard output.


def using() -> tuple[str, ...]:
    """The options with which a JVM uses the archive; none where there is no archive."""
    return (f"-XX:SharedArchiveFile={ARCHIVE}", "-Xshare:auto", _SILENT) if ARCHIVE.exists() else ()


def writing(archive: Path) -> tuple[str, ...]:
    """The options with which a JVM writes an archive when it ends."""
    return f"-XX:ArchiveClassesAtExit={archive}", _SILENT
