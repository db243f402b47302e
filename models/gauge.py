"""Gauges: exponentially weighted normal of the level and of the first difference, on two scales at once.

    y ~ N(m, s2), power-prior forgetting lam = exp(-elapsed / memory)
    W <- lam W + q,  W2 <- lam^2 W2 + q^2            weight of the mean; q <= 1 is the share of the usual samples
    S <- lam S + e^2 / (1/q + W2/W^2)                e = y - m before learning
    D <- lam D + 1,  D2 <- lam^2 D2 + 1              s2 = S / D, degrees of freedom D^2 / D2 (Kish)
    m <- m + e q / W
    predictive: Student t, df = D^2/D2, location m, scale^2 = s2 (1/q + W2/W^2)

Without forgetting this is the normal with unknown mean and variance; with it, Kish's degrees of freedom keep the false
alarms where the level says (a plain power prior goes deaf). A series is modelled as it is and as a signed logarithm,
asinh(x / unit); both predictives are mixed by their prequential evidence. Level and difference are tested, and the
smaller p counts twice (Bonferroni). Where residuals have more than normal kurtosis, the t has it too. A cumulative sum
of residuals ends the past where it no longer describes the present (`models.drift`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from models import drift, layout
from models.interface import LOG10_P_FLOOR, Floats, Rows, Verdicts
from models.layout import LAST_MS, OWN, PRIOR_WINDOWS, WINDOWS, Step
from models.tails import LOG10_2, student_log_density, student_tail

#: Unit of the signed logarithm: below it the scale is linear.
UNIT: Final = OWN
#: Usual number of samples in a window.
SAMPLES: Final = OWN + 1
#: Previous value on both scales.
PREVIOUS: Final = slice(OWN + 2, OWN + 4)
#: Evidence for the logarithm over the plain scale, for level and difference, ln.
EVIDENCE: Final = slice(OWN + 4, OWN + 6)
SUMS: Final = slice(OWN + 6, OWN + 12)
MEAN_WEIGHT: Final = slice(OWN + 12, OWN + 14)
MEAN_WEIGHT2: Final = slice(OWN + 14, OWN + 16)
SPREAD_WEIGHT: Final = slice(OWN + 16, OWN + 18)
SPREAD_WEIGHT2: Final = slice(OWN + 18, OWN + 20)
#: (scale, level or difference)
MEAN: Final = slice(OWN + 20, OWN + 24)
SQUARES: Final = slice(OWN + 24, OWN + 28)
FOURTHS: Final = slice(OWN + 28, OWN + 32)

LEVEL, DIFFERENCE = range(2)
#: Values and standardised errors beyond this are not told apart: their fourth powers must stay finite.
_LARGEST: Final = 1e60
#: Changes below this share of the level are dust.
_RESOLUTION: Final = 1e-6
_TINY: Final = 1e-300
_LEAST_SHARE: Final = 0.05
_UNIT_SHARE: Final = 0.1
_EVIDENCE_STEP: Final = 4.0
_HETEROGENEITY: Final = 0.1
#: Changes that a constant series is expected to have shown before its first window.
_CHANGE: Final = 0.05
#: A gap over which the past fades to less than this loses degrees of freedom.
_GAP: Final = 0.9
#: 99.5 % point of t, by 1 / df.
_GRID: Final = np.linspace(0.0, 1.0, 201)
_CRITICAL: Final = special.stdtrit(1 / np.maximum(_GRID, 1e-9), 0.995)


class _Predictive(NamedTuple):
    """Student t of one step, shape (scale, level or difference, k)."""

    centre: Floats
    scale: Floats
    t: Floats
    df: Floats


@dataclass(frozen=True)
class _Trace:
    """What each step predicted, all steps one after the other in the last axis (T)."""

    y: Floats  #: value on both scales, shape (2, T)
    before: Floats  #: previous value on both scales, shape (2, T)
    centre: Floats  #: shape (2, 2, T)
    scale: Floats  #: shape (2, 2, T)
    t: Floats  #: shape (2, 2, T)
    df: Floats  #: shape (2, 2, T)
    unit: Floats  #: shape (T,)
    windows: Floats  #: shape (T,)
    decay: Floats  #: shape (T,)
    constant: NDArray[np.bool_]  #: whether the series never changed, shape (T,)

    @classmethod
    def empty(cls, size: int) -> _Trace:
        both, grid, line = (np.empty((*shape, size)) for shape in ((2,), (2, 2), ()))
        return cls(
            y=both, before=both.copy(),
            centre=grid, scale=grid.copy(), t=grid.copy(), df=grid.copy(),
            unit=line, windows=line.copy(), decay=line.copy(), constant=np.empty(size, dtype=np.bool_),
        )  # fmt: skip

    def keep(self, out: slice, y: Floats, state: Floats, lam: Floats, law: _Predictive) -> None:
        """Keep what one step predicted."""
        self.y[:, out], self.before[:, out], self.unit[out] = y, state[PREVIOUS], state[UNIT]
        self.centre[:, :, out], self.scale[:, :, out] = law.centre, law.scale
        self.t[:, :, out], self.df[:, :, out] = law.t, law.df
        self.windows[out], self.decay[out] = state[WINDOWS], lam
        self.constant[out] = state[SQUARES.start] == 0


def score_then_learn(working: Floats, class_id: NDArray[np.int32], steps: list[Step], memory_ms: float) -> Verdicts:
    """Fold the steps into `working`, in place, and return the verdicts of all of them, one after the other.

    Args:
        working: State of all gauges, shape (WIDTH, n).
        class_id: Class of each, shape (n,).
        steps: Windows in order.
        memory_ms: Memory.
    """
    trace = _Trace.empty(steps[-1].out.stop)
    for step in steps:
        _step(working, class_id, step, memory_ms, trace)
    tails = student_tail(trace.t, trace.df)
    weights = _evidence_weights(working, steps, trace)
    return _verdicts(trace, tails, weights)


def _step(working: Floats, class_id: NDArray[np.int32], step: Step, memory_ms: float, trace: _Trace) -> None:
    state = working[:, step.at]
    value = np.clip(step.value, -_LARGEST, _LARGEST)
    fresh = np.isnan(state[LAST_MS])
    if fresh.any():
        at = np.arange(working.shape[1])[step.at]
        state[OWN:, fresh] = _first(working, class_id, at[fresh], value[fresh], step.weight[fresh])
        state[WINDOWS, fresh] = 0.0
    _predict_and_learn(state, value, step, memory_ms, trace)
    if not isinstance(step.at, slice):
        working[:, step.at] = state


def _predict_and_learn(state: Floats, value: Floats, step: Step, memory_ms: float, trace: _Trace) -> None:
    size = len(value)
    lam = layout.forgetting(state[LAST_MS], step.end_ms, memory_ms)
    _forget(state, lam)
    y = np.stack([value, np.arcsinh(value / state[UNIT])])
    share = np.clip(step.weight / state[SAMPLES], _LEAST_SHARE, 1.0)
    mean, squares = _grid(state, MEAN), _grid(state, SQUARES)
    weight, freedom = state[MEAN_WEIGHT], _freedom_of(state)
    unsure = 1 / share + state[MEAN_WEIGHT2] / np.maximum(weight * weight, _TINY)
    floor = _RESOLUTION * np.abs(mean[:, LEVEL])
    variance = squares / np.maximum(state[SPREAD_WEIGHT], _TINY) + (floor * floor)[:, None]
    deviation = np.sqrt(np.maximum(variance * unsure, _TINY))
    heavy = _tail_weight(_grid(state, FOURTHS), squares, state[SPREAD_WEIGHT], freedom)
    scale = deviation * np.sqrt(1 - 2 * heavy)
    error = np.stack([y, y - state[PREVIOUS]], axis=1) - mean
    t = np.clip(error / scale, -_LARGEST, _LARGEST)
    trace.keep(step.out, y, state, lam, _Predictive(mean, scale, t, freedom / (1 + freedom * heavy)))

    # The first change of a constant is learned in full: there is no spread yet to measure it by.
    limit = np.where(squares > 0, layout.settled_limit(state[WINDOWS]) * deviation, np.inf)
    taught = _learn(state, np.clip(error, -limit, limit), unsure, share)
    state[PREVIOUS], state[LAST_MS] = y, step.end_ms
    state[WINDOWS] += 1.0
    state[SAMPLES] += (step.weight - state[SAMPLES]) / np.minimum(state[WINDOWS], layout.SETTLED)
    # A change that one of the two scales explains is none.
    z = np.where(np.abs(t[0]) < np.abs(t[1]), t[0], t[1]) * taught
    changed = drift.watch(state[SUMS].reshape(drift.SUMS, 2, size), z)
    if changed.any():
        _cut(state, changed)


def _grid(state: Floats, columns: slice) -> Floats:
    """Return a view of shape (scale, level or difference, k)."""
    return state[columns].reshape(2, 2, -1)


def _forget(state: Floats, lam: Floats) -> None:
    state[[WINDOWS]] *= lam
    for columns in (MEAN_WEIGHT, SPREAD_WEIGHT, SQUARES, FOURTHS):
        state[columns] *= lam
    # Kish's sums of squared weights; a long gap makes the past count for less, not merely fade.
    lam2 = lam * np.maximum(lam, _GAP)
    state[MEAN_WEIGHT2] *= lam2
    state[SPREAD_WEIGHT2] *= lam2


def _learn(state: Floats, error: Floats, unsure: Floats, share: Floats) -> Floats:
    """Learn one window; return where it taught something about the spread, shape (2, k)."""
    counts = np.stack([np.ones_like(share), (state[WINDOWS] > 0).astype(np.float64)])
    weight = state[MEAN_WEIGHT]
    taught = np.where(weight > 0, counts, 0.0)
    square = error * error / unsure * taught
    squares, fourths, mean = _grid(state, SQUARES), _grid(state, FOURTHS), _grid(state, MEAN)
    squares += square
    fourths += square * square
    state[SPREAD_WEIGHT] += taught
    state[SPREAD_WEIGHT2] += taught
    gain = share * counts
    weight += gain
    state[MEAN_WEIGHT2] += share * gain
    mean += error * (gain / np.maximum(weight, _TINY))
    return taught


def _freedom_of(state: Floats) -> Floats:
    """Return Kish's degrees of freedom of level and difference, shape (2, k)."""
    weight = state[SPREAD_WEIGHT]
    return np.asarray(weight * weight / np.maximum(state[SPREAD_WEIGHT2], _TINY))


