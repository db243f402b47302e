"""What the Arrow functions of this job share in their Python workers."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from functools import wraps

import pyarrow as pa

Batches = Iterator[pa.RecordBatch]


def without_cycle_search(function: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """Switch Python's search for reference cycles off while an Arrow function runs.

    Parsed messages hold none, and searching them costs about as much as parsing them.
    """

    @wraps(function)
    def quiet(batches: Batches) -> Batches:
        gc.disable()
        try:
            yield from function(batches)
        finally:
            gc.enable()

    return quiet
