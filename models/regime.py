"""Anomaly or new normal: the level and spread a series lives in, and when it has moved to another.

    z = (y - m0) / s0,   w = z sqrt((1 - r) / (1 + r))      r: lag-one correlation, so that wandering is not moving
    up <- max(0, up + clip(w) - 1/2),  down likewise        Page's cumulative sums (1954); clip at +-2.5
    spread <- max(0, spread + clip(ln N(z; 3) / N(z; 1)))   neighbours on one side count as one
    run: consecutive windows nearer to their own mean (and within 3 s0 of it) than to m0, begun beyond 2 s0

    up or down > 18, or > 10 with a run of six: new level, their mean
    spread > 10.5, from both sides: three times the spread

A spike of five windows adds at most 10 to `up`, its run ends with it, and it adds once, on one side, to `spread`: it is
never adopted, whatever its size; a shift of five deviations is, after six windows. A regime left behind is archived; a
new one that matches an archived one reopens it. In each window three hypotheses explain the value, with leaky evidence
(factor 0.8 per window):

    normal       N(m0, s0)
    anomaly      t with 3 degrees of freedom, m0, 6 s0
    new normal   N(mean of the run, s0)
"""

from __future__ import annotations

import math
from typing import Final

from models import layout
from models.compiled import compiled
from models.interface import Floats

(
    MEAN, SQUARES, WEIGHT, CORRELATION, LAST, UP, DOWN, SPREAD, EXCURSION, EXCURSION_MEAN, ANOMALY, NEW, NUMBER, AGE,
    RUN, RUN_MEAN, SIDE, ABOVE, BELOW,
) = (layout.REGIME + place for place in range(19))  # fmt: skip
#: The oldest archived regime's number is kept in the last place of the archive.
_ARCHIVE_WIDTH: Final = 3

_LAM: Final = 1 - 1 / 2_000
_SETTLED: Final = 20.0
_CLIP: Final = 2.5
_SLACK: Final = 0.5
#: Noise alone exceeds it in less than 1 % of the windows.
_EXCURSION: Final = 5.0
_LEVEL_LIMIT: Final = 18.0
#: Windows of a run that make a level, and the sum they need.
_RUN: Final = 6.0
_RUN_LIMIT: Final = 10.0
_RUN_START: Final = 2.0
_RUN_WIDTH: Final = 3.0
_SPREAD_LIMIT: Final = 10.5
_SPREAD_SIDE: Final = 1.0
_SPREAD_CLIP: Final = 4.5
_SPREAD_FACTOR: Final = 3.0
_LEARNED_DEVIATIONS: Final = 4.0
_MOST_CORRELATION: Final = 0.98
#: Windows a regime must have lasted for the next one to be taken for granted.
_BELIEVED: Final = 120.0
#: What is left of the weight of the past after a change, in windows.
_WEIGHT_LEFT: Final = 6.0
#: Deviations within which a level is the same as an archived one.
_SAME: Final = 2.0
_DUST: Final = 1e-12

_EVIDENCE_LEAK: Final = 0.8
_EVIDENCE_CLIP: Final = 12.0
_FIT_CLIP: Final = 4.0
_LN_PRIOR_ANOMALY: Final = math.log(1e-3)
_LN_PRIOR_NEW: Final = -6.0
_ERRATIC_SCALE: Final = 6.0
#: ln of the ratio of the densities' constants, t with 3 degrees of freedom to normal.
_LN_T3: Final = math.log(0.36755259694786136 / 0.3989422804014327)