def _tail_weight(fourths: Floats, squares: Floats, weight: Floats, freedom: Floats) -> Floats:
    """Return 1 / df of the Student t that has the residuals' kurtosis 3 + 6 / (df - 4); 0 where they look normal."""
    kurtosis = fourths * weight / np.maximum(squares * squares, _TINY)
    # Chance alone moves the kurtosis of n normal residuals by sqrt(24 / n).
    excess = np.maximum(kurtosis - 3 - np.sqrt(24 / np.maximum(freedom, 1.0)), 0.0)
    return np.asarray(excess / (4 * excess + 6))


def _cut(state: Floats, changed: NDArray[np.bool_]) -> None:
    """Keep what is known at the weight of a few windows."""
    left = drift.WEIGHT_LEFT
    for columns, columns2 in ((MEAN_WEIGHT, MEAN_WEIGHT2), (SPREAD_WEIGHT, SPREAD_WEIGHT2)):
        factor = np.where(changed, np.minimum(1.0, left / np.maximum(state[columns], _TINY)), 1.0)
        state[columns] *= factor
        state[columns2] = np.where(factor < 1, state[columns], state[columns2])
    squares, fourths = _grid(state, SQUARES), _grid(state, FOURTHS)
    squares *= factor
    fourths *= factor
    state[WINDOWS] = np.where(changed.any(axis=0), np.minimum(state[WINDOWS], left), state[WINDOWS])


