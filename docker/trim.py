"""Removes the files of docker/left-out.txt and RocksDB for other systems from the image; keeps one of two Sparks.

Runs in the build, in /opt/flinkwatch, on the standard library alone.
"""

import os
import shutil
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEFT_OUT = Path(__file__).with_name("left-out.txt")
ROCKSDB = {f"librocksdbjni-linux{name}.so" for name in ("64", "-aarch64")}


def main() -> None:
    """Trim, or exit with the error."""
    packages = next((ROOT / ".venv" / "lib").glob("python3*/site-packages"))
    for pattern in patterns():
        remove(packages, pattern)
    for tool in (ROOT / ".venv" / "bin").glob("pip*"):
        tool.unlink()
    spark = packages / "pyspark"
    if home := os.environ.get("SPARK_HOME"):
        use_spark_of_base(spark, Path(home))
    else:
        for jar in spark.glob("jars/rocksdbjni-*.jar"):
            keep_own_rocksdb(jar)
    (ROOT / ".venv" / "spark").symlink_to(home or spark)


def patterns() -> list[str]:
    """The lines of left-out.txt."""
    lines = (line.strip() for line in LEFT_OUT.read_text().splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def remove(packages: Path, pattern: str) -> None:
    """Remove the files that match; a pattern without a match is outdated and an error."""
    found = list(packages.glob(pattern))
    if not found and not os.environ.get("SPARK_HOME"):
        sys.stderr.write(f"docker/left-out.txt: {pattern} finds nothing\n")
    for path in found:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def use_spark_of_base(spark: Path, home: Path) -> None:
    """The base image has Spark's jars: remove those of the wheel if both have the same version."""
    own = next(spark.glob("jars/spark-core_*.jar")).name
    if not (home / "jars" / own).is_file():
        found = [path.name for path in home.glob("jars/spark-core_*.jar")]
        sys.exit(f"the base image has {found or 'no Spark'} in {home}/jars, flinkwatch needs {own}: use another BASE")
    shutil.rmtree(spark / "jars")
    (spark / "jars").symlink_to(home / "jars")


def keep_own_rocksdb(jar: Path) -> None:
    """The jar contains the library for 15 systems, 5 MB each."""
    small = jar.with_suffix(".new")
    with zipfile.ZipFile(jar) as old, zipfile.ZipFile(small, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            if not entry.filename.startswith("librocksdbjni-") or entry.filename in ROCKSDB:
                new.writestr(entry, old.read(entry))
    small.replace(jar)


if __name__ == "__main__":
    main()
