"""Removes from the image the files in docker/left-out.txt, RocksDB for other systems, and a second copy of Spark.

Runs during the build in /opt/flinkwatch, with the standard library only.
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
    """Trim the image, or exit with the reason of a failure."""
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
    """The patterns in left-out.txt."""
    lines = (line.strip() for line in LEFT_OUT.read_text().splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def remove(packages: Path, pattern: str) -> None:
    """Remove the files that match a pattern. A pattern without a match is reported, since it is out of date."""
    found = list(packages.glob(pattern))
    if not found and not os.environ.get("SPARK_HOME"):
        sys.stderr.write(f"docker/left-out.txt: {pattern} finds nothing\n")
    for path in found:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def use_spark_of_base(spark: Path, home: Path) -> None:
    """Replace the jars of the wheel by those of the base image, if both have the same version."""
    own = next(spark.glob("jars/spark-core_*.jar")).name
    if not (home / "jars" / own).is_file():
        found = [path.name for path in home.glob("jars/spark-core_*.jar")]
        sys.exit(f"the base image has {found or 'no Spark'} in {home}/jars, flinkwatch needs {own}: use another BASE")
    shutil.rmtree(spark / "jars")
    (spark / "jars").symlink_to(home / "jars")


def keep_own_rocksdb(jar: Path) -> None:
    """Keep only RocksDB's library for Linux: the jar contains it for 15 systems, 5 MB each."""
    small = jar.with_suffix(".new")
    with zipfile.ZipFile(jar) as old, zipfile.ZipFile(small, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            if not entry.filename.startswith("librocksdbjni-") or entry.filename in ROCKSDB:
                new.writestr(entry, old.read(entry))
    small.replace(jar)


if __name__ == "__main__":
    main()
