"""`flinkwatch run` that ends at an exact point: run as a module in place of `streaming`.

What is handed to Spark is wrapped; the product knows nothing of it. The file named by the variable ARMED holds the
point, the signal and the job's process group; whoever gets to the point takes it away first, so that it strikes once.
"""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa

from streaming.__main__ import main
from streaming.job import query
from streaming.job.read import ReadStage
from streaming.job.watch import BucketProcessor

ARMED = "FLINKWATCH_TEST_ARMED"

POINTS = ("after the fetch", "in the state update", "before the state commit")
"""Points in the Python workers; the harness, which sees Kafka and the checkpoint, kills at the others."""


class StruckStage(ReadStage):
    """Strikes when it holds records of an input topic, before it has done anything with them."""

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from super().run(map(self._seen, batches))

    def _seen(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if any(".in." in topic for topic in batch.column("topic").unique().to_pylist()):
            _reach("after the fetch")
        return batch


class StruckProcessor(BucketProcessor):
    """Strikes when a cluster's new state was put and not yet stored, or when all was put and said."""

    def init(self, handle: Any) -> None:
        super().init(handle)
        self._clusters = _StruckState(self._clusters)

    def close(self) -> None:
        super().close()
        if self._clusters.changed:
            _reach("before the state commit")


class _StruckState:
    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.changed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: N802 - Spark's name
        self._inner.updateValue(key, value)
        self.changed = True
        _reach("in the state update")


def _reach(point: str) -> None:
    armed = Path(os.environ[ARMED])
    try:
        order = json.loads(armed.read_text())
        if order["point"] != point:
            return
        armed.unlink()
    except FileNotFoundError:
        return
    if order["signal"] == signal.SIGKILL:
        os.killpg(order["job"], signal.SIGKILL)
        # A worker of Spark has a group of its own.
        os.kill(os.getpid(), signal.SIGKILL)
    os.kill(order["job"], order["signal"])


if __name__ == "__main__":
    # The workers import this module by its name; here it is __main__.
    from tests.reliability import killed_job

    # Fails if the job has no such name any more; an assignment would wrap nothing and no point would be reached.
    mock.patch.object(query, "ReadStage", killed_job.StruckStage).start()
    mock.patch.object(query, "BucketProcessor", killed_job.StruckProcessor).start()
    main()
