"""A kind is complete: one run names every piece that is missing, with the file it belongs into."""

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from detectors import DETECTORS
from detectors.detector import Detector
from detectors.events.vocabulary.match import EVENT_TYPES
from detectors.flink.facts import FAILURE
from detectors.incidents import cause_graph
from sinks.prometheus.catalogue import NAMESPACE, READINGS
from tests import recorded, runbooks
from tests.runbooks import PROJECT
from tests.unit.detectors.look_alikes import LOOK_ALIKES
from tests.unit.detectors.streams import METRICS

MODULES = PROJECT / "detectors" / "kinds"
TESTS = PROJECT / "tests" / "unit" / "detectors" / "kinds"
KINDS = sorted(path.stem for path in MODULES.glob("*/*.py") if path.stem != "__init__")
BOARDS = "".join(path.read_text() for path in (PROJECT / "conf" / "grafana" / "dashboards").glob("*.json"))
NEVER_A_CAUSE = {"clock_skew"}
"""Kinds of severity info only: they open no incident."""
REGENERATE = "pytest tests/unit/detectors/test_registration.py -n 0 --regenerate"


def readings_of(detector: type[Detector]) -> set[str]:
    """The names of the readings that a detector's module makes."""
    calls = [
        n for n in ast.walk(ast.parse(inspect.getsource(sys.modules[detector.__module__]))) if isinstance(n, ast.Call)
    ]
    names = [k.value for c in calls if getattr(c.func, "id", "") == "Reading" for k in c.keywords if k.arg == "name"]
    return {n.value for n in names if isinstance(n, ast.Constant) and isinstance(n.value, str)}


def has_scenario(kind: str) -> bool:
    """Whether a recording shows it: as the cause of a true incident, or by its name if it is never a cause."""
    if kind in NEVER_A_CAUSE:
        return any(name.startswith(kind.replace("_", "-")) for name in recorded.NAMES)
    return any(true["cause"] == kind for name in recorded.NAMES for true in recorded.truth(name))


def missing(kind: str) -> Iterator[str]:
    """What a kind lacks."""
    detector = next((d for d in DETECTORS if d.kind == kind), None)
    if detector is None:
        yield f"detectors/kinds/AREA/{kind}.py: no class that derives from Detector"
    else:
        yield from missing_of(detector, kind)
    if kind not in cause_graph.KINDS | cause_graph.UNLINKED:
        yield "detectors/incidents/cause_graph.py: no edge in LINKS, and not among UNLINKED"
    page = f"docs/runbooks/{kind}.md"
    if not (PROJECT / page).exists():
        yield f"{page}: no runbook"
    elif runbooks.runbook(kind) is None:
        yield f"{page}: no line **Reported** …. **Severity** …. **Area** one of {', '.join(runbooks.AREAS)}."
    for file in (runbooks.INDEX, runbooks.NAVIGATION):
        if f"{kind}.md" not in runbooks.marked(file):
            yield f"{file.relative_to(PROJECT)}: not listed; {REGENERATE} writes it once there is a runbook"
    if not [*TESTS.glob(f"*/test_{kind}.py")]:
        yield f"tests/unit/detectors/kinds/AREA/test_{kind}.py: no tests"
    if kind not in LOOK_ALIKES:
        yield "tests/unit/detectors/look_alikes.py: no healthy situation that looks like it and stays silent"
    if not has_scenario(kind):
        yield f"tests/scenarios: none whose truth has {kind} as its cause"
    if f"  {kind}:\n" not in (PROJECT / "conf" / "flinkwatch.yaml").read_text():
        yield "conf/flinkwatch.yaml: no settings; `flinkwatch config defaults`, and `schema` and `docs` likewise"


def missing_of(detector: type[Detector], kind: str) -> Iterator[str]:
    """What the class lacks, and what its readings do."""
    own = vars(detector)
    file = f"detectors/kinds/AREA/{kind}.py"
    if own.get("kind") != kind:
        yield f'{file}: kind is not "{kind}"'
    if not any("belongs_to" in vars(base) for base in detector.__mro__ if base not in (Detector, object)):
        yield f'{file}: no belongs_to: whose end ends its findings, "job", "process" or "cluster"'
    if not getattr(detector, "event_types", ()):
        yield f"{file}: has no event_types; lines have their wording in detectors/events/vocabulary"
    elif unknown := detector.event_types - EVENT_TYPES - METRICS - {FAILURE}:
        yield f"detectors/events/vocabulary: no wording for {', '.join(sorted(unknown))}"
    for name in sorted(readings_of(detector)):
        if name not in READINGS:
            yield f"sinks/prometheus/catalogue.py: no row for the reading {name}"
        if NAMESPACE + name not in BOARDS:
            yield f"dashboards: no panel with {NAMESPACE}{name}"


def test_no_kind_lacks_a_piece() -> None:
    found = [f"{kind}: {piece}" for kind in KINDS for piece in missing(kind)]
    assert not found, "\n" + "\n".join(found)


def test_a_kind_that_is_only_a_name_lacks_every_piece() -> None:
    assert len(list(missing("nothing_yet"))) == 9

    class OnlyAName(Detector):
        kind = "only_a_name"

    assert [piece.partition(": ")[2].split(";")[0].split(":")[0] for piece in missing_of(OnlyAName, "only_a_name")] == [
        "no belongs_to",
        "has no event_types",
    ]


def test_every_file_of_tests_is_about_a_kind() -> None:
    assert sorted(path.stem.removeprefix("test_") for path in TESTS.glob("*/test_*.py")) == KINDS


def test_every_detector_is_found_in_the_folder() -> None:
    assert [d.kind for d in DETECTORS] == KINDS


@pytest.mark.parametrize(
    ("file", "made"), [(runbooks.INDEX, runbooks.table), (runbooks.NAVIGATION, runbooks.navigation)], ids=lambda one: ""
)
def test_the_list_of_kinds_and_the_navigation_are_made_from_the_runbooks(
    file: Path, made: object, request: pytest.FixtureRequest
) -> None:
    assert callable(made)
    if request.config.getoption("--regenerate"):
        runbooks.write(file, made())
    assert runbooks.marked(file) == made(), REGENERATE


def test_nobody_counts_the_kinds_by_hand() -> None:
    """A number would be wrong with the next kind."""
    pages = [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *(PROJECT / "docs").rglob("*.md")]
    counted = re.compile(r"\b(?:\d+|twenty(?:-\w+)?) (?:\[)?(?:kinds of incident|kinds|detectors)\b", re.IGNORECASE)
    assert [f"{p.name}: {m[0]}" for p in pages if p.exists() for m in counted.finditer(p.read_text())] == []
