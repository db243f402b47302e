"""Where the numbers of one series' state stand: a row of float32, worked on in double precision.

After every window the row is rounded to what is stored, so that the cuts of micro-batches never show. All memories
count a series' own windows.
"""

from __future__ import annotations

from typing import Final


class _Places:
    """Hands out consecutive places."""

    def __init__(self) -> None:
        self.used = 0

    def take(self, count: int = 1) -> int:
        first = self.used
        self.used += count
        return first


_places: Final = _Places()

# ---- every likelihood ------------------------------------------------------------------------------------------------
#: Windows seen.
WINDOWS: Final = _places.take()
#: Usual time between two windows with a value, in seconds.
INTERVAL: Final = _places.take()

#: Calibration of one component's surprise: threshold, mean excess.
CALIBRATION_WIDTH: Final = 2
COMPONENTS: Final = 6
PREDICTIVE, SUSTAINED, LEVEL, LOGARITHM, MIDDLE, ROUGHNESS = range(COMPONENTS)
CALIBRATION: Final = _places.take(COMPONENTS * CALIBRATION_WIDTH)
#: Calibration of all components together: threshold, mean excess, mean square excess, whether
#: the last window was above the threshold.
TOGETHER_WIDTH: Final = 4
TOGETHER: Final = _places.take(TOGETHER_WIDTH)

#: Leaky maximum, windows since the last alarm, histogram of own alarms.
EPISODE_MAXIMUM: Final = _places.take()
EPISODE_SINCE: Final = _places.take()
ALARM_BINS: Final = 6
EPISODE_ALARMS: Final = _places.take(ALARM_BINS)

#: Regime (`models.regime`), and what is remembered of former ones: mean, deviation, number + 1.
REGIME: Final = _places.take(19)
ARCHIVED: Final = 2
ARCHIVE: Final = _places.take(3 * ARCHIVED)

#: EW mean of the bounded surprise, and of the bounded residual, over a few windows.
RECENT_SURPRISE: Final = _places.take()
RECENT_RESIDUAL: Final = _places.take()

#: Exponentially weighted normal: mean, sum of squares, weight, all-time mean square.
NORMAL_WIDTH: Final = 4
SUSTAINED_NORMAL: Final = _places.take(NORMAL_WIDTH)
MIDDLE_NORMAL: Final = _places.take(NORMAL_WIDTH)

#: Season: bin of the day, sum and number of its rows so far, mean of each bin.
SEASON_BINS: Final = 48
SEASON_BIN: Final = _places.take()
SEASON_SUM: Final = _places.take()
SEASON_COUNT: Final = _places.take()
SEASON: Final = _places.take(SEASON_BINS)

#: Columns from here on belong to one likelihood alone; counts and ratios need few of them.
OWN: Final = _places.take(0)
#: Columns of counts and ratios.
DISCRETE_WIDTH: Final = OWN + 5

# ---- gauges ----------------------------------------------------------------------------------------------------------
#: Autoregression: mean, variance, values, previous value, slope, intercept, their covariance (3), squares and weight of
#: the bounded errors, squares of all, all-time mean square.
AUTOREGRESSION_WIDTH: Final = 13
PLAIN: Final = _places.take(AUTOREGRESSION_WIDTH)
SEASONAL: Final = _places.take(AUTOREGRESSION_WIDTH)
#: Evidence of the plain over the seasonal one.
MIXING: Final = _places.take()
LONG_LEVEL: Final = _places.take(NORMAL_WIDTH)
LONG_DIFFERENCE: Final = _places.take(NORMAL_WIDTH)
LOG_NORMAL: Final = _places.take(NORMAL_WIDTH)
RECENT_NORMAL: Final = _places.take(NORMAL_WIDTH)
ROUGHNESS_NORMAL: Final = _places.take(NORMAL_WIDTH)
RECENT_LEVEL: Final = _places.take()
RECENT_ROUGHNESS: Final = _places.take()
MEDIAN: Final = _places.take()
DEVIATION: Final = _places.take()

#: Columns of gauges, and of the array in memory.
WIDTH: Final = _places.used
