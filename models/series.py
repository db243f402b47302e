"""Models of a bucket's series: packed state, and the one step function over all likelihoods.

The state after a window is a function of the windows up to it, however they are cut into calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from models import autoregression, count, layout, prior, ratio, recursion, regime, verdict
from models.interface import Block, Floats, Likelihood, Rows, Verdicts
from models.recursion import FIRST_VALUE, LAST_MS

#: Raised with every change of the arrays' meaning; `SeriesState.from_bytes` refuses what it cannot read.
LAYOUT_VERSION: Final = 2
#: Names the models in records.
MODEL_VERSION: Final = "predictive-2"

_HEADER: Final = np.dtype("<i8")
_HEADER_FIELDS: Final = 4
_VISITS: Final = layout.SEASON_BINS // 2


class LayoutError(RuntimeError):
    """The arrays were written in a layout this code cannot read."""


@dataclass
class SeriesState:
    """State of all series of a bucket, one row each.

    Attributes:
        kind: `Likelihood` of each series, shape (n,).
        class_id: Series with equal numbers are alike: a new one starts from what the others know, shape (n,).
        matrix: State variables (`models.layout`), shape (n, WIDTH).
        visits: Visits of the season's bins, two per byte, shape (n, 24).
        origin: First value, and end of the last window in ms; NaN before the first; shape (n, 2).
    """

    kind: NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))
    class_id: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    matrix: NDArray[np.float32] = field(default_factory=lambda: np.empty((0, layout.WIDTH), np.float32))
    visits: NDArray[np.uint8] = field(default_factory=lambda: np.empty((0, _VISITS), np.uint8))
    origin: Floats = field(default_factory=lambda: np.empty((0, 2)))

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
        if not len(kinds):
            return
        self.kind = np.concatenate([self.kind, kinds])
        self.class_id = np.concatenate([self.class_id, classes])
        self.matrix = np.concatenate([self.matrix, np.tile(_BLANK, (len(kinds), 1))])
        self.visits = np.concatenate([self.visits, np.zeros((len(kinds), _VISITS), np.uint8)])
        self.origin = np.concatenate([self.origin, np.full((len(kinds), 2), np.nan)])

    def keep(self, kept: NDArray[np.bool_]) -> SeriesState:
        """Return the state of the series that are kept, in order; `kept` has shape (n,)."""
        return SeriesState(
            self.kind[kept], self.class_id[kept], self.matrix[kept], self.visits[kept], self.origin[kept]
        )

    def reset(self, rows: Rows, kind: NDArray[np.integer]) -> None:
        """Forget series and begin anew with another likelihood, in place."""
        self.kind[rows] = kind
        self.matrix[rows] = _BLANK
        self.visits[rows] = 0
        self.origin[rows] = np.nan

    def to_bytes(self) -> bytes:
        """Return the state as bytes; equal states have equal bytes. Counts and ratios store only what they use."""
        head = np.array([LAYOUT_VERSION, layout.WIDTH, layout.DISCRETE_WIDTH, len(self)], _HEADER)
        gauge = self.kind == Likelihood.GAUGE
        parts = [self.kind, self.class_id.astype("<i4", copy=False), self.origin.astype("<f8", copy=False), self.visits]
        parts += [
            self.matrix[gauge].astype("<f4", copy=False),
            self.matrix[~gauge, : layout.DISCRETE_WIDTH].astype("<f4", copy=False),
        ]
        return head.tobytes() + b"".join(part.tobytes() for part in parts)

    @classmethod
    def from_bytes(cls, blob: bytes | bytearray | memoryview) -> SeriesState:
        """Read what `to_bytes` wrote.

        Raises:
            LayoutError: It was written in another layout.
        """
        version, width, discrete_width = np.frombuffer(blob, _HEADER, _HEADER_FIELDS - 1).tolist()
        if (version, width, discrete_width) != (LAYOUT_VERSION, layout.WIDTH, layout.DISCRETE_WIDTH):
            message = f"models have layout {version}, this code reads layout {LAYOUT_VERSION}: start a new generation"
            raise LayoutError(message)
        size = int(np.frombuffer(blob, _HEADER, 1, (_HEADER_FIELDS - 1) * _HEADER.itemsize)[0])
        reader = _Reader(blob, _HEADER_FIELDS * _HEADER.itemsize)
        kind = reader.take("u1", size)
        class_id, origin = reader.take("<i4", size), reader.take("<f8", size, 2)
        visits = reader.take("u1", size, _VISITS)
        gauge = kind == Likelihood.GAUGE
        matrix = np.zeros((size, layout.WIDTH), np.float32)
        matrix[gauge] = reader.take("<f4", int(gauge.sum()), layout.WIDTH)
        matrix[~gauge, : layout.DISCRETE_WIDTH] = reader.take("<f4", int((~gauge).sum()), layout.DISCRETE_WIDTH)
        return cls(kind.copy(), class_id.astype(np.int32), matrix, visits.copy(), origin.astype(np.float64))

    def describe(self, row: int) -> dict[str, float]:
        """Return the named state variables of one series; {} before its first value."""
        if np.isnan(self.origin[row, LAST_MS]):
            return {}
        values = self.matrix[row]
        named = _NAMES | _OWN_NAMES[Likelihood(int(self.kind[row]))]
        described = {name: float(values[place]) for name, place in named.items()}
        return described | {"first_value": float(self.origin[row, FIRST_VALUE])}


class _Reader:
    """Reads consecutive arrays."""

    def __init__(self, blob: bytes | bytearray | memoryview, start: int) -> None:
        self._blob, self._at = blob, start

    def take(self, dtype: str, *shape: int) -> NDArray[Any]:
        array = np.frombuffer(self._blob, dtype, int(np.prod(shape)), self._at).reshape(shape)
        self._at += array.nbytes
        return array


_NAMES: Final = {
    "windows": layout.WINDOWS,
    "interval_s": layout.INTERVAL,
    "regime": regime.NUMBER,
    "regime_windows": regime.AGE,
    "regime_mean": regime.MEAN,
    "regime_squares": regime.SQUARES,
    "regime_weight": regime.WEIGHT,
}
_OWN_NAMES: Final = {
    Likelihood.GAUGE: {
        "mean": layout.PLAIN + autoregression.MEAN,
        "variance": layout.PLAIN + autoregression.VARIANCE,
        "slope": layout.PLAIN + autoregression.SLOPE,
        "previous": layout.PLAIN + autoregression.PREVIOUS,
        "log_evidence": layout.MIXING,
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


def _blank() -> NDArray[np.float32]:
    row = np.zeros(layout.WIDTH)
    verdict.begin(row)
    return row.astype(np.float32)


_BLANK: Final = _blank()


def score_then_learn(state: SeriesState, blocks: Sequence[Block]) -> list[Verdicts]:
    """Judge consecutive closed windows by what was known before each, and learn each.

    The state changes in place. Any cut of a sequence of blocks into calls gives the same bytes.

    Args:
        state: State of the bucket's series.
        blocks: Windows in order of their ends; values finite, weights positive.

    Returns:
        Verdicts of each block, in its order.
    """
    results: list[Verdicts] = []
    for newcomers, generation in _generations(state, blocks):
        prior.inform(state, newcomers)
        results += _run(state, generation)
    return results


def _generations(state: SeriesState, blocks: Sequence[Block]) -> Iterator[tuple[Rows, Sequence[Block]]]:
    """Cut before every window in which new series appear: their class must be asked as it was before that window."""
    unborn = np.isnan(state.origin[:, LAST_MS])
    nobody = np.empty(0, np.intp)
    cuts: list[tuple[int, Rows]] = []
    for index, block in enumerate(blocks):
        newcomers = block.rows[unborn[block.rows]]
        if len(newcomers):
            unborn[newcomers] = False
            cuts.append((index, newcomers))
    if not cuts or cuts[0][0] > 0:
        cuts.insert(0, (0, nobody))
    for (begin, newcomers), (end, _) in pairwise([*cuts, (len(blocks), nobody)]):
        yield newcomers, blocks[begin:end]


def _run(state: SeriesState, blocks: Sequence[Block]) -> list[Verdicts]:
    """Run the recursion over some windows."""
    sizes = [len(block.rows) for block in blocks]
    if not sum(sizes):
        return [no_verdicts() for _ in blocks]
    rows = np.concatenate([block.rows for block in blocks])
    out = np.zeros((len(rows), verdict.COLUMNS))
    recursion.run(
        state.kind,
        state.matrix,
        state.visits,
        state.origin,
        np.argsort(rows, kind="stable"),
        rows,
        np.repeat(np.array([block.end_ms for block in blocks], dtype=np.float64), sizes),
        np.concatenate([block.value for block in blocks]).astype(np.float64, copy=False),
        np.concatenate([block.weight for block in blocks]).astype(np.float64, copy=False),
        np.concatenate([_taught(block) for block in blocks]),
        out,
    )
    bounds = np.cumsum([0, *sizes]).tolist()
    return [_verdicts(out[begin:end]) for begin, end in pairwise(bounds)]


def no_verdicts() -> Verdicts:
    """Return the verdicts of no values."""
    return _verdicts(np.empty((0, verdict.COLUMNS)))


def _taught(block: Block) -> NDArray[np.bool_]:
    return np.ones(len(block.rows), np.bool_) if block.learn is None else block.learn


def _verdicts(out: Floats) -> Verdicts:
    columns = np.ascontiguousarray(out.T)
    return Verdicts(
        log10_p=columns[verdict.LOG10_P],
        surprise=columns[verdict.SURPRISE],
        alarm=columns[verdict.ALARM],
        expected=columns[verdict.EXPECTED],
        lower=columns[verdict.LOWER],
        upper=columns[verdict.UPPER],
        direction=columns[verdict.DIRECTION].astype(np.int8),
        observations=columns[verdict.OBSERVATIONS],
        anomaly=columns[verdict.ANOMALY],
        new_normal=columns[verdict.NEW_NORMAL],
        regime=columns[verdict.REGIME].astype(np.int32),
        regime_windows=columns[verdict.REGIME_AGE],
        sustained=columns[verdict.SUSTAINED] > 0,
    )


def adopt(state: SeriesState, rows: Rows) -> None:
    """Take the present excursion of some series for their new normal, in place; without one nothing happens."""
    for row in rows.tolist():
        work = state.matrix[row].astype(np.float64)
        if regime.adopt_excursion(work):
            state.matrix[row] = work


def prepare() -> None:
    """Compile everything: the first window of a job need not wait for it."""
    state = SeriesState()
    state.grow(list(Likelihood), [0, 0, 0])
    score_then_learn(state, [Block(60_000, np.arange(3), np.ones(3), np.full(3, 60.0))])
    adopt(state, np.arange(3))
