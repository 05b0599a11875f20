"""What is advised follows from what was found: what helps against another cause may do harm."""

from detectors.flink.topology import InputRate, Topology, _number
from detectors.kinds.late_barrier_acks import ExpiredCheckpoint, LateAck, LateBarrierAcks
from detectors.patterns.keep_state import KEEP_STATE
from tests.unit.detectors.streams import START
from tests.unit.test_advice import first_danger

JOB = "a" * 32
TM, OTHER = "tm-2:6122-bbbbbb", "tm-1:6122-aaaaaa"


def advice(rate: int = 50, apart: int = 0) -> str:
    """Of four late acknowledgements from `TM`, each `apart` ms after the one before; it reads `rate`, the other 50."""
    topology = Topology()
    topology.intake = {JOB: {_number(TM): InputRate(0, 0, rate), _number(OTHER): InputRate(0, 0, 50)}}
    acks = {str(n): LateAck(START + n * apart, "sink (1/4)", TM, "tm-2") for n in range(4)}
    detector = LateBarrierAcks(LateBarrierAcks.Config())
    return detector._advice(ExpiredCheckpoint(START, START, [], acks), JOB, (TM, "tm-2"), topology)


def test_key_skew_is_not_answered_with_a_restart() -> None:
    said = advice(rate=550)
    assert "skewed" in said
    assert TM in said
    assert "restart" not in said
    assert first_danger(said) == ""


def test_a_slow_host_is_left_only_after_the_state_is_safe() -> None:
    said = advice()
    assert said.startswith(KEEP_STATE)
    assert f"/jobs/{JOB}/checkpoints/config" in said
    assert "move the job" in said
    assert "skewed" not in said


def test_a_slow_upload_is_neither() -> None:
    said = advice(apart=5_000)
    assert "checkpoint storage" in said
    assert "move the job" not in said
    assert "skewed" not in said
