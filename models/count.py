"""Counts: Gamma-Poisson with forgetting, learned overdispersion and a profile of the day, predictive negative binomial.

    rate ~ Gamma(A, B):   A <- lam A + (1 - lam) / 2 + y,   B <- lam B + exposure x profile
    mean = exposure x profile A / B;   1 / shape = 1 / A + phi
    phi: moment estimate ((y - mean)^2 - mean) / mean^2 - 1 / A, clipped, averaged with forgetting; prior phi = 0

True Poisson counts are the exception in logs: without phi, a threshold of 1e-4 alarms 50 to 500 times too often.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from models import layout, normal, regime, season, verdict
from models.compiled import compiled
from models.interface import Floats
from models.surprise import of_negative_binomial
from models.verdict import SHORT

SHAPE, EXPOSURE, EXCESS, EXCESS_WEIGHT = (layout.OWN + place for place in range(4))

_LARGEST: Final = 1e14
_TINY: Final = 1e-12
#: Rate of a class that never saw an event: half an event in all its exposure (Jeffreys).
JEFFREYS: Final = 0.5
EXCESS_PRIOR: Final = 20.0
#: Windows after which an outlier is no longer learned in full, and up to how many deviations (and events) it is.
SETTLED: Final = 20.0
LEARNED_DEVIATIONS: Final = 5.0
#: A bin of the day speaks after so many visits; so many events say that it is like the others.
_PROFILE_VISITS: Final = 2
_PROFILE_EVENTS: Final = 10.0
_EXCESS_MOST: Final = 9.0
_ANSCOMBE: Final = 0.375
_Z_99: Final = 2.5758293035489004
_RESIDUAL_CLIP: Final = 4.0


@compiled
def score_then_learn(
    s: Floats, visits: NDArray[np.uint8], value: float, exposure: float, time_s: float, out: Floats
) -> None:
    """Judge the count of one window by what was known before it, then learn it; all in place.

    Args:
        s: State of the series.
        visits: Visits of the season's bins.
        value: Events.
        exposure: Seconds.
        time_s: Event time.
        out: Results, shape (verdict.COLUMNS,).
    """
    y = min(max(value, 0.0), _LARGEST)
    exposed = exposure * _profile(s, visits, time_s)
    known = s[EXPOSURE] > 0
    _forget(s)
    mean = min(max(exposed * s[SHAPE] / s[EXPOSURE], _TINY), _LARGEST) if known else max(y, _TINY)
    dispersion = max(s[EXCESS] / s[EXCESS_WEIGHT], 0.0) if s[EXCESS_WEIGHT] > 0 else 0.0
    shape = 1 / min(max(1 / s[SHAPE] + dispersion, 1e-15), 1e12)
    spread = math.sqrt(mean + mean * mean / shape)
    if known:
        out[verdict.FOUND + layout.PREDICTIVE] = of_negative_binomial(y, shape, mean)
        out[verdict.FOUND + layout.MIDDLE] = look_back(s, (y - mean) / spread)
        out[verdict.FOUND + layout.SUSTAINED] = verdict.sustained(s, out[verdict.FOUND + layout.PREDICTIVE])
    out[verdict.SURPRISE] = out[verdict.FOUND + layout.PREDICTIVE]
    _explain(y, mean, shape, known, out)
    _learn(s, y, exposed, mean, spread, known)
    season.learn(s, y, mean)
    if verdict.judge_then_learn(s, 2 * math.sqrt((y + _ANSCOMBE) / exposed), out):
        _adopt(s, exposed)


@compiled
def _profile(s: Floats, visits: NDArray[np.uint8], time_s: float) -> float:
    place = season.enter(s, visits, time_s)
    if s[layout.SEASON_COUNT] == 0:
        s[layout.SEASON_SUM] = s[layout.SEASON_COUNT] = _PROFILE_EVENTS
    known = season.visited(visits, place) >= _PROFILE_VISITS
    return max(s[layout.SEASON + place], 1e-3) if known else 1.0


@compiled
def _forget(s: Floats) -> None:
    s[SHAPE] = SHORT * s[SHAPE] + (1 - SHORT) * JEFFREYS
    for place in (EXPOSURE, EXCESS, EXCESS_WEIGHT):
        s[place] *= SHORT


@compiled
def look_back(s: Floats, residual: float) -> float:
    """Return how surprising the mean residual of the last few windows is."""
    windows = s[layout.WINDOWS]
    bounded = min(max(residual, -_RESIDUAL_CLIP), _RESIDUAL_CLIP)
    mean = verdict.recent(s, layout.RECENT_RESIDUAL, bounded, windows)
    found = normal.score_then_learn(s, layout.MIDDLE_NORMAL, mean, SHORT, windows)
    return found if windows > verdict.FEATURE_WARMUP else 0.0


@compiled
def _learn(s: Floats, y: float, exposed: float, mean: float, spread: float, known: bool) -> None:
    learned = y
    if s[layout.WINDOWS] > SETTLED:
        # Rare counts are far from their mean by nature: a handful is always learned in full.
        limit = LEARNED_DEVIATIONS * (spread + 1)
        learned = min(max(y, mean - limit), mean + limit)
    if known:
        excess = ((learned - mean) ** 2 - mean) / max(mean * mean, 0.01) - 1 / s[SHAPE]
        s[EXCESS] += min(max(excess, -1.0), _EXCESS_MOST)
        s[EXCESS_WEIGHT] += 1
    s[SHAPE] += learned
    s[EXPOSURE] += exposed


@compiled
def _adopt(s: Floats, exposed: float) -> None:
    """Take over the new regime's rate, at the weight of an excursion."""
    kept = min(s[EXPOSURE], verdict.RECENT * exposed)
    s[SHAPE] = max(s[regime.MEAN] ** 2 / 4 * kept, JEFFREYS)
    s[EXPOSURE] = kept
    s[layout.RECENT_RESIDUAL] = s[layout.RECENT_SURPRISE] = 0.0


@compiled
def _explain(y: float, mean: float, shape: float, known: bool, out: Floats) -> None:
    out[verdict.EXPECTED] = _quantile(mean, shape, 0.0) if known else math.nan
    out[verdict.LOWER] = _quantile(mean, shape, -_Z_99) if known else math.nan
    out[verdict.UPPER] = _quantile(mean, shape, _Z_99) if known else math.nan
    out[verdict.DIRECTION] = 1.0 if y >= mean else -1.0


@compiled
def _quantile(mean: float, shape: float, z: float) -> float:
    """Return a quantile of the gamma with the moments of the predictive (Wilson and Hilferty, 1931)."""
    like = mean / (1 + mean / shape)
    root = 1 - 1 / (9 * like) + z / (3 * math.sqrt(like))
    return max(mean * root**3, 0.0)
