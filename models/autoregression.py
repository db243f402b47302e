"""Autoregression of order one around a running mean, by recursive least squares with forgetting.

    y_t = mu + a f + b g + e,   f = y_(t-1) - mu,   g = sd(y)
    q = 1 + [f g] P [f g]';   rho^2 = e^2 / q;   scale^2 = (V + 3 G) / (W + 3);   predictive: Student t, df <= 30

The coefficients learn bounded errors (Huber), so that one spike does not turn them; the scale learns all. P is
capped, so that a quiet stretch does not make the filter nervous. No single value more than doubles the sum of squares.
"""

from __future__ import annotations

import math
from typing import Final

from models.compiled import compiled
from models.interface import Floats
from models.normal import ALL_TIME, DUST
from models.surprise import of_student

MEAN, VARIANCE, VALUES, PREVIOUS, SLOPE, INTERCEPT = range(6)
_P_FF, _P_FG, _P_GG, _BOUNDED, _BOUNDED_WEIGHT, _SQUARES, ALL = range(6, 13)
#: Values before the coefficients are learned.
_SETTLED: Final = 20.0
_PRIOR: Final = 3.0
#: Errors are learned up to so many deviations.
_LEARNED_DEVIATIONS: Final = 4.0
#: One value changes the sum of squares by at most this share, and is always learned up to 5 deviations.
_MOST_SHARE: Final = 1.0
_LEAST_LEARNED: Final = 25.0
#: The level learns errors up to so many deviations: an absurd value must not blind the series.
_ABSURD_DEVIATIONS: Final = 30.0
_MOST_FREEDOM: Final = 30.0
_FIRST_P: Final = 0.01
_MOST_P: Final = 100.0
_MOST_Q: Final = 1e12


@compiled
def score_then_learn(s: Floats, at: int, y: float, lam: float, gap: float) -> tuple[float, float, float, float]:
    """Score a value, then learn it, in place.

    Args:
        s: State of the series.
        at: Where this autoregression stands in it.
        y: Value in units of the series.
        lam: Forgetting factor per window.
        gap: Usual intervals since the last value: the variance grows with it, and nothing is learned of the dynamics.

    Returns:
        Surprise; log evidence (up to a constant); prediction; its scale.
    """
    values = s[at + VALUES]
    if values == 0:
        s[at + SLOPE], s[at + PREVIOUS] = 1.0, y
        _learn_level(s, at, y, lam)
        return 0.0, 0.0, y, 0.0
    mean, variance = s[at + MEAN], s[at + VARIANCE]
    if values == _SETTLED:
        _restart(s, at)
    f, g = s[at + PREVIOUS] - mean, math.sqrt(variance)
    q = _uncertainty(s, at, f, g)
    if not 1.0 <= q < _MOST_Q:
        _restart(s, at)
        q = min(_uncertainty(s, at, f, g), _MOST_Q)
    centre = mean + s[at + SLOPE] * f + s[at + INTERCEPT] * g
    error = y - centre
    rho2 = error * error / q
    weight = (1 - lam ** min(values - 1, 2 * ALL_TIME)) / (1 - lam)
    scale2 = ((s[at + _SQUARES] + _PRIOR * s[at + ALL]) / (weight + _PRIOR) + DUST) * gap
    surprise, evidence = 0.0, 0.0
    if s[at + ALL] > 0 or values > 1:
        surprise = of_student(rho2 / scale2, min(max(weight - 1, 1.0), _MOST_FREEDOM))
        evidence = -0.5 * math.log(scale2) - 3 * math.log1p(rho2 / (5 * scale2))
    if gap <= 1:
        if values >= _SETTLED:
            _learn_dynamics(s, at, f, g, q, error, lam)
            rho2 = min(rho2, max(_MOST_SHARE * weight, _LEAST_LEARNED) * scale2)
        s[at + _SQUARES] = lam * s[at + _SQUARES] + rho2
        s[at + ALL] += (rho2 - s[at + ALL]) / min(values, ALL_TIME)
    if values >= _SETTLED:
        limit = _ABSURD_DEVIATIONS * math.sqrt(variance + DUST)
        _learn_level(s, at, min(max(y, mean - limit), mean + limit), lam)
        s[at + PREVIOUS] = y
    else:
        _learn_level(s, at, y, lam)
    return surprise, evidence, centre, math.sqrt(scale2 * q)


@compiled
def move(s: Floats, at: int, mean: float, y: float) -> None:
    """Go on around another mean, from the value y."""
    if s[at + VALUES] > 0:
        s[at + MEAN], s[at + PREVIOUS] = mean, y


@compiled
def _learn_level(s: Floats, at: int, y: float, lam: float) -> None:
    values = s[at + VALUES] + 1
    step = max(1 / values, 1 - lam)
    error = y - s[at + MEAN]
    s[at + MEAN] += step * error
    s[at + VARIANCE] += step * (error * error * (1 - step) - s[at + VARIANCE])
    s[at + VALUES], s[at + PREVIOUS] = values, y


@compiled
def _restart(s: Floats, at: int) -> None:
    """Start the filter anew."""
    certain = _FIRST_P / max(s[at + VARIANCE], DUST)
    s[at + _P_FF], s[at + _P_FG], s[at + _P_GG] = certain, 0.0, certain


@compiled
def _uncertainty(s: Floats, at: int, f: float, g: float) -> float:
    return float(1.0 + f * f * s[at + _P_FF] + 2 * f * g * s[at + _P_FG] + g * g * s[at + _P_GG])


@compiled
def _learn_dynamics(s: Floats, at: int, f: float, g: float, q: float, error: float, lam: float) -> None:
    bounded = error
    weight = s[at + _BOUNDED_WEIGHT]
    if weight > _SETTLED:
        limit = _LEARNED_DEVIATIONS * math.sqrt(s[at + _BOUNDED] / weight * q)
        bounded = min(max(error, -limit), limit)
    p_ff, p_fg, p_gg = s[at + _P_FF], s[at + _P_FG], s[at + _P_GG]
    gain_f, gain_g = (p_ff * f + p_fg * g) / q, (p_fg * f + p_gg * g) / q
    s[at + SLOPE] += gain_f * bounded
    s[at + INTERCEPT] += gain_g * bounded
    most = _MOST_P / max(s[at + VARIANCE], DUST)
    p_ff = min((p_ff - gain_f * gain_f * q) / lam, most)
    p_fg = (p_fg - gain_f * gain_g * q) / lam
    p_gg = min((p_gg - gain_g * gain_g * q) / lam, most)
    s[at + _P_FF], s[at + _P_FG], s[at + _P_GG] = p_ff, p_fg, p_gg
    s[at + _BOUNDED] = lam * s[at + _BOUNDED] + bounded * bounded / q
    s[at + _BOUNDED_WEIGHT] = lam * weight + 1
    if not (p_ff >= 0 and p_gg >= 0 and p_fg * p_fg <= p_ff * p_gg):
        _restart(s, at)
    if not (abs(s[at + SLOPE]) <= 2 and abs(s[at + INTERCEPT]) <= 1e3):
        s[at + SLOPE], s[at + INTERCEPT] = 1.0, 0.0
