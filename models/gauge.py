"""Gauges: what the last value, the time of day and the last hours lead one to expect, and how far off the value is.

    predictive   autoregression on the value and on its seasonal residual, mixed by evidence
                 10^-B = w 10^-plain + (1 - w) 10^-seasonal,   logit w <- lam logit w + clip(difference of evidence)
    logarithm    normal of sign(x) ln(1 + |x|)
    level        normal of the mean of 24 windows
    middle       normal of the mean of 24 bounded residuals from a running median: small shifts under spikes
    roughness    normal of the mean of sqrt|x - previous x| over 24 windows: flat lines, noise that grows
    sustained    normal of the mean of 24 bounded surprises of the predictive
    ranking      max of the surprise of the value and of its change, memory of 20,000 windows

All memories but the ranking's are 2,000 windows. Which component speaks is found by calibration (`models.verdict`).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from models import autoregression, layout, normal, regime, season, verdict
from models.compiled import compiled
from models.interface import Floats
from models.verdict import LONG, SHORT

#: Values beyond this, in units of the series, are not told apart.
_LARGEST: Final = 1e12
_EVIDENCE_STEP: Final = 4.0
#: Seasonal residuals before their evidence counts, and before they speak.
_SEASON_WARMUP: Final = 50.0
_SEASON_SPEAKS: Final = 70.0
_FIRST_SPEAKS: Final = 10.0
_RANKING_WARMUP: Final = 30.0
_ROBUST_MEMORY: Final = 5_000.0
_ROBUST_CLIP: Final = 4.0
_DEVIATION_OF_NORMAL: Final = 1.25
#: 99.5 % point of Student's t with the predictive's 30 degrees of freedom.
_T_99: Final = 2.75
#: Usual intervals without a value after which the last one says nothing of the next one's change.
_LONG_GAP: Final = 12.0
_MOST_GAP: Final = 1e4
_TINY: Final = 1e-300


@compiled
def score_then_learn(
    s: Floats, visits: NDArray[np.uint8], origin: Floats, x: float, time_s: float, gap: float, out: Floats
) -> None:
    """Judge the value of one window by what was known before it, then learn it; all in place.

    Args:
        s: State of the series.
        visits: Visits of the season's bins.
        origin: First value of the series; it is the zero and, if it is not zero, the unit of the state.
        x: Value.
        time_s: Event time.
        gap: Usual intervals since the last value; 1 if none is missing.
        out: Results, shape (verdict.COLUMNS,).
    """
    windows = s[layout.WINDOWS]
    zero, unit = origin[0], max(abs(origin[0]), _TINY) if origin[0] != 0 else 1.0
    y, raw = _within(x / unit - zero / unit), _within(x / unit)
    previous = s[layout.PLAIN + autoregression.PREVIOUS]
    followed = windows > 1 and gap <= _LONG_GAP
    place = season.enter(s, visits, time_s)
    known_season = season.visited(visits, place) > 0
    profile = s[layout.SEASON + place] if known_season else 0.0
    season.learn(s, y, 1.0)

    spread = min(max(gap, 1.0), _MOST_GAP)
    out[verdict.FOUND + layout.PREDICTIVE], centre, scale = _predict(s, y, profile, known_season, spread)
    out[verdict.SURPRISE] = _rank(s, y, y - previous, followed, windows)
    out[verdict.FOUND + layout.SUSTAINED] = verdict.sustained(s, out[verdict.FOUND + layout.PREDICTIVE])
    _features(s, out, raw, y, y - previous, followed, windows)
    seasonal = profile if s[layout.MIXING] < 0 else 0.0
    if verdict.judge_then_learn(s, y - seasonal, out):
        _adopt(s, seasonal + s[regime.MEAN], y, raw, profile)
    if out[verdict.SUSTAINED] > 0:
        centre, scale = s[layout.RECENT_NORMAL], regime.deviation_of(s)
    known = unit if s[layout.PLAIN + autoregression.VALUES] > 1 else math.nan
    out[verdict.EXPECTED] = centre * known + zero
    out[verdict.LOWER] = (centre - _T_99 * scale) * known + zero
    out[verdict.UPPER] = (centre + _T_99 * scale) * known + zero
    out[verdict.DIRECTION] = 1.0 if y >= centre else -1.0


@compiled
def _predict(s: Floats, y: float, profile: float, known_season: bool, gap: float) -> tuple[float, float, float]:
    """Return the surprise of the predictive mixture, and centre and scale of its weightier part."""
    plain, plain_evidence, centre, scale = autoregression.score_then_learn(s, layout.PLAIN, y, SHORT, gap)
    values = s[layout.PLAIN + autoregression.VALUES]
    surprise = plain
    if known_season:
        at = layout.SEASONAL
        seasonal, evidence, residual, seasonal_scale = autoregression.score_then_learn(s, at, y - profile, SHORT, gap)
        residuals = s[at + autoregression.VALUES]
        if residuals > _SEASON_SPEAKS:
            weight = 1 / (1 + math.exp(-s[layout.MIXING]))
            surprise = -math.log10(weight * 10.0**-plain + (1 - weight) * 10.0**-seasonal + _TINY)
            if weight < 0.5:
                centre, scale = profile + residual, seasonal_scale
        if residuals > _SEASON_WARMUP:
            step = min(max(plain_evidence - evidence, -_EVIDENCE_STEP), _EVIDENCE_STEP)
            s[layout.MIXING] = SHORT * s[layout.MIXING] + step
    return surprise if values > _FIRST_SPEAKS else 0.0, centre, scale


@compiled
def _rank(s: Floats, y: float, change: float, followed: bool, windows: float) -> float:
    level = normal.score_then_learn(s, layout.LONG_LEVEL, y, LONG, windows)
    if followed:
        level = max(level, normal.score_then_learn(s, layout.LONG_DIFFERENCE, change, LONG, windows))
    return level if windows > _RANKING_WARMUP else 0.0


@compiled
def _features(s: Floats, out: Floats, raw: float, y: float, change: float, followed: bool, windows: float) -> None:
    """Score what looks back, and the logarithm."""
    logarithm = normal.score_then_learn(s, layout.LOG_NORMAL, _signed_log(raw), SHORT, windows)
    mean = verdict.recent(s, layout.RECENT_LEVEL, y, windows)
    level = normal.score_then_learn(s, layout.RECENT_NORMAL, mean, SHORT, windows)
    residual = verdict.recent(s, layout.RECENT_RESIDUAL, _robust_residual(s, y, windows), windows)
    middle = normal.score_then_learn(s, layout.MIDDLE_NORMAL, residual, SHORT, windows)
    roughness = 0.0
    if followed:
        rough = verdict.recent(s, layout.RECENT_ROUGHNESS, math.sqrt(abs(change)), windows)
        roughness = normal.score_then_learn(s, layout.ROUGHNESS_NORMAL, rough, SHORT, windows)
    if windows > _FIRST_SPEAKS:
        out[verdict.FOUND + layout.LOGARITHM] = logarithm
    if windows > verdict.FEATURE_WARMUP:
        out[verdict.FOUND + layout.LEVEL], out[verdict.FOUND + layout.MIDDLE] = level, middle
        out[verdict.FOUND + layout.ROUGHNESS] = roughness


@compiled
def _within(value: float) -> float:
    return min(max(value, -_LARGEST), _LARGEST)


@compiled
def _signed_log(value: float) -> float:
    return math.copysign(math.log1p(abs(value)), value)


@compiled
def _robust_residual(s: Floats, y: float, windows: float) -> float:
    """Return the bounded distance from the running median, in deviations; learn both by sign steps."""
    if windows <= 1:
        s[layout.MEDIAN] = y
        return 0.0
    spread = _DEVIATION_OF_NORMAL * s[layout.DEVIATION]
    error = y - s[layout.MEDIAN]
    step = 1 / min(windows, _ROBUST_MEMORY)
    if error != 0:
        s[layout.MEDIAN] += math.copysign(step * spread, error)
    s[layout.DEVIATION] += step * (abs(error) - s[layout.DEVIATION])
    return min(max(error / spread, -_ROBUST_CLIP), _ROBUST_CLIP) if spread > 0 else 0.0


@compiled
def _adopt(s: Floats, mean: float, y: float, raw: float, profile: float) -> None:
    """Let all but the ranking take the new level for granted."""
    autoregression.move(s, layout.PLAIN, mean, y)
    autoregression.move(s, layout.SEASONAL, mean - profile, y - profile)
    s[layout.RECENT_NORMAL] = s[layout.RECENT_LEVEL] = s[layout.MEDIAN] = mean
    s[layout.LOG_NORMAL] = _signed_log(raw)
    s[layout.RECENT_ROUGHNESS] = s[layout.ROUGHNESS_NORMAL]
    s[layout.MIDDLE_NORMAL] = s[layout.RECENT_RESIDUAL] = s[layout.RECENT_SURPRISE] = 0.0
