"""The recursion over windows: series by series, each through all its windows, on compiled code.

A row is worked on in double precision and rounded to what is stored after every window, so that the state, and with it
every result, is the same however the windows are cut into calls.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from models import count, gauge, layout, ratio, verdict
from models.compiled import compiled
from models.interface import Floats, Rows

#: Columns of `origin`: first value, and end of the last window in ms; NaN before the first.
FIRST_VALUE, LAST_MS = range(2)
_GAUGE: Final = 0
_COUNT: Final = 1
_MS_PER_S: Final = 1000.0
_INTERVAL_MEMORY: Final = 32.0
#: A gap teaches at most this many usual intervals.
_LONGEST: Final = 3.0


@compiled
def run(
    kind: NDArray[np.uint8],
    matrix: NDArray[np.float32],
    visits: NDArray[np.uint8],
    origin: Floats,
    order: Rows,
    rows: Rows,
    end_ms: Floats,
    value: Floats,
    weight: Floats,
    learn: NDArray[np.bool_],
    out: Floats,
) -> None:
    """Judge observations and learn them, in place.

    Args:
        kind: Likelihood of each series, shape (n,).
        matrix: State, shape (n, WIDTH).
        visits: Visits of the season's bins, shape (n, 24).
        origin: Shape (n, 2).
        order: Observations in (row, window) order, shape (m,).
        rows: Row of each observation, shape (m,).
        end_ms: End of its window, shape (m,).
        value: Its value, shape (m,).
        weight: Its weight, shape (m,).
        learn: Whether it is learned, shape (m,).
        out: Results, shape (m, COLUMNS).
    """
    work = np.empty(matrix.shape[1])
    times = np.empty(visits.shape[1], np.uint8)
    start = np.empty(2)
    for at in order:
        row = rows[at]
        work[:] = matrix[row]
        times[:] = visits[row]
        start[:] = origin[row]
        gap = _next_window(work, start, end_ms[at])
        if math.isnan(start[FIRST_VALUE]):
            start[FIRST_VALUE] = value[at]
        out[at, verdict.OBSERVATIONS] = work[layout.WINDOWS] - 1
        time_s = (end_ms[at] - 1) / _MS_PER_S
        if kind[row] == _GAUGE:
            gauge.score_then_learn(work, times, start, value[at], time_s, gap, out[at])
        elif kind[row] == _COUNT:
            count.score_then_learn(work, times, value[at], weight[at], time_s, out[at])
        else:
            ratio.score_then_learn(work, value[at], weight[at], out[at])
        if learn[at]:
            matrix[row] = work
            visits[row] = times
            origin[row] = start


@compiled
def _next_window(s: Floats, origin: Floats, end_ms: float) -> float:
    """Count a window; return how many usual intervals lie between it and the last one, at least 1."""
    s[layout.WINDOWS] += 1
    elapsed_s = max((end_ms - origin[LAST_MS]) / _MS_PER_S, 0.0) if s[layout.WINDOWS] > 1 else 0.0
    origin[LAST_MS] = end_ms
    usual = s[layout.INTERVAL]
    if usual <= 0:
        s[layout.INTERVAL] = elapsed_s
        return 1.0
    learned = min(elapsed_s, _LONGEST * usual) - usual
    s[layout.INTERVAL] += learned / min(s[layout.WINDOWS], _INTERVAL_MEMORY)
    return max(float(round(elapsed_s / usual)), 1.0)