@compiled
def judge_then_learn(s: Floats, y: float, windows: float) -> tuple[float, float, bool]:
    """Weigh the hypotheses for a value, then learn it, in place.

    Args:
        s: State of the series.
        y: Value without its season, in units of the series.
        windows: Windows seen, this one included.

    Returns:
        Probability of an anomaly and of a new normal (the rest is normal); whether a regime began that is believed:
        archived before, or after one that had lasted. A level that keeps moving is a drift, not a new normal.
    """
    weight = s[WEIGHT]
    if weight < _SETTLED:
        _learn(s, y, math.inf)
        s[LAST] = y
        s[AGE] += 1
        return 0.0, 0.0, False
    deviation = deviation_of(s)
    z = (y - s[MEAN]) / deviation
    anomaly, new = _weigh(s, y, z, deviation)
    wider = _watch_spread(s, z)
    moved = _watch_level(s, y, z, deviation)
    s[LAST] = y
    s[AGE] += 1
    if wider:
        return 0.0, 1.0, _adopt(s, s[MEAN], deviation * _SPREAD_FACTOR)
    if moved:
        return 0.0, 1.0, _adopt(s, s[RUN_MEAN] if s[RUN] >= _RUN else s[EXCURSION_MEAN], deviation)
    _learn(s, y, _LEARNED_DEVIATIONS * deviation)
    return anomaly, new, False


@compiled
def in_excursion(s: Floats) -> bool:
    """Tell whether values have been off to one side for some windows."""
    return bool(max(s[UP], s[DOWN]) > _EXCURSION)


@compiled
def deviation_of(s: Floats) -> float:
    """Return the regime's deviation, s0."""
    return math.sqrt(s[SQUARES] / max(s[WEIGHT], 1.0) + _DUST)


@compiled
def _learn(s: Floats, y: float, limit: float) -> None:
    error = min(max(y - s[MEAN], -limit), limit)
    s[WEIGHT] = _LAM * s[WEIGHT] + 1
    s[MEAN] += error / s[WEIGHT]
    s[SQUARES] = _LAM * s[SQUARES] + error * (error - error / s[WEIGHT])


@compiled
def _weigh(s: Floats, y: float, z: float, deviation: float) -> tuple[float, float]:
    """Return the posterior probabilities of an anomaly and of a new normal."""
    ln_normal = -0.5 * z * z
    ln_erratic = _LN_T3 - math.log(_ERRATIC_SCALE) - 2 * math.log1p(z * z / (3 * _ERRATIC_SCALE**2))
    s[ANOMALY] = max(_EVIDENCE_LEAK * s[ANOMALY] + _clipped(ln_erratic - ln_normal, _EVIDENCE_CLIP), 0.0)
    if s[RUN] > 0:
        off = (y - s[RUN_MEAN]) / deviation
        s[NEW] = _EVIDENCE_LEAK * s[NEW] + _clipped(-0.5 * off * off - ln_erratic, _FIT_CLIP)
    else:
        s[NEW] = 0.0
    odds_anomaly = math.exp(min(s[ANOMALY] + _LN_PRIOR_ANOMALY, 500.0))
    odds_new = odds_anomaly * math.exp(s[NEW] + _LN_PRIOR_NEW)
    total = 1 + odds_anomaly + odds_new
    return odds_anomaly / total, odds_new / total


@compiled
def _watch_level(s: Floats, y: float, z: float, deviation: float) -> bool:
    """Add a value to the cumulative sums; return whether the level has moved."""
    r = min(max(s[CORRELATION], 0.0), _MOST_CORRELATION)
    step = _clipped(z * math.sqrt((1 - r) / (1 + r)), _CLIP)
    s[UP] = max(0.0, s[UP] + step - _SLACK)
    s[DOWN] = max(0.0, s[DOWN] - step - _SLACK)
    last_z = _clipped((s[LAST] - s[MEAN]) / deviation, _CLIP)
    s[CORRELATION] += (_clipped(z, _CLIP) * last_z - s[CORRELATION]) / s[WEIGHT]
    _watch_run(s, y, z, deviation)
    evidence = max(s[UP], s[DOWN])
    if evidence > 0:
        s[EXCURSION] += 1
        s[EXCURSION_MEAN] += (y - s[EXCURSION_MEAN]) / s[EXCURSION]
    else:
        s[EXCURSION] = s[EXCURSION_MEAN] = 0.0
    return bool(evidence > _LEVEL_LIMIT or (evidence >= _RUN_LIMIT and s[RUN] >= _RUN))


