"""From series to resources as the novelty job does it: combined, tested for breadth, calibrated over the fleet."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from apps.evaluate.recordings import Integers
from models.interface import Floats, Rows
from models.rollup import TailState, broaden, calibrate, combine, surprising


def resource_surprise(ends_ms: Sequence[Integers], log10_p: Sequence[Floats]) -> list[Floats]:
    """Return -log10 p of each resource and window; the fleet's windows are judged and learned in event time.

    Args:
        ends_ms: End of each window, per resource, shape (n,).
        log10_p: Of its series, NaN where there is none, per resource, shape (n, series).
    """
    parts = [_combined(part) for part in log10_p]
    combined = np.concatenate([part for part, _, _ in parts])
    hits, sizes = np.concatenate([part for _, part, _ in parts]), np.concatenate([part for _, _, part in parts])
    ends = np.concatenate(ends_ms)
    found = np.empty(len(ends))
    state = TailState()
    order = np.argsort(ends, kind="stable")
    for window in np.split(order, np.flatnonzero(np.diff(ends[order])) + 1):
        found[window] = -calibrate(state, broaden(state, combined[window], hits[window], sizes[window]))
    return np.split(found, np.cumsum([len(part) for part in ends_ms])[:-1])


def _combined(log10_p: Floats) -> tuple[Floats, Rows, Rows]:
    """Return combined log10 p, number of surprising series and number of series of each window."""
    present = np.isfinite(log10_p)
    sizes = present.sum(axis=1)
    last = np.cumsum(sizes)
    first = last - sizes
    members = log10_p[present]
    return combine(members, first, last)[0], surprising(members, first, last), sizes
