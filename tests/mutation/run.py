"""Which small changes to the product no test notices: `python -m tests.mutation.run [options] FILE…`, see README.md.

Tests are collected once. A first run notes which functions each test calls; then each mutant is put into a forked copy
of this process, function by function, and the tests that call the function run until one of them fails.
"""

import argparse
import ast
import contextlib
import hashlib
import importlib
import json
import os
import random
import resource
import select
import signal
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from cProfile import Profile
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, Literal, NamedTuple

import pytest
import yaml

from tests.mutation.mutants import Mutant, mutants_of

ROOT = Path(__file__).parents[2]
EQUIVALENT = Path(__file__).with_name("equivalent.yaml")

_TESTS = {"sinks": "tests/unit/sinks", "detectors": "tests/unit/detectors", "streaming": "tests/unit/streaming"}
# What a mutant makes endless is stopped: by its own use of the processor, or asleep after so long.
_HANG_CPU_S = 60
_HANG_S = 600.0
_CALLS = ROOT / ".flinkwatch/mutation-calls.json"
_KILLED, _SURVIVED, _BROKEN = 1, 0, 3

Status = Literal["killed", "hung", "survived", "untested", "equivalent", "not applicable"]


class Equivalent(NamedTuple):
    """An entry of equivalent.yaml: mutants that change nothing that a test should see. An empty `now` is any change."""

    file: str
    function: str
    was: str
    now: str
    why: str

    def is_about(self, mutant: Mutant) -> bool:
        same = (self.file, self.function, _flat(self.was)) == (mutant.file, mutant.function, _flat(mutant.was))
        return same and self.now in {"", mutant.now}


def equivalents() -> list[Equivalent]:
    """What the list has."""
    entries = yaml.safe_load(EQUIVALENT.read_text()) or []
    return [Equivalent(e["file"], e["in"], str(e["was"]), str(e.get("now", "")), e["why"]) for e in entries]


def _digest(paths: Iterable[Path]) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:16]


def _flat(text: str) -> str:
    return " ".join(text.split())


class Result(NamedTuple):
    mutant: Mutant
    status: Status
    note: str = ""


class Calls(NamedTuple):
    """What a test calls, and how long it takes with a tracer."""

    seconds: float
    functions: frozenset[str]


class Runner:
    """A pytest plugin: it takes the place of the loop that runs the tests."""

    def __init__(
        self,
        mutants: list[Mutant],
        report: Callable[["Result"], None],
        *,
        longest_test: float,
        trust_calls: bool,
        trace: bool,
    ) -> None:
        self._mutants, self._report = mutants, report
        self._longest, self._trust_calls, self._traces = longest_test, trust_calls, trace
        self._failed = ""
        self._killers: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed = report.nodeid

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        # It would print a dot for each test of each mutant.
        session.config.pluginmanager.unregister(name="terminalreporter")
        called = {item.nodeid: one for item, one in self._calls(session.items) if one.seconds <= self._longest}
        items = sorted(
            (item for item in session.items if item.nodeid in called), key=lambda i: called[i.nodeid].seconds
        )
        _say(f"{len(self._mutants)} mutants, {len(items)} of {len(session.items)} tests, the others take too long")
        for mutant in self._mutants:
            names = _names(mutant)
            covering = [i for i in items if not self._traces or not names.isdisjoint(called[i.nodeid].functions)]
            covering.sort(key=lambda item: -self._killers[f"{mutant.function} {item.nodeid}"])
            self._report(self._try(mutant, covering))
        return True

    def _calls(self, items: list[pytest.Item]) -> Iterator[tuple[pytest.Item, "Calls"]]:
        """What each test that passes calls; it is kept until the test's file or the product changes."""
        if not self._traces:
            yield from ((item, Calls(0.0, frozenset())) for item in items)
            return
        product = _digest(path for ring in _TESTS for path in sorted((ROOT / ring).rglob("*.py")))
        kept: dict[str, Any] = json.loads(_CALLS.read_text()) if _CALLS.exists() else {}
        digests = {item.nodeid: product + _digest([item.path]) for item in items}
        old = {name for name, one in kept.items() if self._trust_calls or one["digest"] == digests.get(name)}
        new = [item for item in items if item.nodeid not in old]
        if new:
            _say(f"{len(new)} tests: which functions does each call?")
            found = _in_child(lambda: self._trace(new))
            kept |= {name: {"digest": digests[name], **one} for name, one in found.items()}
            _CALLS.parent.mkdir(exist_ok=True)
            _CALLS.write_text(json.dumps(kept))
        for item in items:
            one = kept[item.nodeid]
            if one["passes"]:
                yield item, Calls(one["seconds"], frozenset(one["functions"]))
            else:
                _say(f"left out, it fails without any change: {item.nodeid}")

    def _trace(self, items: list[pytest.Item]) -> dict[str, Any]:
        traced: dict[str, Any] = {}
        rings = tuple(f"{ROOT / ring}/" for ring in _TESTS)
        for item, following in zip(items, [*items[1:], None], strict=True):
            seen: set[CodeType] = set()

            def trace(frame: FrameType, event: str, argument: Any, seen: set[CodeType] = seen) -> None:
                seen.add(frame.f_code)

            self._failed = ""
            began = time.monotonic()
            threading.settrace(trace)  # type: ignore[arg-type]
            # For the main thread, which calls most, a tracer in C: it is several times faster.
            profile = Profile(subcalls=False, builtins=False)
            profile.enable()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            profile.disable()
            threading.settrace(None)  # type: ignore[arg-type]
            seen.update(one.code for one in profile.getstats() if isinstance(one.code, CodeType))
            functions = {
                f"{os.path.relpath(code.co_filename, ROOT)}::{code.co_qualname.partition('.<locals>')[0]}"
                for code in list(seen)
                if code.co_filename.startswith(rings)
            }
            seconds = time.monotonic() - began
            traced[item.nodeid] = {"passes": not self._failed, "seconds": seconds, "functions": sorted(functions)}
        return traced

    def _try(self, mutant: Mutant, items: list[pytest.Item]) -> Result:
        if not items:
            return Result(mutant, "untested")
        status, note = _forked(lambda: self._run(mutant, items))
        if status == "killed" and note:
            self._killers[f"{mutant.function} {note}"] += 1
        return Result(mutant, status, note)

    def _run(self, mutant: Mutant, items: list[pytest.Item]) -> tuple[int, str]:
        """In the child: the exit status and the test that noticed."""
        if not apply(mutant):
            return _BROKEN, ""
        for item, following in zip(items, [*items[1:], None], strict=True):
            self._failed = ""
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed:
                return _KILLED, self._failed
        return _SURVIVED, f"{len(items)} tests"