@compiled
def _watch_spread(s: Floats, z: float) -> bool:
    """Add a residual to the evidence of a larger spread; return whether there is enough, from both sides."""
    gain = min(0.5 * z * z * (1 - 1 / _SPREAD_FACTOR**2) - math.log(_SPREAD_FACTOR), _SPREAD_CLIP)
    if gain > 0:
        gain = _of_one_side(s, gain, z)
    else:
        s[SIDE] = 0.0
    s[SPREAD] = max(0.0, s[SPREAD] + gain)
    if s[SPREAD] == 0:
        s[ABOVE] = s[BELOW] = 0.0
    return bool(s[SPREAD] > _SPREAD_LIMIT and min(s[ABOVE], s[BELOW]) > _SPREAD_SIDE)


@compiled
def _of_one_side(s: Floats, gain: float, z: float) -> float:
    """Return what is left of a gain: neighbours on one side gain no more than one value can."""
    if z * s[SIDE] < 0:
        s[SIDE] = 0.0
    gain = min(gain, _SPREAD_CLIP - abs(s[SIDE]))
    s[SIDE] += gain if z > 0 else -gain
    s[ABOVE if z > 0 else BELOW] += gain
    return gain


@compiled
def _watch_run(s: Floats, y: float, z: float, deviation: float) -> None:
    """Count consecutive windows that belong together rather than to the regime."""
    off = abs(y - s[RUN_MEAN])
    if s[RUN] > 0 and off < abs(y - s[MEAN]) and off <= _RUN_WIDTH * deviation:
        s[RUN] += 1
        s[RUN_MEAN] += (y - s[RUN_MEAN]) / s[RUN]
    else:
        s[RUN], s[RUN_MEAN] = (1.0, y) if abs(z) >= _RUN_START else (0.0, 0.0)


@compiled
def _adopt(s: Floats, mean: float, deviation: float) -> bool:
    """Begin a regime, or reopen an archived one; archive the present one. Return whether it is believed."""
    old_mean, old_deviation, old = s[MEAN], deviation_of(s), s[NUMBER]
    number, reopened = _number_of(s, mean, deviation)
    believed = reopened or s[AGE] >= _BELIEVED
    for index in range((layout.ARCHIVED - 1) * _ARCHIVE_WIDTH, 0, -1):
        at = layout.ARCHIVE + index - 1
        s[at + _ARCHIVE_WIDTH] = s[at]
    s[layout.ARCHIVE], s[layout.ARCHIVE + 1], s[layout.ARCHIVE + 2] = old_mean, old_deviation, old + 1
    s[MEAN], s[WEIGHT] = mean, _WEIGHT_LEFT + _SETTLED
    s[SQUARES] = deviation * deviation * s[WEIGHT]
    s[NUMBER], s[AGE] = number, 0.0
    for place in (UP, DOWN, SPREAD, SIDE, ABOVE, BELOW, EXCURSION, EXCURSION_MEAN, RUN, RUN_MEAN, ANOMALY, NEW):
        s[place] = 0.0
    return bool(believed)


@compiled
def _number_of(s: Floats, mean: float, deviation: float) -> tuple[float, bool]:
    """Return the number of the archived regime that looks like this, else the next number; whether it is archived."""
    largest = s[NUMBER]
    for index in range(layout.ARCHIVED):
        at = layout.ARCHIVE + index * _ARCHIVE_WIDTH
        known = s[at + 2] - 1
        largest = max(largest, known)
        alike = abs(mean - s[at]) <= _SAME * s[at + 1] and 0.5 <= deviation / max(s[at + 1], _DUST) <= 2.0
        if known >= 0 and alike:
            return float(known), True
    return float(largest + 1), False


@compiled
def adopt_excursion(s: Floats) -> bool:
    """Adopt the present excursion as the new normal, as an operator asks for; return whether there was one."""
    if s[EXCURSION] <= 0 or s[WEIGHT] < _SETTLED:
        return False
    _adopt(s, s[EXCURSION_MEAN], deviation_of(s))
    return True


@compiled
def _clipped(value: float, most: float) -> float:
    return float(min(max(value, -most), most))
