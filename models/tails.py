"""Predictive tails as decimal logarithms, exact where doubles reach and asymptotic beyond: deep tails stay comparable.

All functions are elementwise over arrays; the result is <= 0 and finite.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import special

from models.interface import LOG10_P_FLOOR, Floats

_LN10: Final = float(np.log(10.0))
LOG10_2: Final = float(np.log10(2.0))
#: Below this the exact functions lose digits or underflow.
_SMALLEST_EXACT: Final = 1e-280
#: Counts beyond this are not told apart: the gamma functions would cancel.
_LARGEST_COUNT: Final = 1e14
#: Tails of a beta-binomial up to these lengths are added up term by term, padded to the next length.
_TERMS: Final = (32, 256, 1024)


def student_tail(t: Floats, df: Floats) -> Floats:
    """Return log10 P(T > |t|) of Student's t; -log10(2) at 0 and where `df` is 0 (nothing is known)."""
    df = np.broadcast_to(np.maximum(df, 1e-2), t.shape)
    tail = special.stdtr(df, -np.abs(t))
    deep = tail < _SMALLEST_EXACT
    log10_tail = np.log10(np.where(deep, 1.0, tail))
    if deep.any():
        far, nu = np.abs(t[deep]), df[deep]
        log10_tail[deep] = (student_log_density(far, nu) + np.log(far / nu + 1 / far)) / _LN10
    return np.maximum(log10_tail, LOG10_P_FLOOR)


def student_log_density(t: Floats, df: Floats) -> Floats:
    """Return ln of the density of Student's t with scale 1."""
    half = df / 2
    constant = special.gammaln(half + 0.5) - special.gammaln(half) - 0.5 * np.log(np.pi * df)
    return np.asarray(constant - (half + 0.5) * np.log1p(t * t / df))


def negative_binomial_log_pmf(y: Floats, shape: Floats, mean: Floats) -> Floats:
    """Return ln P(Y = y) of the negative binomial; variance = mean + mean^2 / shape."""
    share = mean / (mean + shape)
    coefficient = -special.betaln(shape, y + 1) - np.log(shape + y)
    return np.asarray(coefficient + shape * np.log1p(-share) + special.xlogy(y, share))


def negative_binomial_two_sided(y: Floats, shape: Floats, mean: Floats) -> Floats:
    """Return log10 of the two-sided mid-p, 2 min(P(Y < y) + P(y)/2, P(Y > y) + P(y)/2).

    The mid-p is deterministic: equal inputs give equal p, which a randomised p would not.

    Args:
        y: Counts.
        shape: Positive.
        mean: Positive.
    """
    y = np.minimum(y, _LARGEST_COUNT)
    share = mean / (mean + shape)
    above = y >= mean
    # P(Y >= y) = I_share(y, shape); P(Y <= y) = I_(1-share)(shape, y + 1). One call does both sides.
    first = np.where(above, np.maximum(y, 1e-12), shape)
    second = np.where(above, shape, y + 1)
    tail = np.asarray(special.betainc(first, second, np.where(above, share, shape / (mean + shape))), np.float64)
    log_pmf = negative_binomial_log_pmf(y, shape, mean)
    log10_p = _two_sided_mid(tail, log_pmf)
    deep = tail < _SMALLEST_EXACT
    if deep.any():
        ratio = np.where(above, (shape + y) / (y + 1) * share, y / ((shape + y) * share))[deep]
        rest = log_pmf[deep] - np.log(np.clip(1 - ratio, 1e-12, 1.0))
        log10_p[deep] = rest / _LN10 + LOG10_2
    return np.clip(log10_p, LOG10_P_FLOOR, 0.0)


def negative_binomial_upper(y: Floats, shape: Floats, mean: Floats) -> Floats:
    """Return log10 of the upper mid-p, P(Y > y) + P(y) / 2; arguments as in `negative_binomial_two_sided`."""
    share = mean / (mean + shape)
    log_pmf = negative_binomial_log_pmf(y, shape, mean)
    tail = np.where(y > 0, special.betainc(np.maximum(y, 1e-12), shape, share), 1.0)
    upper = np.log10(np.maximum(tail - np.minimum(np.exp(np.minimum(log_pmf, 0.0)), tail) / 2, 1e-300))
    ratio = np.clip((shape + y) / (y + 1) * share, 0.0, 1 - 1e-12)
    deep = (log_pmf - np.log1p(-ratio)) / _LN10
    return np.clip(np.where(tail < _SMALLEST_EXACT, deep, upper), LOG10_P_FLOOR, 0.0)


