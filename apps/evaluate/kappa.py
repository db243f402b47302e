"""The detector `kappa`: the very models the novelty job runs, streamed window by window in event time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from apps.evaluate.interface import Scores
from apps.evaluate.recordings import Integers, Recording
from apps.evaluate.resources import evidence
from models.episode import ALARM
from models.interface import Block, Floats, Verdicts
from models.series import SeriesState, score_then_learn

#: Values after which a call to the models ends, as in the novelty job.
_CALL_VALUES: Final = 50_000
_READ: Final = 4


def _read(verdicts: Verdicts) -> tuple[Floats, Floats, Floats, Floats]:
    """Return surprise, alarm, log10 p and regime of a window's values."""
    return verdicts.surprise, verdicts.alarm, verdicts.log10_p, verdicts.regime.astype(np.float64)


class Kappa:
    """The models of the novelty job: all recordings are resources of one bucket, streamed in event time."""

    level: float = ALARM
    together: int = 16

    def detect(self, recordings: Sequence[Recording]) -> list[Scores]:
        """Stream the windows of all recordings through one state; each series is a class of its own."""
        state = SeriesState()
        sizes = [recording.values.shape[1] for recording in recordings]
        kinds = np.repeat([recording.likelihood for recording in recordings], sizes)
        state.grow(kinds, np.arange(sum(sizes)))
        told = _told(recordings)
        found = np.empty((_READ, len(told.value)))
        for begin, blocks in told.calls():
            verdicts = [_read(verdict) for verdict in score_then_learn(state, blocks)]
            read = [np.concatenate(part) for part in zip(*verdicts, strict=True)]
            found[:, begin : begin + len(read[0])] = read
        return _returned(recordings, told, found)


@dataclass(frozen=True)
class _Told:
    """All values of all recordings in order of (window's end, row); `origin` is their order before."""

    end_ms: Integers
    row: NDArray[np.intp]
    value: Floats
    weight: Floats
    origin: NDArray[np.intp]

    def calls(self) -> Iterator[tuple[int, list[Block]]]:
        """Yield whole windows of about 50,000 values: where they begin, and their blocks."""
        bounds = np.flatnonzero(np.diff(self.end_ms, prepend=-1, append=-1)).tolist()
        blocks: list[Block] = []
        begin = 0
        for first, last in pairwise(bounds):
            part = slice(first, last)
            blocks.append(Block(int(self.end_ms[first]), self.row[part], self.value[part], self.weight[part]))
            if last - begin >= _CALL_VALUES or last == len(self.value):
                yield begin, blocks
                begin, blocks = last, []


def _told(recordings: Sequence[Recording]) -> _Told:
    ends, rows, values, weights = [], [], [], []
    first = 0
    for recording in recordings:
        window, series = np.nonzero(np.isfinite(recording.values))
        ends.append(recording.end_ms[window])
        rows.append(first + series)
        values.append(recording.values[window, series])
        weights.append(np.full(len(window), recording.weight))
        first += recording.values.shape[1]
    end_ms = np.concatenate(ends)
    order = np.argsort(end_ms, kind="stable")
    row, value, weight = (np.concatenate(part)[order] for part in (rows, values, weights))
    return _Told(end_ms[order], row, value, weight, order)


def _returned(recordings: Sequence[Recording], told: _Told, found: Floats) -> list[Scores]:
    """Give each recording what was found of it."""
    back = np.empty_like(found)
    back[:, told.origin] = found
    scores, begin = [], 0
    for recording in recordings:
        present = np.isfinite(recording.values)
        part = np.full((_READ, *present.shape), np.nan)
        part[:, present] = back[:, begin : begin + int(present.sum())]
        begin += int(present.sum())
        surprise, alarm, log10_p, regime = part
        scores.append(Scores(surprise, alarm, evidence(surprise, recording.values), log10_p, regime))
    return scores
