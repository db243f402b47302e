"""Spikes, shifts and changes of spread in clean series: is only a new normal adopted, and how many alarms are there?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from apps.evaluate.interface import Detector
from apps.evaluate.synthetic import DAY, SEED, clean
from models.interface import Floats

#: Window in which the disturbance begins; windows after it in which a shift should be adopted.
BEGIN: Final = 2 * DAY
ADOPTED_WITHIN: Final = 12
_WATCHED: Final = DAY
_SPIKE_HEIGHTS: Final = (5.0, 8.0, 20.0)
SPIKES: Final = (1, 3, 5)


@dataclass(frozen=True)
class Disturbed:
    """What became of a disturbance in many series.

    Attributes:
        series: Their number.
        adopted: How many took it for a new normal: within 12 windows of its begin (shift), or of its end (spike);
            None if the detector knows no regimes.
        alarmed: How many alarmed within 12 windows.
        mean_alarms: Alarms per series within a day of its begin.
        at_most_ten: Share of series with at most ten of them.
    """

    series: int
    adopted: int | None
    alarmed: int
    mean_alarms: float
    at_most_ten: float


def spike(detector: Detector, length: int, series: int = 2000) -> Disturbed:
    """Lift clean series by 5, 8 or 20 deviations for some windows."""
    heights = np.resize(_SPIKE_HEIGHTS, series)
    return _disturb(detector, lambda noise: _lifted(noise, heights, length), length, series)


def shift(detector: Detector, deviations: float, series: int = 2000) -> Disturbed:
    """Lift clean series for good."""
    return _disturb(detector, lambda noise: _lifted(noise, np.full(series, deviations), _WATCHED), 0, series)


def spread(detector: Detector, factor: float, series: int = 2000) -> Disturbed:
    """Multiply the deviation of clean series for good."""
    return _disturb(detector, lambda noise: np.concatenate([noise[:BEGIN], factor * noise[BEGIN:]]), 0, series)


SHIFTS: Final[Mapping[str, Callable[[Detector], Disturbed]]] = {
    "shift by 3 deviations": lambda detector: shift(detector, 3),
    "shift by 5 deviations": lambda detector: shift(detector, 5),
    "shift by 8 deviations": lambda detector: shift(detector, 8),
    "deviation x 3": lambda detector: spread(detector, 3),
    "variance x 3": lambda detector: spread(detector, 3**0.5),
}


def _lifted(noise: Floats, heights: Floats, length: int) -> Floats:
    values = noise.copy()
    values[BEGIN : BEGIN + length] += heights
    return values


def _disturb(detector: Detector, change: Callable[[Floats], Floats], length: int, series: int) -> Disturbed:
    rng = np.random.default_rng([SEED, length, series])
    values = 100 + 5 * change(rng.standard_normal((BEGIN + _WATCHED, series)))
    plain = clean("iid", len(values), series)
    [scores] = detector.detect([replace(plain, values=values)])
    alarms = scores.alarm[BEGIN:] >= detector.level
    soon = slice(0, length + ADOPTED_WITHIN)
    return Disturbed(
        series,
        _adopted(scores.regime, soon),
        int(alarms[soon].any(axis=0).sum()),
        float(alarms.sum(axis=0).mean()),
        float((alarms.sum(axis=0) <= 10).mean()),
    )


def _adopted(regime: Floats | None, soon: slice) -> int | None:
    """Count the series that are not in the regime they were in before the disturbance."""
    return None if regime is None else int((regime[BEGIN:][soon] != regime[BEGIN - 1]).any(axis=0).sum())
