"""Columns common to all likelihoods, and how a call's windows are cut up for one likelihood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from models.interface import Floats, Rows

#: Floats per series.
WIDTH: Final = 36
#: End of the last window with a value, NaN before the first.
LAST_MS: Final = 0
#: Effective number of own windows: grows by 1 per window, forgets with the memory.
WINDOWS: Final = 1
#: First column that belongs to the likelihood.
OWN: Final = 2

#: Own windows after which an outlier is no longer learned in full.
SETTLED: Final = 20.0
#: Outliers of settled series are learned as if they were this many deviations off.
LEARNED_DEVIATIONS: Final = 5.0
#: Weight of the class prior, in windows.
PRIOR_WINDOWS: Final = 5.0
#: Siblings needed, with so many own windows each, before a class says anything about a new series.
SIBLINGS: Final = 3
SIBLING_WINDOWS: Final = 3.0


@dataclass(frozen=True)
class Step:
    """The values of one likelihood in one window.

    Attributes:
        end_ms: End of the window.
        at: Which columns of the working array; a full slice where all are present.
        value: Values, shape (k,).
        weight: Weights, shape (k,).
        out: Where the step's results belong.
    """

    end_ms: int
    at: slice | Rows
    value: Floats
    weight: Floats
    out: slice


@dataclass(frozen=True)
class Siblings:
    """Known series of the classes that new series belong to.

    Attributes:
        columns: Columns of the working array that hold them, shape (m,).
        group: Number of each one's class, shape (m,).
        newcomer: Number of each new series' class, shape (k,).
        classes: How many classes.
    """

    columns: Rows
    group: Rows
    newcomer: Rows
    classes: int

    def total(self, values: Floats) -> Floats:
        """Add up values of shape (..., m) per class; shape (..., classes)."""
        *leading, size = values.shape
        flat = values.reshape(int(np.prod(leading)), size)
        sums = [np.bincount(self.group, row, self.classes) for row in flat]
        return np.array(sums, dtype=np.float64).reshape(*leading, self.classes)

    def count(self) -> Floats:
        """Return the number of known series per class."""
        return np.asarray(np.bincount(self.group, minlength=self.classes), dtype=np.float64)


def siblings(working: Floats, class_id: NDArray[np.int32], newcomers: Rows) -> Siblings:
    """Find the known series that share a class with new ones.

    Args:
        working: State of all series of the likelihood, shape (WIDTH, n).
        class_id: Class of each, shape (n,).
        newcomers: Columns of the new ones.
    """
    classes, newcomer = np.unique(class_id[newcomers], return_inverse=True)
    known = np.flatnonzero(working[WINDOWS] >= SIBLING_WINDOWS)
    place = np.minimum(np.searchsorted(classes, class_id[known]), len(classes) - 1)
    same = classes[place] == class_id[known]
    return Siblings(known[same], place[same], newcomer, len(classes))


def forgetting(last_ms: Floats, end_ms: int, memory_ms: float) -> Floats:
    """Return the factor by which evidence fades until `end_ms`: exp(-elapsed / memory), 1 where there is none."""
    elapsed = np.nan_to_num(end_ms - last_ms, nan=0.0)
    return np.exp(-np.clip(elapsed / memory_ms, 0.0, 7.0))


def settled_limit(windows: Floats, deviations: float = LEARNED_DEVIATIONS) -> Floats:
    """Return how many deviations of a value are learned."""
    return np.where(windows > SETTLED, deviations, np.inf)
