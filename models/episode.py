"""From calibrated surprise to alarms: one per episode, and rarer for what this series shows again and again.

    M <- M 2^(-1/50);   a = c if c > M else 0;   M = max(M, c)              leaky maximum
    alarm = a - log10(1 + own alarms of late that were at least 0.9 a)      novelty among own alarms
    within 30 windows of an alarm: 0.3 of it                                refractory time

Everything is always learned: there is no lock-out.
"""

from __future__ import annotations

import math
from typing import Final

from models import layout
from models.compiled import compiled
from models.interface import Floats

#: Default level of an alarm: about 0.15 of them per day and clean series of 5-minute windows.
ALARM: Final = 2.3
_LEAK: Final = 2.0 ** (-1 / 50)
_BIN: Final = 0.6
_AS_LARGE: Final = 0.9
_MEMORY: Final = 1 - 1 / 8_000
_REFRACTORY: Final = 30.0
_REFRACTORY_SHARE: Final = 0.3
_LONG_AGO: Final = 1e6


@compiled
def start(s: Floats) -> None:
    """Begin without alarms."""
    s[layout.EPISODE_SINCE] = _LONG_AGO


@compiled
def shape_then_learn(s: Floats, calibrated: float) -> float:
    """Return the alarm score of a window; the state changes in place."""
    leaky = s[layout.EPISODE_MAXIMUM] * _LEAK
    rising = calibrated if calibrated > leaky else 0.0
    s[layout.EPISODE_MAXIMUM] = max(leaky, calibrated)
    alarm = _among_own_then_learn(s, rising)
    if s[layout.EPISODE_SINCE] < _REFRACTORY:
        alarm *= _REFRACTORY_SHARE
    s[layout.EPISODE_SINCE] = 0.0 if alarm >= ALARM else min(s[layout.EPISODE_SINCE] + 1, _LONG_AGO)
    return alarm


@compiled
def _among_own_then_learn(s: Floats, rising: float) -> float:
    as_large = 0.0
    least = min(_AS_LARGE * rising, (layout.ALARM_BINS - 1) * _BIN)
    for index in range(layout.ALARM_BINS):
        if index * _BIN >= least:
            as_large += s[layout.EPISODE_ALARMS + index]
        s[layout.EPISODE_ALARMS + index] *= _MEMORY
    if rising <= 0:
        return 0.0
    s[layout.EPISODE_ALARMS + min(int(rising / _BIN), layout.ALARM_BINS - 1)] += 1
    return max(rising - math.log10(1 + as_large), 0.0)
