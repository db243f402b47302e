"""From series to resources: one valid p per resource, its contributors, and a calibration of its tail.

Combination (Cauchy; Liu and Xie, 2020), robust to dependence between series:

    T = mean tan((1/2 - p_i) pi),   p = 1/2 - arctan(T) / pi

evaluated on logarithms, so that p far below the smallest double stay comparable. Calibration: excesses of S = -ln p
over a high quantile u, pooled over resources, follow a generalised Pareto distribution, fitted by probability-weighted
moments (Hosking and Wallis, 1987):

    p_calibrated = rate (1 + xi (S - u) / sigma)^(-1 / xi)

Before it, breadth: many mildly surprising series are evidence that the Cauchy combination does not see. The number of
series with p < 1e-2 is tested against its learned distribution, negative binomial with pooled rate and overdispersion,
and the smaller of the two p counts twice (Bonferroni).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from models.interface import LOG10_P_FLOOR, Floats, Rows
from models.tails import LOG10_2, negative_binomial_upper

LAYOUT_VERSION: Final = 1

_LN10: Final = float(np.log(10.0))
_LOG10_PI: Final = float(np.log10(np.pi))
#: Discrete p of exactly 1 must not outweigh evidence: tan(-pi / 2) is minus infinity.
_LARGEST_P: Final = 0.99
#: Below this, cot(pi p) = 1 / (pi p) to all digits.
_SMALL_LOG10: Final = -8.0

_SCORE_AT: Final = np.array([0.0, 2.0, 4.0, 6.0, 8.0, 12.0])
_SCORE: Final = np.array([0.0, 0.0, 25.0, 50.0, 75.0, 100.0])


def score_0_100(log10_p: Floats) -> Floats:
    """Return the score of p: 1e-2 -> 0, 1e-4 -> 25, 1e-6 -> 50, 1e-8 -> 75, 1e-12 -> 100, linear in log p between."""
    return np.asarray(np.interp(-np.asarray(log10_p, dtype=np.float64), _SCORE_AT, _SCORE))


def combine(log10_p: Floats, first: Rows, last: Rows) -> tuple[Floats, Floats]:
    """Combine the p of each group's members.

    Args:
        log10_p: Of the members, shape (n,).
        first: Where each group begins in `log10_p`, shape (g,).
        last: Where it ends (exclusive); groups do not overlap.

    Returns:
        log10 of the combined p, shape (g,), 0 for a group without members; and each member's share of its group's
        evidence, in [0, 1], shape (n,), adding up to 1 per group.
    """
    size = np.asarray(last) - np.asarray(first)
    combined, share = np.zeros(len(size)), np.zeros(len(log10_p))
    filled = np.flatnonzero(size > 0)
    if len(filled):
        group = np.repeat(np.arange(len(filled)), size[filled])
        at = _ranges(np.asarray(first)[filled], size[filled])
        combined[filled], share[at] = _cauchy(log10_p[at], group, size[filled])
    return combined, share


def _ranges(first: Rows, size: Rows) -> Rows:
    """Return first[0], first[0] + 1, .., first[1], ..."""
    offset = np.repeat(first - (np.cumsum(size) - size), size)
    return np.asarray(np.arange(len(offset)) + offset)


def _cauchy(log10_p: Floats, group: Rows, size: Rows) -> tuple[Floats, Floats]:
    starts = np.cumsum(size) - size
    smallest = np.minimum.reduceat(log10_p, starts)
    scaled = _scaled_cotangent(log10_p, smallest[group])
    mean = np.bincount(group, scaled, len(size)) / size
    # mean = T 10^smallest: where that is not small, T itself is not large.
    deep = (smallest < _SMALL_LOG10) & (mean > 0)
    log10_deep = smallest - _LOG10_PI - np.log10(np.where(deep, mean, 1.0))
    plain = mean * np.power(10.0, -np.maximum(smallest, _SMALL_LOG10))
    # 1/2 - arctan(T) / pi loses its digits for large T.
    p = np.where(plain > 0, np.arctan2(1.0, np.maximum(plain, 1e-12)) / np.pi, 0.5 - np.arctan(plain) / np.pi)
    combined = np.where(deep, log10_deep, np.log10(np.maximum(p, 1e-300)))
    evidence = np.maximum(scaled, 0.0)
    total = np.bincount(group, evidence, len(size))
    share = np.where(total[group] > 0, evidence / np.where(total > 0, total, 1.0)[group], 1 / size[group])
    return np.clip(combined, LOG10_P_FLOOR, 0.0), share


def _scaled_cotangent(log10_p: Floats, smallest: Floats) -> Floats:
    """Return cot(pi p) 10^smallest."""
    p = np.minimum(np.power(10.0, np.maximum(log10_p, _SMALL_LOG10)), _LARGEST_P)
    plain = np.power(10.0, smallest) / np.tan(np.pi * p)
    return np.asarray(np.where(log10_p < _SMALL_LOG10, np.power(10.0, smallest - log10_p) / np.pi, plain))


# ---- calibration -----------------------------------------------------------------------------------------------------

#: Share of resource-windows above the threshold.
_RATE: Final = 0.02
_KEPT: Final = 512
_NOMINAL: Final = float(-np.log(_RATE))
_PRIOR_SHAPE: Final = 0.1
_PRIOR_WEIGHT: Final = 200.0
_MOST_SHAPE: Final = 0.5
#: An anomaly is learned as if its excess were this many means.
_LEARNED_MEANS: Final = 6.0
_LEAST_SHAPE: Final = 1e-3
_SLOWEST_STEP: Final = 0.001
_FIRST_COUNT: Final = 50_000.0


#: A surprise below this p is never learned as the way things are, and the threshold never leaves this range.
_LEARNED_DOWN_TO: Final = float(-np.log(1e-4))
_MOST_THRESHOLD: Final = 1.5 * _NOMINAL
_LEAST_THRESHOLD: Final = 0.5

#: A series with p at or below this is surprising.
SURPRISING_LOG10_P: Final = -2.0
_BREADTH_RATE: Final = 1e-2
_BREADTH_DISPERSION: Final = 0.5
#: Weight of these beliefs, and memory, in resource-windows.
_BREADTH_PRIOR: Final = 50.0
_BREADTH_MEMORY: Final = 20_000.0
_LEARNED_DEVIATIONS: Final = 3.0


def _nominal() -> Floats:
    return np.array([_NOMINAL, 0.0, 0.0, 1.0, _PRIOR_SHAPE])


def _nominal_breadth() -> Floats:
    return np.array([0.0, 0.0, 0.0, 0.0])


@dataclass
class TailState:
    """Calibration of the resources' evidence, pooled.

    Attributes:
        numbers: Threshold u, values seen, excesses seen, sigma, xi; shape (5,).
        breadth: Series tested, surprising series, sum of the dispersion's moment, its weight; decayed, shape (4,).
        excesses: The latest excesses, a ring, shape (512,).
    """

    numbers: Floats = field(default_factory=_nominal)
    breadth: Floats = field(default_factory=_nominal_breadth)
    excesses: Floats = field(default_factory=lambda: np.zeros(_KEPT))

    def to_bytes(self) -> bytes:
        """Return the state as bytes."""
        head = np.array([LAYOUT_VERSION], "<i8").tobytes()
        return head + b"".join(part.astype("<f8").tobytes() for part in (self.numbers, self.breadth, self.excesses))

    @classmethod
    def from_bytes(cls, blob: bytes | bytearray | memoryview) -> TailState:
        """Read what `to_bytes` wrote.

        Raises:
            ValueError: It was written in another layout.
        """
        version = int(np.frombuffer(blob, "<i8", 1)[0])
        if version != LAYOUT_VERSION:
            message = f"calibration has layout {version}, this code reads {LAYOUT_VERSION}: start a new generation"
            raise ValueError(message)
        values = np.frombuffer(blob, "<f8", offset=8).astype(np.float64)
        return cls(values[:5], values[5:9], values[9:])


def surprising(log10_p: Floats, first: Rows, last: Rows) -> Rows:
    """Count each group's members with p <= 1e-2, shape (g,); arguments as those of `combine`."""
    total = np.concatenate([[0], np.cumsum(np.asarray(log10_p) <= SURPRISING_LOG10_P)])
    return np.asarray(total[last] - total[first])


