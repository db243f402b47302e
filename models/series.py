"""Models of a bucket's series: packed state, and the one step function over all likelihoods.

The state after a window is a function of the windows up to it, however they are cut into calls: the recursion runs
window by window, vectorised over series; the tails of all windows of a call are evaluated at once, elementwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from models import count, gauge, ratio
from models.interface import Block, Floats, Likelihood, Rows, Verdicts
from models.layout import LAST_MS, WIDTH, WINDOWS, Step

#: Raised with every change of the arrays' meaning; `SeriesState.from_bytes` refuses what it cannot read.
LAYOUT_VERSION: Final = 1
#: Names the models in records.
MODEL_VERSION: Final = "conjugate-1"

_HEADER: Final = np.dtype("<i8")
_MS_PER_S: Final = 1000.0
_ENGINES: Final = {
    Likelihood.GAUGE: gauge.score_then_learn,
    Likelihood.COUNT: count.score_then_learn,
    Likelihood.RATIO: ratio.score_then_learn,
}


class LayoutError(RuntimeError):
    """The arrays were written in a layout this code cannot read."""


def _no_series() -> Floats:
    return np.empty((WIDTH, 0))


@dataclass
class SeriesState:
    """State of all series of a bucket, one column each.

    Attributes:
        kind: `Likelihood` of each series, shape (n,).
        class_id: Series with equal numbers are alike: a new one starts from what the others know, shape (n,).
        matrix: State variables, shape (WIDTH, n); row LAST_MS is NaN before the first value.
    """

    kind: NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))
    class_id: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    matrix: Floats = field(default_factory=_no_series)

    def __len__(self) -> int:
        """Return the number of series."""
        return len(self.kind)

    def grow(self, kind: Sequence[int] | Rows, class_id: Sequence[int] | Rows) -> None:
        """Add series at the end, in place.

        Args:
            kind: `Likelihood` of each.
            class_id: Class of each; any 32-bit integers.
        """
        kinds, classes = np.asarray(kind, np.uint8), np.asarray(class_id, np.int32)
        self.kind = np.concatenate([self.kind, kinds])
        self.class_id = np.concatenate([self.class_id, classes])
        self.matrix = np.concatenate([self.matrix, _unknown(len(kinds))], axis=1)

    def keep(self, kept: NDArray[np.bool_]) -> SeriesState:
        """Return the state of the series that are kept, in order; `kept` has shape (n,)."""
        return SeriesState(self.kind[kept], self.class_id[kept], np.ascontiguousarray(self.matrix[:, kept]))

    def reset(self, rows: Rows, kind: NDArray[np.integer]) -> None:
        """Forget series and begin anew with another likelihood, in place."""
        self.kind[rows] = kind
        self.matrix[:, rows] = _unknown(len(rows))

    def to_bytes(self) -> bytes:
        """Return the state as bytes; equal states have equal bytes."""
        head = np.array([LAYOUT_VERSION, WIDTH, len(self)], _HEADER)
        arrays = (self.matrix.astype("<f8", copy=False), self.class_id.astype("<i4", copy=False), self.kind)
        return head.tobytes() + b"".join(array.tobytes() for array in arrays)

    @classmethod
    def from_bytes(cls, blob: bytes | bytearray | memoryview) -> SeriesState:
        """Read what `to_bytes` wrote.

        Raises:
            LayoutError: It was written in another layout.
        """
        version, width, size = np.frombuffer(blob, _HEADER, 3).tolist()
        if (version, width) != (LAYOUT_VERSION, WIDTH):
            message = f"models have layout {version}, this code reads layout {LAYOUT_VERSION}: start a new generation"
            raise LayoutError(message)
        start = 3 * _HEADER.itemsize
        matrix = np.frombuffer(blob, "<f8", WIDTH * size, start).reshape(WIDTH, size)
        start += matrix.nbytes
        class_id = np.frombuffer(blob, "<i4", size, start)
        kind = np.frombuffer(blob, np.uint8, size, start + class_id.nbytes)
        return cls(kind.copy(), class_id.astype(np.int32), matrix.astype(np.float64))

    def describe(self, row: int) -> dict[str, float]:
        """Return the named state variables of one series; {} before its first value."""
        values = self.matrix[:, row]
        if np.isnan(values[LAST_MS]):
            return {}
        named = _NAMES[Likelihood(int(self.kind[row]))]
        return {"windows": float(values[WINDOWS])} | {name: float(values[place]) for name, place in named.items()}


_NAMES: Final = {
    Likelihood.GAUGE: {
        "mean": gauge.MEAN.start,
        "mean_weight": gauge.MEAN_WEIGHT.start,
        "squares": gauge.SQUARES.start,
        "squares_weight": gauge.SPREAD_WEIGHT.start,
        "difference_mean": gauge.MEAN.start + 1,
        "difference_squares": gauge.SQUARES.start + 1,
        "log_evidence": gauge.EVIDENCE.start,
        "previous": gauge.PREVIOUS.start,
    },
    Likelihood.COUNT: {
        "shape": count.SHAPE,
        "exposure_s": count.EXPOSURE,
        "dispersion_sum": count.EXCESS,
        "dispersion_weight": count.EXCESS_WEIGHT,
    },
    Likelihood.RATIO: {
        "hits": ratio.HITS,
        "misses": ratio.MISSES,
        "correlation_sum": ratio.EXCESS,
        "correlation_weight": ratio.EXCESS_WEIGHT,
    },
}


def _unknown(size: int) -> Floats:
    matrix = np.zeros((WIDTH, size))
    matrix[LAST_MS] = np.nan
    return matrix


def score_then_learn(state: SeriesState, blocks: Sequence[Block], memory_s: float) -> list[Verdicts]:
    """Judge consecutive closed windows by what was known before each, and learn each.

    The state changes in place. Everything is learned, outliers with bounded weight. Any cut of a sequence of blocks
    into calls gives the same bytes.

    Args:
        state: State of the bucket's series.
        blocks: Windows in order of their ends; values finite, weights positive.
        memory_s: The weight of a window falls by 1/e over this span of event time, in seconds.

    Returns:
        Verdicts of each block, in its order.
    """
    results = [_blank(len(block.rows)) for block in blocks]
    for kind in Likelihood:
        members = np.flatnonzero(state.kind == kind)
        if len(members):
            _run(state, kind, members, blocks, results, memory_s * _MS_PER_S)
    return results


def _run(
    state: SeriesState,
    kind: Likelihood,
    members: Rows,
    blocks: Sequence[Block],
    results: list[Verdicts],
    memory_ms: float,
) -> None:
    """Run the engine of one likelihood over all blocks."""
    place = np.full(len(state), -1)
    place[members] = np.arange(len(members))
    chosen = _split(blocks, place)
    steps = _steps(blocks, place, chosen, len(members))
    if not steps:
        return
    working = np.ascontiguousarray(state.matrix[:, members])
    verdicts = _ENGINES[kind](working, state.class_id[members], steps, memory_ms)
    state.matrix[:, members] = working
    _scatter(verdicts, chosen, results)


def _split(blocks: Sequence[Block], place: Rows) -> list[Rows]:
    """Return per block where its values of one likelihood stand."""
    chosen: list[Rows] = []
    previous = None
    for block in blocks:
        if previous is not None and np.array_equal(block.rows, previous):
            chosen.append(chosen[-1])
        else:
            chosen.append(np.flatnonzero(place[block.rows] >= 0))
        previous = block.rows
    return chosen


def _steps(blocks: Sequence[Block], place: Rows, chosen: list[Rows], size: int) -> list[Step]:
    bounds = np.cumsum([0, *(len(values) for values in chosen)]).tolist()
    steps = []
    for block, values, (begin, end) in zip(blocks, chosen, pairwise(bounds), strict=True):
        if end > begin:
            at: slice | Rows = slice(None) if end - begin == size else place[block.rows[values]]
            out = slice(begin, end)
            steps.append(Step(block.end_ms, at, block.value[values], block.weight[values], out))
    return steps


def _blank(size: int) -> Verdicts:
    return Verdicts(
        np.zeros(size), np.full(size, np.nan), np.full(size, np.nan), np.full(size, np.nan),
        np.ones(size, np.int8), np.zeros(size),
    )  # fmt: skip


def _scatter(verdicts: Verdicts, chosen: list[Rows], results: list[Verdicts]) -> None:
    begin = 0
    for values, result in zip(chosen, results, strict=True):
        part = slice(begin, begin + len(values))
        for name in ("log10_p", "expected", "lower", "upper", "direction", "observations"):
            getattr(result, name)[values] = getattr(verdicts, name)[part]
        begin = part.stop