# ---- cold start ------------------------------------------------------------------------------------------------------


def _first(working: Floats, class_id: NDArray[np.int32], new: Rows, value: Floats, samples: Floats) -> Floats:
    """Return the state of new series before their first value: what their class knows, widely; else nothing."""
    known = layout.siblings(working, class_id, new)
    count = known.count()
    enough = (count >= layout.SIBLINGS)[known.newcomer]
    divisor = np.maximum(count, 1.0)
    columns = working[:, known.columns]
    state = np.zeros((layout.WIDTH, len(new)))
    unit = _first_unit(known, columns, count, value)
    y = np.stack([value, np.arcsinh(value / unit)])
    state[UNIT], state[SAMPLES], state[PREVIOUS] = unit, samples, y
    state[MEAN] = np.stack([y, np.zeros_like(y)], axis=1).reshape(4, -1)
    if enough.any():
        mean, variance = _moments(known, columns[MEAN], divisor)
        logs = np.log(np.maximum(_variance(columns), _TINY))
        centre, noise = _moments(known, logs.reshape(4, -1), divisor)
        freedom = _freedom(noise).reshape(2, 2, -1).min(axis=0)
        spread = np.exp(centre)
        between = np.maximum(variance.reshape(2, 2, -1) + (_RESOLUTION * mean.reshape(2, 2, -1)) ** 2, _TINY)
        weight = np.clip(spread.reshape(2, 2, -1) / between, 1e-3, PRIOR_WINDOWS).min(axis=0)
        prior = np.zeros((layout.WIDTH, known.classes))
        prior[MEAN], prior[SQUARES] = mean, (spread.reshape(2, 2, -1) * freedom).reshape(4, -1)
        prior[MEAN_WEIGHT] = prior[MEAN_WEIGHT2] = weight
        prior[SPREAD_WEIGHT] = prior[SPREAD_WEIGHT2] = freedom
        prior[FOURTHS] = 3 * (spread.reshape(2, 2, -1) ** 2 * freedom).reshape(4, -1)
        for part in (MEAN, SQUARES, FOURTHS, MEAN_WEIGHT, MEAN_WEIGHT2, SPREAD_WEIGHT, SPREAD_WEIGHT2):
            state[part] = np.where(enough, prior[part][:, known.newcomer], state[part])
    return state[OWN:]


