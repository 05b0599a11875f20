"""The cyclic garbage collector, out of the way while a batch is worked on.

A batch is made of small objects without cycles; walking them again and again as they are made took a fifth of the read
stage and three quarters of decoding its output. Reference counts free them; what few cycles there are wait for the end.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_resting() -> Iterator[None]:
    """Inside, nothing is collected; afterwards, as before."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()