def _names(mutant: Mutant) -> set[str]:
    """The functions whose tests should notice a mutant: its own or, for a constant, those that use it."""
    if mutant.function:
        return {f"{mutant.file}::{mutant.function}"}
    tree = ast.parse((ROOT / mutant.file).read_bytes())
    constants = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.lineno <= mutant.line <= (node.end_lineno or 0)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    functions = _functions(compile(tree, mutant.file, "exec"))
    users = {f"{mutant.file}::{name}" for name, code in functions.items() if constants & _uses(code)}
    return users or {f"{mutant.file}::{name}" for name in functions}


def _uses(code: CodeType) -> set[str]:
    return set(code.co_names).union(*(_uses(one) for one in code.co_consts if isinstance(one, CodeType)))


def _functions(code: CodeType) -> dict[str, CodeType]:
    """The functions of a module and its classes by qualified name."""
    found: dict[str, CodeType] = {}
    for one in code.co_consts:
        if isinstance(one, CodeType) and not one.co_name.startswith("<"):
            # The body of a class has no arguments and is not optimised.
            found |= {one.co_qualname: one} if one.co_flags & 0x1 else _functions(one)
    return found


def apply(mutant: Mutant) -> bool:
    """Puts a mutant into this process: functions keep their identity and get other code, constants other values."""
    module = importlib.import_module(mutant.file.removesuffix(".py").replace("/", "."))
    path = ROOT / mutant.file
    code = compile(mutant.source(path.read_bytes()), str(path), "exec")
    if not mutant.function:
        return _apply_constants(mutant, module, code)
    changed = _functions(code).get(mutant.function)
    function = _find(module, mutant.function)
    if changed is None or function is None:
        return False
    try:
        function.__code__ = changed
    except ValueError:
        # It used a variable of its surroundings and no longer does.
        return False
    return True


def _apply_constants(mutant: Mutant, module: ModuleType, code: CodeType) -> bool:
    made = ModuleType(module.__name__)
    made.__file__ = module.__file__
    sys.modules[module.__name__], original = made, sys.modules[module.__name__]
    try:
        exec(code, made.__dict__)
    except Exception:  # noqa: BLE001 - whatever a mutant does at import
        return True
    finally:
        sys.modules[module.__name__] = original
    for name, old in list(vars(module).items()):
        new = getattr(made, name, None)
        if isinstance(old, int | float | tuple | frozenset) and old != new:
            # Also where it was imported by name.
            for user in list(sys.modules.values()):
                if getattr(user, "__dict__", {}).get(name) is old:
                    setattr(user, name, new)
    return True


def _find(module: ModuleType, qualified: str) -> FunctionType | None:
    found: Any = module
    for name in qualified.split("."):
        found = vars(found).get(name)
    while not isinstance(found, FunctionType) or hasattr(found, "__wrapped__"):
        inner = [getattr(found, name, None) for name in ("__wrapped__", "__func__", "fget", "func")]
        found = next((one for one in inner if one is not None), None)
        if found is None:
            return None
    return found


