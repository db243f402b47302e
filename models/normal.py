"""Exponentially weighted normal: conjugate forgetting of mean and variance, scored before it learns.

    W <- lam W + 1,   m += d / W,   V <- lam V + d (d - d / W)           d = value - m
    predictive: Student t, scale^2 = (V + k G) / (W + k) (1 + 1 / ne),   df = ne - 1

ne = W^2 / W2 is Kish's effective number of windows: with it the false-alarm rate is what it says, a plain power prior
goes deaf. W2, the sum of squared weights, follows from W. G, the all-time mean square, is the prior of the variance at
the weight of k = 5 windows. Nothing is clipped: with bounded errors, the second of two large surprises looks as large
as the first, and the ranking of anomalies suffers.
"""

from __future__ import annotations

from typing import Final

from models.compiled import compiled
from models.interface import Floats
from models.surprise import of_student

_MEAN, _SQUARES, _WEIGHT, _ALL = range(4)
#: Weight of the all-time mean square, in windows.
_PRIOR: Final = 5.0
#: Slowest memory of the all-time mean square, in windows.
ALL_TIME: Final = 20_000.0
#: Changes below this share of the unit are dust.
DUST: Final = 1e-12


@compiled
def score_then_learn(s: Floats, at: int, value: float, lam: float, windows: float) -> float:
    """Return the surprise of a value; 0 while nothing is known. The state changes in place.

    Args:
        s: State of the series.
        at: Where this normal stands in it.
        value: In units of the series.
        lam: Forgetting factor per window.
        windows: Windows seen, this one included.
    """
    mean, squares, weight, all_time = s[at], s[at + 1], s[at + 2], s[at + 3]
    error = value - mean
    surprise = 0.0
    if weight > 0:
        effective = effective_windows(weight, lam)
        scale2 = scale2_of(squares, weight, all_time) * (1 + 1 / effective)
        surprise = of_student(error * error / scale2, max(effective - 1, 1.0))
        all_time += (error * error - all_time) / min(windows, ALL_TIME)
    weight = lam * weight + 1
    s[at + _MEAN] = mean + error / weight
    s[at + _SQUARES] = lam * squares + error * (error - error / weight)
    s[at + _WEIGHT] = weight
    s[at + _ALL] = all_time
    return surprise


@compiled
def effective_windows(weight: float, lam: float) -> float:
    """Return Kish's effective number of windows for a weight."""
    return weight * (1 + lam) / (2 - weight * (1 - lam))


@compiled
def scale2_of(squares: float, weight: float, all_time: float) -> float:
    """Return the variance, with its prior."""
    return (squares + _PRIOR * all_time) / (weight + _PRIOR) + DUST
