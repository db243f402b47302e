"""What a surprise means for this series: its own tail, so that it means the same whatever the noise.

    u: quantile exceeded by 2 % of the windows, by stochastic steps;   m: mean excess over u
    s > u:   -log10 p = 1.7 + A log10(1 + (s - u) / (B m))     else   1.7 s / u

Above u the excesses are exponential; A and B are those of the predictive distribution when their mean is known from A
excesses (Lomax), which is the generalised Pareto of shape 1 / A.

Twice: once per component, cautiously (`cautious_then_learn`: A = 10, m with a prior of 100 excesses that says the tail
is heavier than the model's), so that a quiet history does not make the first large value astronomically surprising;
that ranks alarms. And once for all components together, honestly (`honest_then_learn`: A grows with what was seen),
so that p is met as often as it says.
"""

from __future__ import annotations

import math
from typing import Final

from models.compiled import compiled
from models.interface import Floats

#: Share of windows above the threshold, and -log10 of it.
_SHARE: Final = 0.02
NOMINAL: Final = -math.log10(_SHARE)
#: A priori the tail is this much heavier than the model's own, 1 / ln 10.
FIRST_EXCESS: Final = 1.2
_LEAST_EXCESS: Final = 0.05
_PRIOR: Final = 100.0
_SHAPE: Final = 0.1
_FIRST_STEP: Final = 10.0
_LEAST_STEP: Final = 0.005
_SETTLED: Final = 20.0
_LEAST_THRESHOLD: Final = 0.2
#: Excesses that the prior of the honest calibration is worth, and that it remembers.
_FEW: Final = 20.0
_MANY: Final = 200.0
#: What is rarer than 10 to the minus this is no sample of the tail: an anomaly must not become its measure.
_ORDINARY: Final = 5.0
#: Mean excess of a model that is right: 1 / ln 10.
_HONEST_EXCESS: Final = 1 / math.log(10.0)
#: No tail is taken for lighter than this, nor for lighter than so few excesses can show.
_LEAST_SHAPE: Final = 0.12
_MOST_SHAPE: Final = 0.4


@compiled
def cautious_then_learn(s: Floats, at: int, surprise: float, windows: float, taught: bool) -> float:
    """Return the cautiously calibrated surprise of a component, then learn; the state changes in place.

    Args:
        s: State of the series.
        at: Where threshold and mean excess stand.
        surprise: Of the model, >= 0.
        windows: Windows seen, this one included.
        taught: Whether to learn. An excursion must not become the measure of itself: a leak would never be found.
    """
    threshold, excess = s[at], s[at + 1]
    over = surprise - threshold
    step = max(_FIRST_STEP / (windows + _SETTLED), _LEAST_STEP) * excess
    if over > 0:
        calibrated = NOMINAL + math.log10(1 + over * _SHAPE / ((1 - _SHAPE) * excess)) / _SHAPE
        excess = max(excess + (over - excess) / (_PRIOR + 1), _LEAST_EXCESS)
        threshold += step * (1 - _SHARE)
    else:
        calibrated = NOMINAL * surprise / threshold
        threshold = max(threshold - step * _SHARE, _LEAST_THRESHOLD)
    if taught:
        s[at], s[at + 1] = threshold, excess
    return float(calibrated)


@compiled
def straight(s: Floats, at: int, surprise: float) -> float:
    """Return a surprise moved so that its threshold is the nominal one; a right model has exponential excesses."""
    over = surprise - s[at]
    return float(NOMINAL + over if over > 0 else NOMINAL * surprise / s[at])


@compiled
def begin_honest(s: Floats, at: int) -> None:
    """Begin as if the model were right."""
    s[at], s[at + 1], s[at + 2] = NOMINAL, _HONEST_EXCESS, 2 * _HONEST_EXCESS**2


@compiled
def honest_then_learn(s: Floats, at: int, found: float, windows: float, taught: bool) -> float:
    """Return -log10 of a p that is met as often as it says, then learn; the state changes in place.

    Args:
        s: State of the series.
        at: Where threshold, mean excess, mean square excess, and whether the last window exceeded, stand.
        found: Surprise of the component that speaks, as `straight` gives it.
        windows: Windows seen, this one included.
        taught: Whether to learn. An excursion must not become the measure of itself: a leak would never be found.
    """
    threshold, mean, square = s[at], s[at + 1], s[at + 2]
    over = found - threshold
    step = max(_FIRST_STEP / (windows + _SETTLED), _LEAST_STEP) * mean
    if over <= 0:
        if taught:
            s[at] = max(threshold - step * _SHARE, _LEAST_THRESHOLD)
        s[at + 3] = 0.0
        return float(NOMINAL * found / threshold)
    seen = min(_FEW + _SHARE * windows, _MANY)
    shape = 0.5 * (1 - mean * mean / max(square - mean * mean, _LEAST_EXCESS**2))
    shape = min(max(shape, _LEAST_SHAPE, 1 / seen), _MOST_SHAPE)
    honest = float(NOMINAL + math.log10(1 + over * shape / ((1 - shape) * mean)) / shape)
    if taught:
        s[at] = threshold + step * (1 - _SHARE)
    # The first window of a cluster stands for it: what lasts would soon be its own measure.
    first = s[at + 3] == 0
    s[at + 3] = 1.0
    if taught and first and honest < _ORDINARY:
        s[at + 1] = max(mean + (over - mean) / (seen + 1), _LEAST_EXCESS)
        s[at + 2] = max(square + (over * over - square) / (seen + 1), _LEAST_EXCESS**2)
    return honest
