"""Season: what the time of day explains, in half-hour bins.

On leaving a bin:  W <- 0.75 W + 1,   profile <- profile + (mean of the bin's windows - profile) / W
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from models import layout
from models.compiled import compiled
from models.interface import Floats

BIN_S: Final = 1_800.0
_KEPT: Final = 0.75
#: Visits after which a bin's weight no longer grows; two of them share a byte.
_MOST_VISITS: Final = 15
_HALF_BYTE: Final = 4


@compiled
def enter(s: Floats, visits: NDArray[np.uint8], time_s: float) -> int:
    """Return the bin of a time; on entering it, close the one before.

    Args:
        s: State of the series.
        visits: How often each bin was left, two per byte, shape (24,).
        time_s: Event time.
    """
    now = int(time_s / BIN_S) % layout.SEASON_BINS
    before = int(s[layout.SEASON_BIN]) - 1
    if before == now:
        return now
    if before >= 0 and s[layout.SEASON_COUNT] > 0:
        times = min(visited(visits, before) + 1, _MOST_VISITS)
        weight = (1 - _KEPT**times) / (1 - _KEPT)
        at = layout.SEASON + before
        s[at] += (s[layout.SEASON_SUM] / s[layout.SEASON_COUNT] - s[at]) / weight
        _set_visited(visits, before, times)
    s[layout.SEASON_BIN], s[layout.SEASON_SUM], s[layout.SEASON_COUNT] = now + 1.0, 0.0, 0.0
    return now


@compiled
def learn(s: Floats, value: float, weight: float) -> None:
    """Add a value and its weight to the present bin."""
    s[layout.SEASON_SUM] += value
    s[layout.SEASON_COUNT] += weight


@compiled
def visited(visits: NDArray[np.uint8], place: int) -> int:
    """Return how often a bin was left, at most 15."""
    return (int(visits[place // 2]) >> (_HALF_BYTE * (place % 2))) & _MOST_VISITS


@compiled
def _set_visited(visits: NDArray[np.uint8], place: int, times: int) -> None:
    other = int(visits[place // 2]) & (_MOST_VISITS << (_HALF_BYTE * ((place + 1) % 2)))
    visits[place // 2] = other | (times << (_HALF_BYTE * (place % 2)))
