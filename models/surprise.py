"""Surprise: -log10 of the two-sided predictive tail probability of one value, compiled, finite however deep the tail.

Discrete distributions use the mid-p, 2 min(P(Y < y) + P(y)/2, P(Y > y) + P(y)/2): deterministic, so that equal logs
give equal bytes, which a randomised p would not. Their tails are added up term by term, away from the mean.
"""

from __future__ import annotations

import math
from typing import Final

from models.compiled import compiled, inlined

#: Largest surprise told apart.
MOST: Final = 300.0
_LN10: Final = math.log(10.0)
_LOG10_2: Final = math.log10(2.0)
_SQRT_HALF: Final = math.sqrt(0.5)
_LN_SQRT_HALF_PI: Final = 0.5 * math.log(math.pi / 2)
#: Beyond this, Mills' ratio 1 / z has all the digits that matter.
_DEEP_Z: Final = 25.0
#: Terms of a discrete tail; the rest is bounded by a geometric series.
_TERMS: Final = 4_000
_NEGLIGIBLE: Final = 1e-16
#: Distributions wider than this are continuous for our purposes.
_WIDE: Final = 1_000.0
_TINY: Final = 1e-300


@inlined
def of_normal(z: float) -> float:
    """Return -log10 P(|Z| >= |z|) of the standard normal."""
    size = abs(z)
    if size < _DEEP_Z:
        return -math.log10(math.erfc(size * _SQRT_HALF))
    return (0.5 * size * size + math.log(size) + _LN_SQRT_HALF_PI) / _LN10


@compiled
def of_student(t2: float, df: float) -> float:
    """Return -log10 P(|T| >= sqrt(t2)) of Student's t, by Wallace's normal approximation (1959), at most `MOST`.

    z = sqrt(df ln(1 + t2 / df)) (8 df + 1) / (8 df + 3)
    """
    z = math.sqrt(df * math.log1p(t2 / df)) * (8 * df + 1) / (8 * df + 3)
    return min(of_normal(z), MOST)


@compiled
def of_negative_binomial(y: float, shape: float, mean: float) -> float:
    """Return the surprise of a count; variance = mean + mean^2 / shape. All positive, y may be 0."""
    spread = math.sqrt(mean + mean * mean / shape)
    if spread > _WIDE or y > _WIDE * _WIDE:
        return _of_wide(y, mean, spread)
    share = mean / (mean + shape)
    log_pmf = (
        math.lgamma(shape + y) - math.lgamma(shape) - math.lgamma(y + 1)
        - shape * math.log1p(mean / shape) + (y * math.log(share) if y > 0 else 0.0)
    )  # fmt: skip
    term, total, ratio, k = 1.0, 1.0, 0.0, y
    for _ in range(_TERMS):
        if y >= mean:
            ratio = (shape + k) / (k + 1) * share
            k += 1
        else:
            ratio = k / ((shape + k - 1) * share) if k > 0 else 0.0
            k -= 1
        term *= ratio
        total += term
        if term <= _NEGLIGIBLE * total:
            break
    return _mid(log_pmf, total + _rest(term, ratio))


@compiled
def of_beta_binomial(y: float, trials: float, a: float, b: float) -> float:
    """Return the surprise of y successes in a number of trials whose share is Beta(a, b)."""
    total_ab = a + b
    mean = trials * a / total_ab
    spread = math.sqrt(mean * b / total_ab * (total_ab + trials) / (total_ab + 1))
    if spread > _WIDE or trials > _WIDE**3:
        return _of_wide(y, mean, spread)
    log_pmf = (
        math.lgamma(trials + 1) - math.lgamma(y + 1) - math.lgamma(trials - y + 1)
        + math.lgamma(y + a) + math.lgamma(trials - y + b) - math.lgamma(trials + total_ab)
        + math.lgamma(total_ab) - math.lgamma(a) - math.lgamma(b)
    )  # fmt: skip
    term, total, ratio, k = 1.0, 1.0, 0.0, y
    for _ in range(_TERMS):
        if y >= mean:
            ratio = (trials - k) / (k + 1) * (k + a) / (trials - k - 1 + b) if k < trials else 0.0
            k += 1
        else:
            ratio = k / (trials - k + 1) * (trials - k + b) / (k - 1 + a) if k > 0 else 0.0
            k -= 1
        term *= max(ratio, 0.0)
        total += term
        if term <= _NEGLIGIBLE * total:
            break
    return _mid(log_pmf, total + _rest(term, ratio))


@inlined
def _rest(term: float, ratio: float) -> float:
    """Return the sum of the terms not added up, as if they fell geometrically."""
    return term * ratio / (1 - ratio) if ratio < 1 else 0.0


@compiled
def _mid(log_pmf: float, total: float) -> float:
    """Return -log10(2 min(m, 1 - m)) of m = pmf (total - 1/2); `total` is the tail over the pmf of its first term."""
    log_mid = min(log_pmf, 0.0) + math.log(total - 0.5)
    if log_mid > -1.0:
        mid = min(math.exp(log_mid), 1.0)
        return max(-math.log10(max(2 * min(mid, 1 - mid), _TINY)), 0.0)
    return min(-log_mid / _LN10 - _LOG10_2, MOST)


@compiled
def _of_wide(y: float, mean: float, spread: float) -> float:
    """Return the surprise under a gamma of that mean and spread, by its cube root (Wilson and Hilferty, 1931)."""
    shape = (mean / spread) ** 2
    z = ((max(y, 0.0) / mean) ** (1 / 3) - 1 + 1 / (9 * shape)) * 3 * math.sqrt(shape)
    return min(of_normal(z), MOST)
