"""Every known issue names the versions of its source, and is found by the line that proves it and by no similar one.

known_issue_versions.tsv is written by hand from release notes and pull requests. `fixed` has the first release with the
fix in each line of releases, `unfixed` the affected lines that have none.
"""

import csv
from pathlib import Path

import pytest

from detectors.flink.stack_traces import StackTrace, StackTraces
from detectors.incident import Evidence, Finding
from detectors.incidents.known_issues import IssueCatalogue, IssueEntry, find
from streaming.configuration.known_issues import shipped
from tests.unit.detectors.incidents.test_lifecycle import finding

with Path(__file__).with_name("known_issue_versions.tsv").open(encoding="utf-8") as file:
    ROWS = {row["id"]: row for row in csv.DictReader(file, delimiter="\t")}
ENTRIES = {entry.id: entry for entry in shipped().entries}


def matched(issues: IssueCatalogue, one: Finding, version: str, *thrown: StackTrace) -> str:
    found = find(issues, [one], version, StackTraces({str(i): t for i, t in enumerate(thrown)}))
    return found.id if found is not None else ""


def numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]


def affected(entry: IssueEntry, version: str) -> bool:
    return any(numbers(a.since) <= numbers(version) < numbers(a.before) for a in entry.affected)


def test_every_entry_has_a_source_and_every_source_an_entry() -> None:
    assert ROWS.keys() == ENTRIES.keys()
    assert all(row["source"] for row in ROWS.values())


@pytest.mark.parametrize("name", ENTRIES)
def test_the_affected_versions_end_where_the_source_has_the_fix(name: str) -> None:
    entry, row = ENTRIES[name], ROWS[name]
    fixed, unfixed = row["fixed"].split(), row["unfixed"].split()
    ends = {*fixed}
    for line in unfixed:
        major, minor = numbers(line)
        ends.add(f"{major}.{minor + 1}")
        assert affected(entry, f"{line}.9")
    open_ended = {a.before for a in entry.affected} - ends
    assert open_ended <= ({"999.0"} if row["connector"] and not fixed else set())
    for version in fixed:
        assert not affected(entry, version)
        *line, patch = [*numbers(version), 0][:3]
        if patch:
            assert affected(entry, ".".join(map(str, [*line, patch - 1])))
        assert version in entry.fixed_in
    for version in row["connector"].split():
        assert version in entry.fixed_in


def thrown(message: str, name: str = "java.lang.IllegalStateException", frame: str = "") -> StackTrace:
    return StackTrace("", "flink.logs/0/1", 1_000, {"class": name, "message": message, "frame": frame})


HANDLE = (
    "Could not retrieve checkpoint 7 from state handle under %s. This indicates that the retrieved state handle is "
)
JM_HEAP = "Java heap space. A heap space-related out-of-memory error has occurred. This can mean two things: either "
GCS = "com.google.cloud.storage.StorageByteChannels$1.read(StorageByteChannels.java:120)"

# id, kind of the finding, a version that is affected, one that is not (if any), the proof, a similar text
PROOFS = [
    (
        "FLINK-17351",
        "checkpoint_failing",
        "1.10.3",
        "1.11.0",
        "Checkpoint 6 of job a expired before completing.",
        "Checkpoint 6 of job a was declined.",
    ),
    (
        "FLINK-22494",
        "restore_failed",
        "1.13.0",
        "1.15.3",
        HANDLE % "checkpointID-0000000000000000007",
        HANDLE % "/0000000000000000007",
    ),
    (
        "FLINK-28265",
        "jobmanager_lost",
        "1.15.2",
        "1.15.3",
        HANDLE % "checkpointID-0000000000000000007",
        HANDLE % "/0000000000000000007",
    ),
    (
        "FLINK-34007/FLINK-34333",
        "ha_connection_lost",
        "1.18.1",
        "1.18.2",
        "Exception occurred while renewing lock: Unable to update LeaderElectionRecord",
        "Connection to ZooKeeper suspended, waiting for reconnection.",
    ),
    (
        "FLINK-38483",
        "restore_failed",
        "2.1.0",
        "2.1.1",
        "Cannot get old subtasks from a descriptor that represents no state.",
        "Cannot get state of old subtasks.",
    ),
    (
        "FLINK-20654/FLINK-20645",
        "restart_loop",
        "1.12.2",
        "1.12.3",
        "java.io.IOException: Corrupt stream, found tag: 17",
        "java.io.IOException: Corrupt stream",
    ),
    (
        "kafka-transaction-timeout",
        "restart_loop",
        "1.20.5",
        "",
        "The transaction timeout is larger than the maximum value allowed by the broker (as configured by …).",
        "Timeout expired after 60000ms while awaiting InitProducerId",
    ),
    (
        "FLINK-30068/FLINK-37460",
        "restart_loop",
        "1.20.1",
        "",
        "org.apache.kafka.common.errors.InvalidPidMappingException: The producer attempted to use a producer id",
        "org.apache.kafka.common.errors.InvalidTxnStateException: The producer attempted a transactional operation",
    ),
    ("FLINK-29134/FLINK-29927", "jobmanager_lost", "1.15.2", "1.16.1", f"{JM_HEAP}Flink Master", "Java heap space"),
]


