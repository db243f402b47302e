"""The one interface between the novelty job and its models: state arrays in, verdicts and state arrays out.

The fold owns names (which row is which series); a model sees only rows. `score_then_learn` of `models.series` takes the
packed state of a bucket's series and consecutive closed windows, and returns one `Verdicts` per window.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]


class Likelihood(IntEnum):
    """How a series' window value is distributed."""

    GAUGE = 0  #: window mean of a continuous quantity; weight = samples
    COUNT = 1  #: events in a window; weight = exposure in seconds
    RATIO = 2  #: successes; weight = trials


@dataclass(frozen=True)
class Block:
    """One closed window of one bucket: the series that were observed in it.

    Attributes:
        end_ms: End of the window, event time.
        rows: Rows of the state the values belong to, ascending, shape (k,).
        value: Window mean, events or successes, finite, shape (k,).
        weight: Samples, exposure in seconds or trials, positive, shape (k,).
        learn: Which values the models are taught, shape (k,); all of them when None. All are judged.
    """

    end_ms: int
    rows: Rows
    value: Floats
    weight: Floats
    learn: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class Verdicts:
    """What the model says about the values of one block, in its order; all of shape (k,).

    Attributes:
        log10_p: Decimal logarithm of the calibrated two-sided tail probability, <= 0, finite (p itself underflows).
        surprise: -log10 of the raw tail under a long memory: for ranking, >= 0.
        alarm: Calibrated surprise shaped into episodes; `models.episode.ALARM` and above is an alarm.
        expected: Predictive median, in units of the value per weight as the block gave it; NaN while nothing is known.
        lower: Lower bound of the 99 % predictive interval.
        upper: Upper bound of it.
        direction: +1 above the expectation, -1 below.
        observations: Number of windows the prediction rests on (0: class prior only).
        anomaly: Probability that the value is an anomaly.
        new_normal: Probability that it belongs to a new normal; what is left is the present normal's.
        regime: Number of the regime the series lives in, 0 for its first.
        regime_windows: Windows since the regime began or was reopened.
        sustained: Whether the evidence lies in the last windows together rather than in this one.
    """

    log10_p: Floats
    surprise: Floats
    alarm: Floats
    expected: Floats
    lower: Floats
    upper: Floats
    direction: NDArray[np.int8]
    observations: Floats
    anomaly: Floats
    new_normal: Floats
    regime: NDArray[np.int32]
    regime_windows: Floats
    sustained: NDArray[np.bool_]


#: Smallest log10 p ever reported.
LOG10_P_FLOOR: Final = -300.0
