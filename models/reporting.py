"""Reporting habits of resources: how often each one reports, and whether it has fallen silent.

The interval between windows with a record is learned in logarithms, with a bounded step, so that one outage does not
teach that the resource reports rarely. Event time only: silence is found from closed windows, not from a clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from models.interface import Floats

LAYOUT_VERSION: Final = 1

_COLUMNS: Final = 3
#: Memory of the learned interval, in reports.
_MEMORY: Final = 32.0
#: A gap counts as at most this many learned intervals.
_LARGEST_RATIO: Final = 3.0
#: Reports before a resource can be missed.
_LEAST_REPORTS: Final = 3.0
#: A silence that just reaches the limit has this p; each further such span squares it, down to the floor.
_LOG10_P_AT_LIMIT: Final = -4.0
_LOG10_P_LEAST: Final = -12.0


def _no_resources() -> Floats:
    return np.empty((_COLUMNS, 0))


@dataclass
class ReportingState:
    """Reporting habits, one column per resource.

    Attributes:
        matrix: End of the last window with a record (NaN before the first), learned interval in ms, reports (up to the
            memory); shape (3, n).
    """

    matrix: Floats = field(default_factory=_no_resources)

    def __len__(self) -> int:
        """Return the number of resources."""
        return int(self.matrix.shape[1])

    def grow(self, count: int) -> None:
        """Add resources at the end, in place."""
        new = np.zeros((_COLUMNS, count))
        new[0] = np.nan
        self.matrix = np.concatenate([self.matrix, new], axis=1)

    def keep(self, kept: NDArray[np.bool_]) -> ReportingState:
        """Return the state of the resources that are kept, in order."""
        return ReportingState(np.ascontiguousarray(self.matrix[:, kept]))

    def to_bytes(self) -> bytes:
        """Return the state as bytes."""
        return np.array([LAYOUT_VERSION], "<i8").tobytes() + self.matrix.astype("<f8").tobytes()

    @classmethod
    def from_bytes(cls, blob: bytes | bytearray | memoryview) -> ReportingState:
        """Read what `to_bytes` wrote.

        Raises:
            ValueError: It was written in another layout.
        """
        version = int(np.frombuffer(blob, "<i8", 1)[0])
        if version != LAYOUT_VERSION:
            message = f"reporting has layout {version}, this code reads {LAYOUT_VERSION}: start a new generation"
            raise ValueError(message)
        return cls(np.frombuffer(blob, "<f8", offset=8).astype(np.float64).reshape(_COLUMNS, -1))


def judge_then_learn(
    state: ReportingState, end_ms: int, reported: NDArray[np.bool_], silent_intervals: float
) -> Floats:
    """Judge who is silent in the window, then learn who reported; the state changes in place and grows as needed.

    A resource is silent when its last record is more than `silent_intervals` of its learned intervals ago.

    Args:
        state: State.
        end_ms: End of the window.
        reported: Which resource reported, shape (n,), n not below the known number.
        silent_intervals: Limit, at least 1.

    Returns:
        log10 p of the silent ones, NaN for all others, shape (n,).
    """
    if len(reported) > len(state):
        state.grow(len(reported) - len(state))
    last, interval, reports = state.matrix[:, : len(reported)]
    gap = np.where(np.isnan(last), 0.0, end_ms - last)
    limits = gap / np.maximum(interval * silent_intervals, 1.0)
    # At the window in which the limit is reached exactly, the resource is not yet overdue.
    silent = ~reported & (reports >= _LEAST_REPORTS) & (limits > 1.0)
    log10_p = np.where(silent, np.maximum(_LOG10_P_AT_LIMIT * limits, _LOG10_P_LEAST), np.nan)
    _learn(last, interval, reports, reported & (gap > 0), gap)
    last[reported] = end_ms
    return log10_p


def silent_since(state: ReportingState) -> Floats:
    """Return the end of each resource's last window with a record, NaN before the first, shape (n,)."""
    return np.asarray(state.matrix[0].copy())


def _learn(last: Floats, interval: Floats, reports: Floats, again: NDArray[np.bool_], gap: Floats) -> None:
    """Learn the gaps of those that reported again; `last` is replaced by the caller."""
    del last
    reports[again] = np.minimum(reports[again] + 1.0, _MEMORY)
    known = again & (interval > 0)
    ratio = gap[known] / interval[known]
    step = np.log(np.clip(ratio, 1 / _LARGEST_RATIO, _LARGEST_RATIO)) / reports[known]
    interval[known] *= np.exp(step)
    first = again & (interval <= 0)
    interval[first] = gap[first]