@pytest.mark.parametrize(("name", "kind", "old", "new", "proof", "similar"), PROOFS, ids=[p[0] for p in PROOFS])
def test_an_entry_is_found_by_its_line_and_not_by_a_similar_one(
    name: str, kind: str, old: str, new: str, proof: str, similar: str
) -> None:
    def named(text: str, version: str) -> str:
        record = Evidence("flink.logs", 0, 1, 0, text)
        return matched(shipped(), finding(kind, evidence=[record]), version)

    assert named(proof, old) == name
    assert matched(shipped(), finding(kind), old, thrown(proof)) == name
    assert named(similar, old) == ""
    if new:
        assert named(proof, new) == ""
    assert matched(shipped(), finding("late_barrier_acks"), old, thrown(proof)) == ""


@pytest.mark.parametrize(
    ("name", "kind", "old", "new", "proof", "similar"),
    [
        (
            "FLINK-27762",
            "restart_loop",
            "1.15.0",
            "1.15.1",
            thrown("", "org.apache.kafka.common.errors.WakeupException"),
            thrown("", "com.example.WakeupException"),
        ),
        (
            "FLINK-39136",
            "checkpoint_failing",
            "2.2.1",
            "",
            thrown("", "java.lang.NullPointerException", GCS),
            thrown("", "java.lang.NullPointerException", "com.example.Parse.map(Parse.java:28)"),
        ),
        (
            "FLINK-22483",
            "taskmanager_lost",
            "1.13.6",
            "1.14.0",
            thrown("Unable to execute HTTP request: Connect timed out", "com.amazonaws.SdkClientException"),
            thrown("Connect timed out", "java.net.SocketTimeoutException"),
        ),
    ],
    ids=["FLINK-27762", "FLINK-39136", "FLINK-22483"],
)
def test_an_entry_is_found_by_its_failure(
    name: str, kind: str, old: str, new: str, proof: StackTrace, similar: StackTrace
) -> None:
    assert matched(shipped(), finding(kind), old, proof) == name
    assert matched(shipped(), finding(kind), old, similar) == ""
    if new:
        assert matched(shipped(), finding(kind), new, proof) != name


def test_the_upgrade_of_pekko_is_named_for_the_versions_whose_notes_have_it() -> None:
    assert matched(shipped(), finding("direct_memory_exhaustion"), "1.19.2") == "FLINK-36510"
    assert matched(shipped(), finding("direct_memory_exhaustion"), "1.19.1") == ""
    assert matched(shipped(), finding("direct_memory_exhaustion"), "1.20.0") == ""


def test_an_entry_that_many_incidents_look_like_needs_a_known_version() -> None:
    assert ENTRIES["FLINK-36510"].needs_version
    assert matched(shipped(), finding("direct_memory_exhaustion"), "") == ""
    assert matched(shipped(), finding("restart_loop", summary="Corrupt stream, found tag: 1"), "") != ""


def test_a_version_before_the_fix_is_not_called_affected_if_the_first_affected_one_is_not_known() -> None:
    def applies(version: str) -> str:
        found = find(
            shipped(), [finding("restart_loop", summary="Corrupt stream, found tag: 1")], version, StackTraces()
        )
        return found.applies if found is not None else ""

    assert applies("1.9.3") == "Flink 1.9.3 is older than the fix in 1.12.3; the match is possible"
    assert applies("1.12.3") == ""
