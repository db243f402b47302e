"""Ratios with known trials: beta-binomial with forgetting and learned intra-class correlation.

share ~ Beta(A, B):   A <- lam A + (1 - lam) / 2 + y,   B <- lam B + (1 - lam) / 2 + trials - y
rho: moment estimate of the correlation between trials of a window, averaged with forgetting; prior rho = 0
predictive: BetaBinomial(trials, pi M, (1 - pi) M),  1 / (M + 1) = 1 - (1 - 1 / (A + B + 1)) (1 - rho)
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from models import drift, layout
from models.interface import Floats, Rows, Verdicts
from models.layout import LAST_MS, OWN, PRIOR_WINDOWS, WINDOWS, Step
from models.tails import beta_binomial_two_sided

HITS: Final = OWN
MISSES: Final = OWN + 1
EXCESS: Final = OWN + 2
EXCESS_WEIGHT: Final = OWN + 3
SUMS: Final = slice(OWN + 4, OWN + 7)
END: Final = OWN + 7

_LARGEST: Final = 1e12
_TINY: Final = 1e-300
_JEFFREYS: Final = 0.5
_EXCESS_PRIOR: Final = 20.0
_MOST_CORRELATION: Final = 0.999
_Z_99: Final = 2.5758293035489004


class _Trace:
    """What each step predicted, shape (T,) each."""

    def __init__(self, size: int) -> None:
        self.value, self.trials, self.share, self.precision, self.windows = (np.empty(size) for _ in range(5))
        self.known = np.empty(size, dtype=np.bool_)


def score_then_learn(working: Floats, class_id: NDArray[np.int32], steps: list[Step], memory_ms: float) -> Verdicts:
    """Fold the steps into `working`, in place, and return the verdicts of all of them, one after the other.

    Args:
        working: State of all ratios, shape (WIDTH, n).
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
    fresh = np.isnan(state[LAST_MS])
    if fresh.any():
        at = np.arange(working.shape[1])[step.at]
        state[OWN:, fresh] = _first(working, class_id, at[fresh])
        state[WINDOWS, fresh] = 0.0
    _predict_and_learn(state, step, memory_ms, trace)
    if not isinstance(step.at, slice):
        working[:, step.at] = state


def _predict_and_learn(state: Floats, step: Step, memory_ms: float, trace: _Trace) -> None:
    lam = layout.forgetting(state[LAST_MS], step.end_ms, memory_ms)
    state[[WINDOWS, HITS, MISSES, EXCESS, EXCESS_WEIGHT]] *= lam
    state[[HITS, MISSES]] += (1 - lam) * _JEFFREYS
    trials = np.clip(step.weight, _TINY, _LARGEST)
    value = np.clip(step.value, 0.0, trials)
    total = state[HITS] + state[MISSES]
    share = np.clip(state[HITS] / total, 1e-12, 1 - 1e-12)
    correlation = np.clip(state[EXCESS] / np.maximum(state[EXCESS_WEIGHT], _TINY), 0.0, _MOST_CORRELATION)
    own = 1 / (total + 1)
    together = own + correlation - own * correlation
    precision = 1 / together - 1
    known = state[LAST_MS] > -np.inf
    known |= total > 2 * _JEFFREYS
    trace.value[step.out], trace.trials[step.out], trace.share[step.out] = value, trials, share
    trace.precision[step.out], trace.windows[step.out], trace.known[step.out] = precision, state[WINDOWS], known

    mean, binomial = trials * share, trials * share * (1 - share)
    spread = np.sqrt(binomial * (1 + (trials - 1) * together) + _TINY)
    z = (value - mean) / np.maximum(spread, _TINY)
    limit = layout.settled_limit(state[WINDOWS]) * spread + layout.LEARNED_DEVIATIONS
    learned = np.clip(value, np.maximum(mean - limit, 0.0), np.minimum(mean + limit, trials))
    several = known & (trials >= 2)
    spare = np.maximum(trials - 1, 1.0)
    excess = ((learned - mean) ** 2 / np.maximum(binomial, 0.01) - 1) / spare - own
    state[EXCESS] += np.where(several, np.clip(excess, -1 / spare, 1.0), 0.0)
    state[EXCESS_WEIGHT] += several
    state[HITS] += learned
    state[MISSES] += trials - learned
    state[LAST_MS] = step.end_ms
    state[WINDOWS] += 1.0
    changed = drift.watch(state[SUMS], np.where(known, z, 0.0))
    if changed.any():
        _cut(state, changed)


def _cut(state: Floats, changed: NDArray[np.bool_]) -> None:
    """Keep what is known at the weight of a few windows."""
    factor = np.where(changed, np.minimum(1.0, drift.WEIGHT_LEFT / np.maximum(state[WINDOWS], _TINY)), 1.0)
    state[[WINDOWS, HITS, MISSES, EXCESS, EXCESS_WEIGHT]] *= factor


def _first(working: Floats, class_id: NDArray[np.int32], new: Rows) -> Floats:
    """Return the state of new series before their first value: beta with the moments of the class' shares."""
    known = layout.siblings(working, class_id, new)
    columns = working[:, known.columns]
    count = known.count()
    divisor = np.maximum(count, 1.0)
    total = columns[HITS] + columns[MISSES]
    share = columns[HITS] / np.maximum(total, _TINY)
    mean = np.clip(known.total(share) / divisor, 1e-12, 1 - 1e-12)
    deviation = share - mean[known.group]
    variance = known.total(deviation * deviation) / np.maximum(count - 1, 1.0)
    trials = known.total(total / columns[WINDOWS]) / divisor
    precision = np.maximum(mean * (1 - mean) / np.maximum(variance, _TINY) - 1, 2 * _JEFFREYS)
    precision = np.minimum(precision, np.maximum(PRIOR_WINDOWS * trials, 2 * _JEFFREYS))
    excess = known.total(columns[EXCESS] / np.maximum(columns[EXCESS_WEIGHT], _TINY)) / divisor
    enough = count >= layout.SIBLINGS
    prior = np.zeros((layout.WIDTH, known.classes))
    prior[HITS] = np.where(enough, mean * precision, _JEFFREYS)
    prior[MISSES] = np.where(enough, (1 - mean) * precision, _JEFFREYS)
    prior[EXCESS] = np.where(enough, excess * _EXCESS_PRIOR, 0.0)
    prior[EXCESS_WEIGHT] = _EXCESS_PRIOR
    return prior[OWN:, known.newcomer]


def _verdicts(trace: _Trace) -> Verdicts:
    a, b = trace.share * trace.precision, (1 - trace.share) * trace.precision
    log10_p = beta_binomial_two_sided(trace.value, trace.trials, a, b)
    mean = trace.trials * trace.share
    spread = np.sqrt(mean * (1 - trace.share) * (trace.precision + trace.trials) / (trace.precision + 1))
    bounds = (np.clip(mean + z * spread, 0.0, trace.trials) for z in (0.0, -_Z_99, _Z_99))
    middle, lower, upper = (np.where(trace.known, bound, np.nan) for bound in bounds)
    return Verdicts(
        log10_p=np.where(trace.known, log10_p, 0.0),
        expected=middle,
        lower=lower,
        upper=upper,
        direction=np.where(trace.value >= mean, 1, -1).astype(np.int8),
        observations=trace.windows,
    )
