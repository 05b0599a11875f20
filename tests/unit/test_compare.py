"""The comparison with another commit sees every field and every transition that one side lacks."""

from tests import compare, recorded


def _one(**changed: object) -> dict[str, object]:
    evidence = [{"topic": "flink.logs", "offset": 7}]
    return {"incident": "a", "seq": 1, "transition": "opened", "summary": "s", "evidence": evidence} | changed


def test_equal_transitions_have_no_differences() -> None:
    assert compare.differences([_one()], [_one()]) == []


def test_a_field_deep_inside_is_named_with_both_values() -> None:
    other = _one(evidence=[{"topic": "flink.logs", "offset": 8}])
    assert compare.differences([_one()], [other]) == ["a 1 opened: evidence[0].offset: 7 -> 8"]


def test_lists_of_other_lengths_and_missing_fields_differ() -> None:
    assert compare.differences([_one(evidence=[])], [_one()]) != []
    assert compare.differences([_one()], [_one(severity="critical")]) == ["a 1 opened: severity: None -> 'critical'"]


def test_a_transition_of_one_side_is_named() -> None:
    assert compare.differences([], [_one()]) == ["a 1 opened: only after: s"]
    assert compare.differences([_one(), _one(seq=2)], [_one()]) == ["a 2 opened: only before: s"]


def test_a_scenario_replayed_by_the_program_has_its_transitions() -> None:
    name = "checkpoint-declined"
    found = compare.replayed(compare.ROOT, recorded.recording(name))
    assert [t["cause"] for t in found] == [t.cause for t in recorded.said(recorded.records(name))]