def broaden(
    state: TailState, log10_p: Floats, hits: Rows, size: Rows, learn: NDArray[np.bool_] | None = None
) -> Floats:
    """Add the evidence of breadth to one window's resources, by what was known before it; then learn it, in place.

    Args:
        state: State.
        log10_p: Of the resources, as `combine` returned it, shape (n,).
        hits: Their surprising series, as `surprising` returned it, shape (n,).
        size: Their series in the window, shape (n,).
        learn: Which of them to learn from; all by default.

    Returns:
        log10 of a p valid for both kinds of evidence, shape (n,).
    """
    tested, found, excess, weight = state.breadth.tolist()
    rate = (found + _BREADTH_PRIOR * _BREADTH_RATE) / (tested + _BREADTH_PRIOR)
    dispersion = max((excess + _BREADTH_PRIOR * _BREADTH_DISPERSION) / (weight + _BREADTH_PRIOR), 1e-3)
    counts = np.asarray(hits, dtype=np.float64)
    mean = np.maximum(np.asarray(size) * rate, 1e-9)
    shape = np.full(len(mean), 1 / dispersion)
    broad = negative_binomial_upper(counts, shape, mean)
    both = np.minimum(np.minimum(log10_p, broad) + LOG10_2, 0.0)
    chosen = np.asarray(size) > 0 if learn is None else learn & (np.asarray(size) > 0)
    _learn_breadth(state, counts[chosen], np.asarray(size, dtype=np.float64)[chosen], mean[chosen], dispersion)
    return np.where(np.asarray(size) > 0, both, log10_p)


