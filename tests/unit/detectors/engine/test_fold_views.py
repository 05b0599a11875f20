"""What a step needs only while it runs is gone after it, also while the cyclic garbage collector is paused."""

import gc

from detectors.detector import View
from detectors.engine import fold
from detectors.engine.engine import Engine
from detectors.settings.live import DetectorSettings
from tests.unit.detectors.streams import START, log


def test_no_view_outlives_its_step() -> None:
    engine = Engine(DetectorSettings())
    state = engine.new_state()
    job = "e04f0bd47405a7a169914793d27ced1f"
    lines = [
        log("job_state", 0, 0, job=job, name="orders", state="RUNNING", before="CREATED"),
        log("checkpoint_triggered", 10, 1, job=job, checkpoint="1", epoch=str(START + 10)),
        log("checkpoint_completed", 20, 2, job=job, checkpoint="1", duration="10", bytes="1"),
    ]
    gc.collect()
    gc.disable()
    try:
        fold.step(engine, "c", state, lines, START + 30_000)
        assert state.detectors
        assert not [known for known in gc.get_objects() if isinstance(known, View)]
    finally:
        gc.enable()
