"""Ratios with known trials: beta-binomial with forgetting and learned intra-class correlation.

share ~ Beta(A, B):   A <- lam A + (1 - lam) / 2 + y,   B <- lam B + (1 - lam) / 2 + trials - y
rho: moment estimate of the correlation between trials of a window, averaged with forgetting; prior rho = 0
predictive: BetaBinomial(trials, pi M, (1 - pi) M),  1 / (M + 1) = 1 - (1 - 1 / (A + B + 1)) (1 - rho)
"""

from __future__ import annotations

import math
from typing import Final

from models import layout, regime, verdict
from models.compiled import compiled
from models.count import JEFFREYS, LEARNED_DEVIATIONS, SETTLED, look_back
from models.interface import Floats
from models.surprise import of_beta_binomial
from models.verdict import SHORT

HITS, MISSES, EXCESS, EXCESS_WEIGHT = (layout.OWN + place for place in range(4))

_LARGEST: Final = 1e12
_TINY: Final = 1e-12
_MOST_CORRELATION: Final = 0.999
_ANSCOMBE: Final = 0.375
_Z_99: Final = 2.5758293035489004


@compiled
def score_then_learn(s: Floats, value: float, weight: float, out: Floats) -> None:
    """Judge the successes of one window by what was known before it, then learn them; all in place.

    Args:
        s: State of the series.
        value: Successes.
        weight: Trials.
        out: Results, shape (verdict.COLUMNS,).
    """
    trials = min(max(weight, _TINY), _LARGEST)
    y = min(max(value, 0.0), trials)
    _forget(s)
    total = s[HITS] + s[MISSES]
    known = total > 2 * JEFFREYS
    share = min(max(s[HITS] / total, _TINY), 1 - _TINY)
    correlation = min(max(s[EXCESS] / s[EXCESS_WEIGHT], 0.0), _MOST_CORRELATION) if s[EXCESS_WEIGHT] > 0 else 0.0
    own = 1 / (total + 1)
    together = own + correlation - own * correlation
    precision = 1 / together - 1
    binomial = trials * share * (1 - share)
    spread = math.sqrt(binomial * (1 + max(trials - 1, 0.0) * together) + _TINY)
    if known:
        out[verdict.FOUND + layout.PREDICTIVE] = of_beta_binomial(y, trials, share * precision, (1 - share) * precision)
        out[verdict.FOUND + layout.MIDDLE] = look_back(s, (y - trials * share) / spread)
        out[verdict.FOUND + layout.SUSTAINED] = verdict.sustained(s, out[verdict.FOUND + layout.PREDICTIVE])
    out[verdict.SURPRISE] = out[verdict.FOUND + layout.PREDICTIVE]
    _explain(y, trials, share, spread, known, out)
    _learn(s, y, trials, share, spread, known)
    if verdict.judge_then_learn(s, math.asin(math.sqrt((y + _ANSCOMBE) / (trials + 2 * _ANSCOMBE))), out):
        _adopt(s, trials)


@compiled
def _forget(s: Floats) -> None:
    for place in (HITS, MISSES):
        s[place] = SHORT * s[place] + (1 - SHORT) * JEFFREYS
    for place in (EXCESS, EXCESS_WEIGHT):
        s[place] *= SHORT


@compiled
def _learn(s: Floats, y: float, trials: float, share: float, spread: float, known: bool) -> None:
    mean, binomial = trials * share, trials * share * (1 - share)
    learned = y
    if s[layout.WINDOWS] > SETTLED:
        limit = LEARNED_DEVIATIONS * (spread + 1)
        learned = min(max(y, mean - limit, 0.0), mean + limit, trials)
    if known and trials >= 2:
        spare = trials - 1
        own = 1 / (s[HITS] + s[MISSES] + 1)
        excess = ((learned - mean) ** 2 / max(binomial, 0.01) - 1) / spare - own
        s[EXCESS] += min(max(excess, -1 / spare), 1.0)
        s[EXCESS_WEIGHT] += 1
    s[HITS] += learned
    s[MISSES] += trials - learned


@compiled
def _adopt(s: Floats, trials: float) -> None:
    """Take over the new regime's share, at the weight of an excursion."""
    share = math.sin(min(max(s[regime.MEAN], 0.0), math.pi / 2)) ** 2
    kept = min(s[HITS] + s[MISSES], verdict.RECENT * trials)
    s[HITS], s[MISSES] = max(share * kept, JEFFREYS), max((1 - share) * kept, JEFFREYS)
    s[layout.RECENT_RESIDUAL] = s[layout.RECENT_SURPRISE] = 0.0


@compiled
def _explain(y: float, trials: float, share: float, spread: float, known: bool, out: Floats) -> None:
    mean = trials * share
    out[verdict.EXPECTED] = mean if known else math.nan
    out[verdict.LOWER] = min(max(mean - _Z_99 * spread, 0.0), trials) if known else math.nan
    out[verdict.UPPER] = min(max(mean + _Z_99 * spread, 0.0), trials) if known else math.nan
    out[verdict.DIRECTION] = 1.0 if y >= mean else -1.0