def _learn_breadth(state: TailState, hits: Floats, size: Floats, mean: Floats, dispersion: float) -> None:
    variance = mean + mean * mean * dispersion
    learned = np.minimum(hits, mean + _LEARNED_DEVIATIONS * np.sqrt(variance) + 1.0)
    excess = (learned - mean) ** 2 - mean
    # Weighted by mean^2: the moment estimate of small resources is mostly noise.
    trust = mean * mean / (1 + mean * mean)
    moment = np.clip(excess / np.maximum(mean * mean, 1e-12), -1.0, 20.0) * trust
    state.breadth *= np.exp(-len(hits) / _BREADTH_MEMORY)
    state.breadth += [np.add.reduce(part) for part in (size, learned, moment, trust)]


def calibrate(state: TailState, log10_p: Floats, learn: NDArray[np.bool_] | None = None) -> Floats:
    """Calibrate one window's resources by what was known before it, then learn it; the state changes in place.

    Args:
        state: State.
        log10_p: Combined p of the resources judged in the window, in a fixed order, shape (n,).
        learn: Which of them to learn from; all by default. Leave out resources in a known incident.
    """
    surprise = -_LN10 * np.asarray(log10_p)
    threshold, _, _, sigma, shape = state.numbers.tolist()
    inside = surprise * (_NOMINAL / threshold)
    over = np.maximum(surprise - threshold, 0.0)
    beyond = _NOMINAL + np.log1p(shape * over / sigma) / shape
    calibrated = np.where(over > 0, beyond, inside)
    ordinary = calibrated < _LEARNED_DOWN_TO
    _learn(state, surprise[ordinary if learn is None else ordinary & learn])
    return np.asarray(np.clip(-calibrated / _LN10, LOG10_P_FLOOR, 0.0))


def _learn(state: TailState, surprise: Floats) -> None:
    if not len(surprise):
        return
    threshold, seen, kept, sigma, shape = state.numbers.tolist()
    excess = surprise[surprise > threshold] - threshold
    mean = sigma / (1 - shape)
    excess = np.minimum(excess, _LEARNED_MEANS * mean)
    places = (int(kept) + np.arange(len(excess))) % _KEPT
    state.excesses[places[-_KEPT:]] = excess[-_KEPT:]
    # The step falls as evidence grows, and stays large enough to follow.
    step = mean * max(1 / (_RATE * (seen + _FIRST_COUNT)), _SLOWEST_STEP)
    move = float(np.clip(step * (len(excess) - _RATE * len(surprise)), -mean, mean))
    threshold = min(max(threshold + move, _LEAST_THRESHOLD), _MOST_THRESHOLD)
    state.numbers[:3] = [threshold, seen + len(surprise), kept + len(excess)]
    if len(excess):
        state.numbers[3:] = _fit(state.excesses[: min(int(kept) + len(excess), _KEPT)])


def _fit(excesses: Floats) -> tuple[float, float]:
    """Return sigma and xi by probability-weighted moments, drawn towards an exponential with mean 1."""
    size = len(excesses)
    ordered = np.sort(excesses)
    mean = float(np.add.reduce(ordered)) / size
    above = 1 - (np.arange(size) + 0.65) / size
    weighted = float(np.add.reduce(above * ordered)) / size
    shape = _PRIOR_SHAPE if mean <= 2 * weighted else 2 - mean / (mean - 2 * weighted)
    trust = size / (size + _PRIOR_WEIGHT)
    shape = min(max(trust * shape + (1 - trust) * _PRIOR_SHAPE, _LEAST_SHAPE), _MOST_SHAPE)
    # Given xi, the mean excess sigma / (1 - xi) settles sigma.
    centre = trust * mean + (1 - trust)
    return max(centre * (1 - shape), 1e-3), shape
