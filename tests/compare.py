"""What this tree reports differently from another commit: `python -m tests.compare COMMIT [FILE ...]`.

Both replay the same records, those of every scenario unless files are named (anything `flinkwatch replay` reads: packed
recordings, logs, pages). Every field of every transition is compared: cause, times, texts, findings, evidence. The exit
status is 1 if anything differs. A redesign that is to keep behaviour is held by this.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tests import recorded

ROOT = Path(__file__).parents[1]
Transitions = list[dict[str, Any]]


def differences(before: Transitions, after: Transitions) -> list[str]:
    """One line for each field that differs, and for each transition that only one side has."""
    found: list[str] = []
    for old, new in zip_longest(before, after):
        if old is None or new is None:
            one, side = (old, "only before") if new is None else (new, "only after")
            found.append(f"{_name(one)}: {side}: {one['summary']}")
        else:
            found += [f"{_name(old)}: {where}: {a!r} -> {b!r}" for where, a, b in _fields(old, new)]
    return found


def _name(transition: dict[str, Any]) -> str:
    return f"{transition['incident']} {transition['seq']} {transition['transition']}"


def _fields(old: object, new: object, where: str = "") -> Iterator[tuple[str, object, object]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old | new:
            yield from _fields(old.get(key), new.get(key), f"{where}.{key}".lstrip("."))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for n, (a, b) in enumerate(zip(old, new, strict=True)):
            yield from _fields(a, b, f"{where}[{n}]")
    elif old != new:
        yield where, old, new


def replayed(tree: Path, file: Path) -> Transitions:
    """The transitions that the program in `tree` reports of a file.

    Raises RuntimeError with what it printed if it reported a failure; a file that it did not understand has none.
    """
    command = [sys.executable, "-m", "streaming", "replay", "--json", str(file)]
    ended = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=600, check=False)
    if ended.returncode not in (0, 2):
        raise RuntimeError(f"{tree.name}: {file}: {ended.stderr.strip()}")
    return [json.loads(line) for line in ended.stdout.splitlines()]


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """The files of a commit in a folder of their own, which is deleted afterwards."""
    with tempfile.TemporaryDirectory(prefix="flinkwatch-compare-") as folder:
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, timeout=60, check=True)
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, timeout=60, check=True)
        yield Path(folder)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.compare", description=__doc__)
    parser.add_argument("commit", help="the commit to compare with")
    parser.add_argument("files", nargs="*", type=Path, help="records; default: every scenario")
    given = parser.parse_args(arguments)
    files = [f.resolve() for f in given.files] or [recorded.recording(name) for name in recorded.NAMES]
    transitions = differing = 0
    with checked_out(given.commit) as before, ThreadPoolExecutor(2) as pool:
        pairs = pool.map(lambda file: (replayed(before, file), replayed(ROOT, file)), files)
        for file, (old, new) in zip(files, pairs, strict=True):
            found = differences(old, new)
            transitions += len(old)
            differing += bool(found)
            for line in found:
                sys.stdout.write(f"{file.parent.name}/{file.name}: {line}\n")
    sys.stdout.write(f"{len(files)} files, {transitions} transitions, {differing} files differ\n")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
