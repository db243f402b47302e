"""The rows of NAB's files that count, and what a detection in each is worth; formulas in `apps.evaluate.nab`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from apps.evaluate.recordings import Flags, NabFile
from models.interface import Floats

_PROBATION: Final = 0.15
_LONGEST_PROBATION: Final = 750
_OUTSIDE: Final = -1
#: Detections further from the span before, in its widths, cost the full weight.
_FAR: Final = 3.0


@dataclass(frozen=True)
class Corpus:
    """The rows that count, of several files, in order.

    Attributes:
        span: Labelled span the row lies in, numbered through the corpus; -1 outside; shape (rows,).
        worth: A detection's worth at weight 1: in (0, 1] inside, in [-1, 0] outside, shape (rows,).
        file: File of the row, shape (rows,).
        rows: Rows of each file that count, of the file's own windows: `scores[file][rows]`.
        spans_of_file: Number of spans of each file; they count even if no row of theirs does.
        category: Category of each file.
    """

    span: NDArray[np.intp]
    worth: Floats
    file: NDArray[np.intp]
    rows: tuple[NDArray[np.intp], ...]
    spans_of_file: NDArray[np.intp]
    category: tuple[str, ...]

    @property
    def spans(self) -> int:
        """Number of labelled spans."""
        return int(self.spans_of_file.sum())

    @property
    def categories(self) -> tuple[str, ...]:
        """Names of the categories, in order."""
        return tuple(sorted(set(self.category)))

    def line_up(self, scores: Sequence[Floats]) -> Floats:
        """Bring scores, one array per file over its windows, to the corpus' rows; NaN never fires."""
        lined = np.concatenate([score[rows] for score, rows in zip(scores, self.rows, strict=True)])
        return np.where(np.isnan(lined), -np.inf, lined)

    def part(self, files: Flags) -> Part:
        """Return some of the files' rows, `files` has shape (files,)."""
        chosen = files[self.file]
        return Part(chosen, self.span[chosen], self.worth[chosen], int(self.spans_of_file[files].sum()))

    def of_category(self, name: str) -> Flags:
        """Tell which files are of a category."""
        return np.array([category == name for category in self.category])


@dataclass(frozen=True)
class Part:
    """Some of a corpus' rows: which, their spans and worth, and the number of spans."""

    chosen: Flags
    span: NDArray[np.intp]
    worth: Floats
    spans: int


def shape(x: Floats) -> Floats:
    """Return s(x) = 2 / (1 + exp(5 x)) - 1."""
    return np.asarray(-np.tanh(2.5 * x))


def probation(rows: int) -> int:
    """Return how many rows at the start of a file do not count."""
    return int(min(np.floor(_PROBATION * rows), _LONGEST_PROBATION))


def corpus(files: Sequence[NabFile]) -> Corpus:
    """Prepare the rows of files for scoring."""
    spans_of_file = np.array([len(file.anomalies) for file in files], np.intp)
    first = np.cumsum(spans_of_file) - spans_of_file
    rows, spans, worths = [], [], []
    for file, offset in zip(files, first.tolist(), strict=True):
        size = len(file.window_of_row)
        span, worth = _row_values(size, file.anomalies)
        counted = slice(probation(size), None)
        rows.append(file.window_of_row[counted])
        spans.append(np.where(span >= 0, span + offset, _OUTSIDE)[counted])
        worths.append(worth[counted])
    place = np.repeat(np.arange(len(files)), [len(part) for part in rows])
    categories = tuple(file.category for file in files)
    return Corpus(np.concatenate(spans), np.concatenate(worths), place, tuple(rows), spans_of_file, categories)


def _row_values(size: int, anomalies: Sequence[tuple[int, int]]) -> tuple[NDArray[np.intp], Floats]:
    """Return the span of each row of a file, and the worth of a detection there."""
    span, worth = np.full(size, _OUTSIDE), np.full(size, -1.0)
    for number, (first, last) in enumerate(anomalies):
        width = last - first + 1
        distance = np.arange(1, size - last) / max(width - 1, 1)
        worth[last + 1 :] = np.where(distance > _FAR, -1.0, shape(distance))
        span[first : last + 1] = number
        worth[first : last + 1] = shape(-np.arange(width, 0, -1) / width) / shape(np.array(-1.0))
    return span, worth


def all_files(rows: Corpus) -> Part:
    """Return the whole corpus as a part."""
    return rows.part(np.ones(len(rows.category), np.bool_))