def _two_sided_mid(tail: Floats, log_pmf: Floats) -> Floats:
    """Return log10(2 min(m, 1 - m)) with m = tail - pmf / 2."""
    # The pmf is part of the tail; rounding must not make it larger.
    mid = tail - np.minimum(np.exp(np.minimum(log_pmf, 0.0)), tail) / 2
    return np.asarray(np.log10(np.maximum(2 * np.minimum(mid, 1 - mid), 1e-300)))


def beta_binomial_two_sided(y: Floats, trials: Floats, a: Floats, b: Floats) -> Floats:
    """Return log10 of the two-sided mid-p of the beta-binomial.

    A moment z decides: within two deviations a beta with the same moments stands in for the sum over the probabilities;
    beyond, up to 1,024 terms of the tail are added up. Only longer tails keep the beta.

    Args:
        y: Successes, 0 <= y <= trials.
        trials: At least 1.
        a: Positive.
        b: Positive.
    """
    mean = trials * a / (a + b)
    spread = np.sqrt(mean * (1 - a / (a + b)) * (a + b + trials) / (a + b + 1))
    log10_p = _beta_stand_in(y, trials, mean, spread)
    above = y >= mean
    terms = np.where(above, trials - y, y) + 1
    shorter = 0
    for longest in _TERMS:
        exact = (np.abs(y - mean) > 2 * spread) & (terms > shorter) & (terms <= longest)
        if exact.any():
            log10_p[exact] = _beta_binomial_sum(y[exact], trials[exact], a[exact], b[exact], above[exact], longest)
        shorter = longest
    return np.clip(log10_p, LOG10_P_FLOOR, 0.0)


def _beta_stand_in(y: Floats, trials: Floats, mean: Floats, spread: Floats) -> Floats:
    """Return log10 of the two-sided p of y + 1/2 - 1/2 under a beta on (-1/2, trials + 1/2) with the same moments."""
    length = trials + 1
    centre = (mean + 0.5) / length
    variance = np.maximum((spread * spread + 1 / 12) / (length * length), 1e-300)
    precision = np.maximum(centre * (1 - centre) / variance - 1, 1e-3)
    a, b = centre * precision, (1 - centre) * precision
    at = (y + 0.5) / length
    above = at >= centre
    tail = special.betainc(np.where(above, b, a), np.where(above, a, b), np.where(above, 1 - at, at))
    return np.asarray(np.log10(np.maximum(2 * np.minimum(tail, 1 - tail), 1e-300)))


def beta_binomial_log_pmf(y: Floats, trials: Floats, a: Floats, b: Floats) -> Floats:
    """Return ln P(Y = y) of the beta-binomial."""
    choose = -np.log1p(trials) - special.betaln(trials - y + 1, y + 1)
    return np.asarray(choose + special.betaln(y + a, trials - y + b) - special.betaln(a, b))


def _beta_binomial_sum(y: Floats, trials: Floats, a: Floats, b: Floats, above: NDArray[np.bool_], terms: int) -> Floats:
    """Return log10(2 mid-p) of the side of y, its terms added up."""
    steps = np.arange(terms)
    values = np.where(above[:, None], y[:, None] + steps, y[:, None] - steps)
    inside = (values >= 0) & (values <= trials[:, None])
    clipped = np.clip(values, 0, trials[:, None])
    logs = beta_binomial_log_pmf(clipped, trials[:, None], a[:, None], b[:, None])
    logs = np.where(inside, logs, -np.inf)
    logs[:, 0] -= np.log(2.0)
    highest = logs.max(axis=1)
    total = np.exp(logs - highest[:, None]).sum(axis=1)
    return np.asarray((highest + np.log(total)) / _LN10 + LOG10_2)
