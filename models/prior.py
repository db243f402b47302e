"""Cold start: what a new series is told by those of its class, the same metric on other resources.

The class speaks with at least three series that have lived for 30 windows. It is believed like a few windows of the
series' own, and the less the more its members differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from models import autoregression, count, layout, ratio
from models.interface import Likelihood, Rows
from models.recursion import FIRST_VALUE

if TYPE_CHECKING:
    from models.series import SeriesState

#: Siblings needed, with so many own windows each.
SIBLINGS: Final = 3
SIBLING_WINDOWS: Final = 30
#: Siblings asked at most.
_ASKED: Final = 64
#: Weight of the class, in windows.
_WINDOWS: Final = 5.0
#: Values after which an autoregression speaks.
_SPEAKS: Final = 11.0
_TINY: Final = 1e-30


def inform(state: SeriesState, newcomers: Rows) -> None:
    """Give new series what their classes know, in place.

    Args:
        state: State of the bucket's series.
        newcomers: Rows that have not seen a value yet.
    """
    grown = np.flatnonzero(state.matrix[:, layout.WINDOWS] >= SIBLING_WINDOWS)
    if not len(grown):
        return
    family = _family(state, grown)
    order = np.argsort(family, kind="stable")
    members, sorted_family = grown[order], family[order]
    wanted = _family(state, newcomers)
    first, last = np.searchsorted(sorted_family, wanted, "left"), np.searchsorted(sorted_family, wanted, "right")
    for row, low, high in zip(newcomers.tolist(), first.tolist(), last.tolist(), strict=True):
        if high - low >= SIBLINGS:
            _TOLD[Likelihood(int(state.kind[row]))](state, row, members[low : min(high, low + _ASKED)])


def _family(state: SeriesState, rows: Rows) -> Rows:
    """Return one number per class and likelihood."""
    return np.asarray(state.class_id[rows].astype(np.int64) * len(Likelihood) + state.kind[rows])


def _calibration(state: SeriesState, row: int, siblings: Rows) -> None:
    columns = slice(layout.CALIBRATION, layout.TOGETHER + layout.TOGETHER_WIDTH - 1)
    state.matrix[row, columns] = np.exp(np.log(state.matrix[siblings, columns].astype(np.float64)).mean(axis=0))


def _gauge(state: SeriesState, row: int, siblings: Rows) -> None:
    columns = state.matrix[siblings].astype(np.float64)
    first = state.origin[siblings, FIRST_VALUE]
    unit = np.where(first != 0, np.abs(first), 1.0)
    level = first + unit * columns[:, layout.PLAIN + autoregression.MEAN]
    within = unit * unit * columns[:, layout.PLAIN + autoregression.VARIANCE]
    if not (np.isfinite(level).all() and np.isfinite(within).all()):
        return
    centre = float(level.mean())
    variance = float(within.mean() + level.var(ddof=1)) / (centre * centre if centre != 0 else 1.0)
    if not variance <= 1 / _TINY:
        return
    state.origin[row, FIRST_VALUE] = centre
    told = {
        autoregression.VARIANCE: variance,
        autoregression.ALL: variance,
        autoregression.VALUES: _SPEAKS,
        autoregression.SLOPE: 1.0,
    }
    for place, value in told.items():
        state.matrix[row, layout.PLAIN + place] = value
    _calibration(state, row, siblings)


def _count(state: SeriesState, row: int, siblings: Rows) -> None:
    columns = state.matrix[siblings].astype(np.float64)
    rate = columns[:, count.SHAPE] / np.maximum(columns[:, count.EXPOSURE], _TINY)
    mean, variance = float(rate.mean()), float(rate.var(ddof=1))
    exposure = float(np.mean(columns[:, count.EXPOSURE] / np.minimum(columns[:, layout.WINDOWS], 2_000)))
    shape = min(mean * mean / max(variance, _TINY), _WINDOWS * mean * exposure)
    if not shape > 0:
        return
    excess = float(np.mean(columns[:, count.EXCESS] / np.maximum(columns[:, count.EXCESS_WEIGHT], _TINY)))
    state.matrix[row, count.SHAPE], state.matrix[row, count.EXPOSURE] = shape, shape / mean
    state.matrix[row, count.EXCESS] = excess * count.EXCESS_PRIOR
    _calibration(state, row, siblings)


def _ratio(state: SeriesState, row: int, siblings: Rows) -> None:
    columns = state.matrix[siblings].astype(np.float64)
    total = columns[:, ratio.HITS] + columns[:, ratio.MISSES]
    share = columns[:, ratio.HITS] / np.maximum(total, _TINY)
    mean, variance = float(np.clip(share.mean(), 1e-12, 1 - 1e-12)), float(share.var(ddof=1))
    trials = float(np.mean(total / np.minimum(columns[:, layout.WINDOWS], 2_000)))
    precision = min(mean * (1 - mean) / max(variance, _TINY) - 1, _WINDOWS * trials)
    precision = max(precision, 2 * count.JEFFREYS)
    excess = float(np.mean(columns[:, ratio.EXCESS] / np.maximum(columns[:, ratio.EXCESS_WEIGHT], _TINY)))
    state.matrix[row, ratio.HITS], state.matrix[row, ratio.MISSES] = mean * precision, (1 - mean) * precision
    state.matrix[row, ratio.EXCESS] = excess * count.EXCESS_PRIOR
    _calibration(state, row, siblings)


_TOLD: Final = {Likelihood.GAUGE: _gauge, Likelihood.COUNT: _count, Likelihood.RATIO: _ratio}
