"""From the surprises of a series' components to its verdict: calibrated p, ranking, alarm, hypotheses.

    c = max over components of their cautiously calibrated surprise - offset
    p = c, honestly calibrated;   alarm = episodes of c

The offset of the five features is Bonferroni's, log10 5.
"""

from __future__ import annotations

from typing import Final

from models import calibration, episode, layout, normal, regime, surprise
from models.compiled import compiled
from models.interface import Floats

#: Columns of a window's results; the surprise of each component comes last.
COLUMNS: Final = 13 + layout.COMPONENTS
(
    LOG10_P, SURPRISE, ALARM, EXPECTED, LOWER, UPPER, DIRECTION, OBSERVATIONS, ANOMALY, NEW_NORMAL, REGIME, REGIME_AGE,
    SUSTAINED,
) = range(13)  # fmt: skip
FOUND: Final = 13

#: Windows of the features that look back.
RECENT: Final = 24.0
SHORT: Final = 1 - 1 / 2_000
LONG: Final = 1 - 1 / 20_000
#: Largest surprise that counts in the mean over several windows: one spike is not sustained.
_SUSTAINED_MOST: Final = 6.0
FEATURE_WARMUP: Final = 60.0
#: Windows before a series may alarm.
ALARM_WARMUP: Final = 60.0
_FEATURE_OFFSET: Final = 0.7


@compiled
def begin(s: Floats) -> None:
    """Set what is not zero in a new series' state."""
    for component in range(layout.COMPONENTS):
        at = layout.CALIBRATION + component * layout.CALIBRATION_WIDTH
        s[at], s[at + 1] = calibration.NOMINAL, calibration.FIRST_EXCESS
    calibration.begin_honest(s, layout.TOGETHER)
    episode.start(s)


@compiled
def recent(s: Floats, at: int, value: float, windows: float) -> float:
    """Update and return the mean over the last few windows."""
    s[at] += (value - s[at]) / min(windows, RECENT)
    return float(s[at])


@compiled
def sustained(s: Floats, found: float) -> float:
    """Return how surprising the mean surprise of the last few windows is, upwards."""
    windows = s[layout.WINDOWS]
    value = recent(s, layout.RECENT_SURPRISE, min(found, _SUSTAINED_MOST), windows)
    above = value > s[layout.SUSTAINED_NORMAL]
    lasting = normal.score_then_learn(s, layout.SUSTAINED_NORMAL, value, SHORT, windows)
    return lasting if above and windows > FEATURE_WARMUP else 0.0


@compiled
def judge_then_learn(s: Floats, y: float, out: Floats) -> bool:
    """Calibrate the components, shape the alarm, weigh the hypotheses; all learn.

    Args:
        s: State of the series.
        y: Value without its season, for the regime.
        out: Results of the window, shape (COLUMNS,): the components' surprises are read, p, alarm and hypotheses set.

    Returns:
        Whether a regime began that is to be taken for granted.
    """
    windows = s[layout.WINDOWS]
    most, speaks, lasting = 0.0, 0.0, 0.0
    taught = not regime.in_excursion(s)
    for component in range(layout.COMPONENTS):
        at = layout.CALIBRATION + component * layout.CALIBRATION_WIDTH
        offset = 0.0 if component == layout.PREDICTIVE else _FEATURE_OFFSET
        straight = calibration.straight(s, at, out[FOUND + component]) - offset
        cautious = calibration.cautious_then_learn(s, at, out[FOUND + component], windows, taught) - offset
        if cautious > most:
            most, speaks, lasting = cautious, straight, offset
    honest = calibration.honest_then_learn(s, layout.TOGETHER, max(speaks, 0.0), windows, taught)
    out[LOG10_P], out[SUSTAINED] = -min(honest, surprise.MOST), lasting
    alarm = episode.shape_then_learn(s, most if windows > ALARM_WARMUP else 0.0)
    out[ALARM] = alarm
    out[ANOMALY], out[NEW_NORMAL], believed = regime.judge_then_learn(s, y, windows)
    out[REGIME_AGE], out[REGIME] = s[regime.AGE], s[regime.NUMBER]
    return believed
