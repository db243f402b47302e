"""Counts: Gamma-Poisson with forgetting and learned overdispersion, predictive negative binomial.

    rate ~ Gamma(A, B):   A <- lam A + (1 - lam) / 2 + y,   B <- lam B + exposure
    mean = exposure A / B;   1 / shape = 1 / A + phi
    phi: moment estimate ((y - mean)^2 - mean) / mean^2 - 1 / A, clipped, averaged with forgetting; prior phi = 0
    predictive: NB(shape, mean), p = two-sided mid-p

True Poisson counts are the exception in logs: without phi, a threshold of 1e-4 alarms 50 to 500 times too often.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from models import drift, layout
from models.interface import Floats, Rows, Verdicts
from models.layout import LAST_MS, OWN, PRIOR_WINDOWS, WINDOWS, Step
from models.tails import negative_binomial_two_sided

SHAPE: Final = OWN
EXPOSURE: Final = OWN + 1
EXCESS: Final = OWN + 2
EXCESS_WEIGHT: Final = OWN + 3
SUMS: Final = slice(OWN + 4, OWN + 7)
END: Final = OWN + 7

_LARGEST: Final = 1e14
_TINY: Final = 1e-300
#: Rate of a class that never saw an event: half an event in all its exposure (Jeffreys).
_JEFFREYS: Final = 0.5
_EXCESS_PRIOR: Final = 20.0
_Z_99: Final = 2.5758293035489004


class _Trace:
    """What each step predicted, shape (T,) each."""

    def __init__(self, size: int) -> None:
        self.value, self.mean, self.shape, self.windows = (np.empty(size) for _ in range(4))
        self.known = np.empty(size, dtype=np.bool_)


def score_then_learn(working: Floats, class_id: NDArray[np.int32], steps: list[Step], memory_ms: float) -> Verdicts:
    """Fold the steps into `working`, in place, and return the verdicts of all of them, one after the other.

    Args:
        working: State of all counts, shape (WIDTH, n).
        class_id: Class of each, shape (n,).
        steps: Windows in order.
        memory_ms: Memory.
    """
    trace = _Trace(steps[-1].out.stop)
    for step in steps:
        _step(working, class_id, step, memory_ms, trace)
    return _verdicts(trace)


def _step(working: Floats, class_id: NDArray[np.int32], step: Step, memory_ms: float, trace: _Trace) -> None:
    state = working[:, step.at]
    value = np.clip(step.value, 0.0, _LARGEST)
    fresh = np.isnan(state[LAST_MS])
    if fresh.any():
        at = np.arange(working.shape[1])[step.at]
        state[OWN:, fresh] = _first(working, class_id, at[fresh])
        state[WINDOWS, fresh] = 0.0
    _predict_and_learn(state, value, step, memory_ms, trace)
    if not isinstance(step.at, slice):
        working[:, step.at] = state


def _predict_and_learn(state: Floats, value: Floats, step: Step, memory_ms: float, trace: _Trace) -> None:
    lam = layout.forgetting(state[LAST_MS], step.end_ms, memory_ms)
    state[[WINDOWS, SHAPE, EXPOSURE, EXCESS, EXCESS_WEIGHT]] *= lam
    state[SHAPE] += (1 - lam) * _JEFFREYS
    known = state[EXPOSURE] > 0
    mean = np.where(known, step.weight * state[SHAPE] / np.maximum(state[EXPOSURE], _TINY), value)
    mean = np.clip(mean, 1e-12, _LARGEST)
    dispersion = np.maximum(state[EXCESS] / np.maximum(state[EXCESS_WEIGHT], _TINY), 0.0)
    inverse = 1 / np.maximum(state[SHAPE], _TINY) + dispersion
    shape = 1 / np.clip(inverse, 1e-15, 1e12)
    spread = np.sqrt(mean + mean * mean / shape)
    trace.value[step.out], trace.mean[step.out], trace.shape[step.out] = value, mean, shape
    trace.windows[step.out], trace.known[step.out] = state[WINDOWS], known

    z = (value - mean) / spread
    # Rare counts are far from their mean by nature: a handful is always learned in full.
    limit = layout.settled_limit(state[WINDOWS]) * spread + layout.LEARNED_DEVIATIONS
    learned = np.clip(value, mean - limit, mean + limit)
    excess = ((learned - mean) ** 2 - mean) / np.maximum(mean * mean, 0.01) - 1 / np.maximum(state[SHAPE], _TINY)
    state[EXCESS] += np.where(known, np.clip(excess, -1.0, 9.0), 0.0)
    state[EXCESS_WEIGHT] += known
    state[SHAPE] += learned
    state[EXPOSURE] += step.weight
    state[LAST_MS] = step.end_ms
    state[WINDOWS] += 1.0
    changed = drift.watch(state[SUMS], np.where(known, z, 0.0))
    if changed.any():
        _cut(state, changed)


def _cut(state: Floats, changed: NDArray[np.bool_]) -> None:
    """Keep what is known at the weight of a few windows."""
    factor = np.where(changed, np.minimum(1.0, drift.WEIGHT_LEFT / np.maximum(state[WINDOWS], _TINY)), 1.0)
    state[[WINDOWS, SHAPE, EXPOSURE, EXCESS, EXCESS_WEIGHT]] *= factor


def _first(working: Floats, class_id: NDArray[np.int32], new: Rows) -> Floats:
    """Return the state of new series before their first value: Gamma with the moments of the class' rates."""
    known = layout.siblings(working, class_id, new)
    columns = working[:, known.columns]
    count = known.count()
    divisor = np.maximum(count, 1.0)
    rate = columns[SHAPE] / np.maximum(columns[EXPOSURE], _TINY)
    mean = known.total(rate) / divisor
    deviation = rate - mean[known.group]
    variance = known.total(deviation * deviation) / np.maximum(count - 1, 1.0)
    exposure = known.total(columns[EXPOSURE] / columns[WINDOWS]) / divisor
    # Never surer than five windows of a class, and no surer than its series are alike.
    shape = np.minimum(mean * mean / np.maximum(variance, _TINY), PRIOR_WINDOWS * mean * exposure)
    excess = known.total(columns[EXCESS] / np.maximum(columns[EXCESS_WEIGHT], _TINY)) / divisor
    enough = (count >= layout.SIBLINGS) & (shape > 0)
    prior = np.zeros((layout.WIDTH, known.classes))
    prior[SHAPE] = np.where(enough, shape, _JEFFREYS)
    prior[EXPOSURE] = np.where(enough, shape / np.maximum(mean, _TINY), 0.0)
    prior[EXCESS] = np.where(enough, excess * _EXCESS_PRIOR, 0.0)
    prior[EXCESS_WEIGHT] = _EXCESS_PRIOR
    return prior[OWN:, known.newcomer]


def _verdicts(trace: _Trace) -> Verdicts:
    log10_p = negative_binomial_two_sided(trace.value, trace.shape, trace.mean)
    middle, lower, upper = (_quantile(trace, z) for z in (0.0, -_Z_99, _Z_99))
    return Verdicts(
        log10_p=np.where(trace.known, log10_p, 0.0),
        expected=middle,
        lower=lower,
        upper=upper,
        direction=np.where(trace.value >= trace.mean, 1, -1).astype(np.int8),
        observations=trace.windows,
    )


def _quantile(trace: _Trace, z: float) -> Floats:
    """Return a quantile of the gamma with the moments of the predictive (Wilson and Hilferty, 1931)."""
    shape = trace.mean / (1 + trace.mean / trace.shape)
    root = 1 - 1 / (9 * shape) + z / (3 * np.sqrt(shape))
    quantile = np.maximum(trace.mean * root**3, 0.0)
    return np.where(trace.known, quantile, np.nan)
