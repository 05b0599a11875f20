"""Pauses Python's cyclic garbage collector while a batch is processed.

A batch consists of small objects without cycles, which reference counting frees. The collector walked them again and
again, which took a fifth of the read stage's time. The few cycles are collected afterwards.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Iterator[None]:
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()
