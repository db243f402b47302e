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
        log10_p: Decimal logarithm of the two-sided predictive tail probability, <= 0, finite (p itself underflows).
        expected: Predictive median, in units of the value per weight as the block gave it; NaN while nothing is known.
        lower: Lower bound of the 99 % predictive interval.
        upper: Upper bound of it.
        direction: +1 above the expectation, -1 below.
        observations: Effective number of windows the prediction rests on (0: class prior only).
    """

    log10_p: Floats
    expected: Floats
    lower: Floats
    upper: Floats
    direction: NDArray[np.int8]
    observations: Floats


#: Smallest log10 p ever reported.
LOG10_P_FLOOR: Final = -300.0
