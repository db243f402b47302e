"""From series to a resource, for ranking: how much surprise its metrics carry together.

    evidence = mean over the metrics that have ever changed of max(surprise - 2, 0)

so that a metric counts from p < 1e-2 on, and constants neither dilute nor add. Smoothed over a few windows for ranking.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.signal import lfilter

from models.interface import Floats

#: -log10 p from which on a metric counts.
COUNTED_FROM: Final = 2.0
#: Memory of the smoothing, in windows.
SMOOTHING: Final = 8


def evidence(surprise: Floats, values: Floats) -> Floats:
    """Return the evidence of each window, by what was known at its end, shape (n,).

    Args:
        surprise: -log10 p, NaN where nothing is said, shape (n, series).
        values: The values, NaN where missing, shape (n, series).
    """
    over = np.where(np.isnan(surprise), 0.0, np.maximum(surprise - COUNTED_FROM, 0.0))
    changed = np.maximum.accumulate(_differs(values), axis=0)
    return np.asarray((over * changed).sum(axis=1) / np.maximum(changed.sum(axis=1), 1))


def _differs(values: Floats) -> Floats:
    """Tell which values differ from the first one of their series."""
    present = np.isfinite(values)
    first = values[np.argmax(present, axis=0), np.arange(values.shape[1])]
    return np.asarray(present & (values != first), np.float64)


def smoothed(score: Floats, memory: float = SMOOTHING) -> Floats:
    """Return the exponentially weighted mean up to each window, from 0, shape (n,)."""
    return np.asarray(lfilter([1 / memory], [1, 1 / memory - 1], score))