def _in_child(work: Callable[[], Any]) -> Any:
    """What `work` gives in a forked copy of this process, in JSON."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        status = 1
        with contextlib.suppress(BaseException):
            answer = json.dumps(work()).encode()
            with os.fdopen(write, "wb") as out:
                out.write(answer)
            status = 0
        os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as source:
        answer = source.read()
    os.waitpid(child, 0)
    if not answer:
        raise SystemExit("the process that traces the tests died")
    return json.loads(answer)


def _forked(work: Callable[[], tuple[int, str]]) -> tuple[Status, str]:
    """What becomes of a mutant in a process of its own, which is killed when it hangs."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        resource.setrlimit(resource.RLIMIT_CPU, (_HANG_CPU_S, _HANG_CPU_S))
        status, note = _KILLED, ""
        with contextlib.suppress(BaseException):
            status, note = work()
        with contextlib.suppress(OSError):
            os.write(write, note.encode())
        os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as source:
        if not select.select([source], [], [], _HANG_S)[0]:
            os.kill(child, signal.SIGKILL)
        note = source.read().decode()
    _, ended = os.waitpid(child, 0)
    if os.WIFSIGNALED(ended):
        return "hung", ""
    statuses: dict[int, Status] = {_SURVIVED: "survived", _KILLED: "killed", _BROKEN: "not applicable"}
    return statuses[os.WEXITSTATUS(ended)], note


def _say(text: str) -> None:
    print(text, file=_OUT, flush=True)


# pytest keeps descriptors 1 and 2 for itself.
_OUT = os.fdopen(os.dup(1), "w")


def summary(results: Iterable[Result]) -> str:
    """A line for each file and one for all."""
    by_file: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for one in results:
        by_file[one.mutant.file][one.status] += 1
        by_file["all"][one.status] += 1
    lines = []
    for file, counts in sorted(by_file.items(), key=lambda item: (item[0] == "all", item[0])):
        dead, alive = counts["killed"] + counts["hung"], counts["survived"] + counts["untested"]
        share = f"{100 * dead / (dead + alive):.0f} %" if dead + alive else "-"
        lines.append(f"{file:36} {share:>6}  {dead} killed, {alive} not, {counts['equivalent']} equivalent")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.mutation.run", description=__doc__)
    parser.add_argument("files", nargs="+", help="source files or folders")
    parser.add_argument("--tests", nargs="+", help="test files or folders; by default the unit tests of the ring")
    parser.add_argument("--sample", type=int, default=100, help="try so many mutants (100)")
    parser.add_argument("--all", action="store_true", help="try every mutant")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (0)")
    parser.add_argument("--only", default="", help="only mutants in functions whose name has this in it")
    parser.add_argument("--longest-test", type=float, default=3.0, help="leave out tests that take longer, seconds (3)")
    parser.add_argument(
        "--trust-calls", action="store_true", help="use the calls noted before, whatever has changed since"
    )
    parser.add_argument("--no-trace", action="store_true", help="run all chosen tests for each mutant")
    parser.add_argument("--output", type=Path, default=ROOT / ".flinkwatch/mutation.json", help="results as JSON")
    options = parser.parse_args(arguments)

    paths = [path for given in options.files for path in _sources(ROOT / given)]
    mutants = [
        one for path in paths for one in mutants_of(path, str(path.relative_to(ROOT))) if options.only in one.function
    ]
    if not options.all and len(mutants) > options.sample:
        chosen = set(random.Random(options.seed).sample(range(len(mutants)), options.sample))
        mutants = [one for number, one in enumerate(mutants) if number in chosen]
    known = equivalents()
    results: list[Result] = []

    def report(result: Result) -> None:
        results.append(result)
        if result.status in {"survived", "untested"}:
            _say(f"{result.status} ({result.note}): {result.mutant}")
        if len(results) % 50 == 0:
            _say(f"… {len(results)} of {len(mutants)}")

    rest = []
    for mutant in mutants:
        entry = next((one for one in known if one.is_about(mutant)), None)
        if entry is not None:
            report(Result(mutant, "equivalent", entry.why))
        else:
            rest.append(mutant)
    tests = options.tests or sorted({_TESTS[one.file.partition("/")[0]] for one in mutants})
    quiet = ["-q", "-p", "no:xdist", "-m", "not e2e and not slow", "-o", "timeout=600"]
    folder = ["--basetemp", str(ROOT / ".flinkwatch/mutation")]
    runner = Runner(
        rest, report, longest_test=options.longest_test, trust_calls=options.trust_calls, trace=not options.no_trace
    )
    status = pytest.main([*quiet, *folder, *tests], plugins=[runner])
    options.output.parent.mkdir(exist_ok=True)
    kept = [{**one.mutant._asdict(), "status": one.status, "note": one.note} for one in results]
    options.output.write_text(json.dumps(kept, indent=1))
    _say(summary(results))
    return int(status)


def _sources(path: Path) -> list[Path]:
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]


if __name__ == "__main__":
    sys.exit(main())