def _first_unit(known: layout.Siblings, columns: Floats, count: Floats, value: Floats) -> Floats:
    """Return the unit of the class; of a new class, a share of its first values."""
    total = np.bincount(known.newcomer, np.abs(value), known.classes)
    own = _UNIT_SHARE * total / np.maximum(np.bincount(known.newcomer, minlength=known.classes), 1)
    own = np.where(own > 0, np.clip(own, 1e-90, 1e90), 1.0)
    shared = np.exp(known.total(np.log(columns[UNIT])) / np.maximum(count, 1.0))
    return np.where(count > 0, shared, own)[known.newcomer]


def _moments(known: layout.Siblings, values: Floats, count: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance over the known series of each class."""
    mean = known.total(values) / count
    deviation = values - mean[:, known.group]
    return mean, known.total(deviation * deviation) / np.maximum(count - 1, 1.0)


def _variance(columns: Floats) -> Floats:
    size = columns.shape[1]
    squares = columns[SQUARES].reshape(2, 2, size) / np.maximum(columns[SPREAD_WEIGHT], _TINY)
    floor = _RESOLUTION * np.abs(columns[MEAN].reshape(2, 2, size)[:, LEVEL])
    return np.asarray(squares + (floor * floor)[:, None])


def _freedom(variance_of_log: Floats) -> Floats:
    """Return the degrees of freedom with which a class knows the variance: trigamma(df / 2) = variance of ln s2."""
    noise = np.maximum(variance_of_log, _HETEROGENEITY)
    return np.asarray(np.minimum((1 + np.sqrt(1 + 2 * noise)) / noise, PRIOR_WINDOWS))


# ---- verdicts --------------------------------------------------------------------------------------------------------


def _evidence_weights(working: Floats, steps: list[Step], trace: _Trace) -> Floats:
    """Return ln of the weights of both scales before each step, shape (2 scales, 2, T); learn the evidence."""
    log_density = student_log_density(trace.t, np.maximum(trace.df, 1e-2)) - np.log(trace.scale)
    stretch = -np.log(np.hypot(trace.y[0], trace.unit))
    gained = np.clip(log_density[1] - log_density[0] + stretch, -_EVIDENCE_STEP, _EVIDENCE_STEP)
    gained = np.where(trace.df[0] > 0, gained, 0.0)
    before = np.empty_like(gained)
    for step in steps:
        evidence = working[EVIDENCE, step.at] * trace.decay[step.out]
        before[:, step.out] = evidence
        working[EVIDENCE, step.at] = evidence + gained[:, step.out]
    return np.asarray(np.stack([special.log_expit(-before), special.log_expit(before)]), np.float64)


def _verdicts(trace: _Trace, tails: Floats, log_weights: Floats) -> Verdicts:
    ln_tails = tails * np.log(10.0)
    chosen = log_weights[1] > log_weights[0]
    side = np.where(chosen, trace.t[1], trace.t[0]) >= 0
    same = (trace.t >= 0) == side
    parts = np.where(same, ln_tails, np.log1p(-np.exp(ln_tails))) + log_weights
    mixed = np.logaddexp(parts[0], parts[1])
    # Above 1/2 the other side is the smaller one.
    mixed = np.where(mixed > -np.log(2.0), np.log1p(-np.exp(np.minimum(mixed, -1e-16))), mixed)
    log10_p = np.where(trace.df[0] > 0, np.minimum(mixed / np.log(10.0) + LOG10_2, 0.0), 0.0)
    log10_p = np.where(trace.constant, np.maximum(log10_p, _first_change(trace)), log10_p)
    both = np.minimum(log10_p[LEVEL], log10_p[DIFFERENCE]) + LOG10_2
    speaks = log10_p[DIFFERENCE] < log10_p[LEVEL]
    expected, lower, upper = _interval(trace, chosen, speaks)
    return Verdicts(
        log10_p=np.clip(both, LOG10_P_FLOOR, 0.0),
        expected=expected,
        lower=lower,
        upper=upper,
        direction=np.where(trace.y[0] >= np.nan_to_num(expected, nan=-np.inf), 1, -1).astype(np.int8),
        observations=trace.windows,
    )


def _first_change(trace: _Trace) -> Floats:
    """Return log10 p of the first change of a constant: a rate of changes never seen, and a jump of its size.

    Rate ~ Beta(0.05, 1): after n constant windows a change has the probability 0.05 / (n + 1.05). The jump, relative to
    the level, is half-Cauchy.
    """
    rate = _CHANGE / (trace.windows + 1 + _CHANGE)
    level = np.maximum(np.abs(trace.centre[0, LEVEL]), 1 / _LARGEST)
    jump = np.minimum(np.abs(trace.y[0] - trace.centre[0, LEVEL]) / level, 1e12)
    return np.where(jump > _RESOLUTION, np.log10(rate * np.arctan2(1.0, jump) * (2 / np.pi)), 0.0)


def _interval(trace: _Trace, logarithmic: NDArray[np.bool_], differs: NDArray[np.bool_]) -> tuple[Floats, ...]:
    """Return median and 99 % interval of the predictive that speaks: its scale, level or difference."""
    kind = differs.astype(np.intp)
    at = np.arange(len(kind))
    scale = logarithmic[kind, at].astype(np.intp)
    df = trace.df[scale, kind, at]
    centre = trace.centre[scale, kind, at] + np.where(differs, trace.before[scale, at], 0.0)
    half = trace.scale[scale, kind, at] * np.interp(1 / np.maximum(df, 1.0), _GRID, _CRITICAL)
    known = df > 0
    return tuple(_value(centre + step * half, scale, trace.unit, known) for step in (0.0, -1.0, 1.0))


def _value(y: Floats, scale: Rows, unit: Floats, known: NDArray[np.bool_]) -> Floats:
    value = np.where(scale == 1, unit * np.sinh(np.clip(y, -200.0, 200.0)), y)
    return np.where(known, value, np.nan)
