"""`flinkwatch report` and `flinkwatch replay --html`: which incident, which file, and clear errors."""

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from detectors.incident import Transition
from detectors.settings.live import LiveSettings, publish
from sinks.web.page_context import SentNotification
from streaming.cli.main import cli
from streaming.configuration.topic import ConfigHistory
from streaming.errors import PublishedError, ReportError
from tests.unit.sinks.samples import OPENED_AT
from tests.unit.sinks.web.page_samples import chain

MANAGER = "o.a.f.r.r.StandaloneResourceManager [] -"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, list(map(str, arguments)), catch_exceptions=False)


def log_of(path: Path, *managers: str) -> Path:
    """The log of a JobManager that loses these TaskManagers, five minutes apart."""
    lines = []
    for number, manager in enumerate(managers):
        at = f"2026-11-20 23:{10 + 5 * number}:20,001 INFO  {MANAGER}"
        lines.append(
            f"{at} Registering TaskManager with ResourceID {manager} "
            f"(pekko.tcp://flink@{manager}/user/rpc/taskmanager_0) at ResourceManager"
        )
        lines.append(f"{at} TaskManager with id {manager} is no longer reachable.")
    lines.append("2026-11-20 23:40:00,001 INFO  o.a.f.r.j.JobMaster [] - nothing of interest")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FLINKWATCH_CONFIG", raising=False)
    return log_of(tmp_path / "jobmanager.log", "a:1-b")


@pytest.fixture
def two(log: Path) -> Path:
    return log_of(log.with_name("two.log"), "a:1-b", "c:1-d")


def test_a_log_file_becomes_a_page_with_its_lines_as_evidence_and_the_thresholds(log: Path) -> None:
    assert run("report", log, "--out", "page.html").exit_code == 0
    html = Path("page.html").read_text()
    assert "TaskManager lost" in html
    assert f"{log}:2" in html
    assert "taskmanager_lost." in html.split("Configuration in force")[1]


def test_without_a_file_the_page_goes_to_standard_output(log: Path) -> None:
    assert run("report", log).stdout.startswith("<!doctype html>")


def test_a_post_mortem_is_markdown(log: Path) -> None:
    assert run("report", log, "--markdown").stdout.startswith("# Post-mortem: TaskManager lost")


def test_of_several_incidents_one_has_to_be_named(two: Path) -> None:
    with pytest.raises(
        ReportError, match=r"several incidents; name one of them \(--incident\):\n[0-9a-f]{12}: "
    ) as error:
        run("report", two)
    chosen = re.findall(r"^([0-9a-f]{12}):", str(error.value), re.MULTILINE)[1]
    assert chosen in run("report", two, "--incident", chosen[:6]).stdout


def test_an_incident_that_is_not_there_is_an_error_that_lists_those_that_are(log: Path) -> None:
    with pytest.raises(ReportError, match=r"no incident 123; there are:\n[0-9a-f]{12}: taskmanager_lost"):
        run("report", log, "--incident", "123")


def test_a_folder_gets_a_page_of_each_incident_and_a_list_of_them(two: Path) -> None:
    assert run("report", two, "--out", "pages").exit_code == 0
    index = Path("pages/index.html").read_text()
    links = re.findall(r'href="([0-9a-f]{12}\.html)"', index)
    assert len(links) == len(set(links)) == 2
    assert all("All incidents" in Path("pages", link).read_text() for link in links)


def test_a_replay_writes_the_same_pages(two: Path) -> None:
    run("report", two, "--out", "pages")
    assert "Wrote replayed/index.html." in run("replay", two, "--html", "replayed").stdout
    pages = {path.name: path.read_text() for path in Path("pages").iterdir()}
    assert {path.name: path.read_text() for path in Path("replayed").iterdir()} == pages


def test_a_replay_without_an_incident_writes_an_empty_list(tmp_path: Path) -> None:
    quiet = log_of(tmp_path / "quiet.log")
    run("replay", quiet, "--html", tmp_path / "pages")
    assert "No incidents found." in (tmp_path / "pages" / "index.html").read_text()


@pytest.mark.parametrize("source", ["no-such.log", "zzzz", "0a/1b"])
def test_what_is_neither_a_file_nor_an_id_is_an_error(source: str, log: Path) -> None:
    with pytest.raises(ReportError, match=f"{source}: no such file, and not the ID of an incident"):
        run("report", source)


def test_a_file_without_an_incident_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "letter.log"
    file.write_text("Dear reader\n")
    with pytest.raises(ReportError, match="no incident was found"):
        run("report", file)


def test_a_page_that_cannot_be_written_is_an_error(log: Path) -> None:
    with pytest.raises(ReportError, match="cannot be written"):
        run("report", log, "--out", log / "page.html")


class Stored:
    """What the topics hold."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found: dict[str, list[Transition]] = {"9f2c41d07b3e": chain()}
        self.log_fails = False
        monkeypatch.setattr("streaming.stored_incidents.stored_transitions", lambda *_: self.found)
        monkeypatch.setattr("streaming.stored_notifications.stored_notifications", self._notifications)
        monkeypatch.setattr(
            "streaming.cli.report.history_of",
            lambda *_: ConfigHistory(configurations=[publish(LiveSettings(), 1, "ann")]),
        )

    def _notifications(self, _kafka: Any, _timeout: int, incident: str) -> list[SentNotification]:
        if self.log_fails:
            raise PublishedError("flinkwatch.deliveries could not be read")
        return [SentNotification("slack", OPENED_AT + 2_000, 1, "sent")] if incident == "9f2c41d07b3e" else []


@pytest.fixture
def stored(log: Path, monkeypatch: pytest.MonkeyPatch) -> Stored:
    return Stored(monkeypatch)


def test_an_incident_of_the_topic_is_found_by_the_beginning_of_its_id(stored: Stored) -> None:
    html = run("report", "9f2c41").stdout
    assert "Late barrier acks · orders-enrichment" in html
    assert "slack notified of change 1" in html


def test_an_incident_is_shown_also_if_the_notification_log_cannot_be_read(stored: Stored) -> None:
    stored.log_fails = True
    done = run("report", "9f2c41d07b3e")
    assert "Late barrier acks" in done.stdout
    assert "flinkwatch.deliveries could not be read" in done.stderr


def test_an_incident_that_the_topic_does_not_have_is_an_error(stored: Stored) -> None:
    with pytest.raises(ReportError, match="no incident 0123456789ab; there are:\n9f2c41d07b3e"):
        run("report", "0123456789ab")
