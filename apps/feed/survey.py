"""First reading of all files: spans, order, counts, constant series. Nothing is sent before it is known to be sound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from apps.feed.errors import FeedError
from apps.feed.series import SeriesTable
from apps.feed.sources import Counts, Points, Source


@dataclass(frozen=True)
class Span:
    """Event times of one file: first, last, and how far its rows go back behind an earlier one."""

    first_ns: int
    last_ns: int
    disorder_ns: int


@dataclass
class Survey:
    """What all files hold; `spans` and `counts` in the order of the sources, None for a file without a point."""

    table: SeriesTable = field(default_factory=SeriesTable)
    counts: list[Counts] = field(default_factory=list)
    spans: list[Span | None] = field(default_factory=list)
    constant_series: int = 0
    series: int = 0

    @property
    def points(self) -> int:
        """Points that can be fed."""
        return sum(counts.points for counts in self.counts)

    @property
    def first_ns(self) -> int:
        """First event time."""
        return min(span.first_ns for span in self.spans if span)

    @property
    def last_ns(self) -> int:
        """Last event time."""
        return max(span.last_ns for span in self.spans if span)


def survey(sources: Sequence[Source], progress: Callable[[Path, int], None] = lambda path, points: None) -> Survey:
    """Read all files once.

    Raises:
        FeedError: There is nothing to feed in any of them.
    """
    result, extremes = Survey(), _Extremes()
    for source in sources:
        counts = Counts()
        span: Span | None = None
        for points in source.read(result.table, counts):
            span = _extended(span, points)
            extremes.add(points, len(result.table))
            progress(source.path, len(points))
        result.counts.append(counts)
        result.spans.append(span)
    if not result.points:
        bad = sum(counts.bad_time_rows for counts in result.counts)
        message = (
            f"nothing to feed: {sum(counts.rows for counts in result.counts)} rows, {bad} of them without a valid time"
        )
        raise FeedError(message)
    result.series, result.constant_series = extremes.seen, extremes.constant
    return result


def _extended(span: Span | None, points: Points) -> Span:
    times = points.time_ns
    before = np.maximum.accumulate(times if span is None else np.concatenate(([span.last_ns], times)))[-len(times) :]
    disorder = max(int((before - times).max()), 0 if span is None else span.disorder_ns)
    first = int(times.min()) if span is None else min(span.first_ns, int(times.min()))
    return Span(first, int(before[-1]), disorder)


class _Extremes:
    """Smallest and largest value of every series."""

    def __init__(self) -> None:
        self._low: NDArray[np.float64] = np.empty(0)
        self._high: NDArray[np.float64] = np.empty(0)

    def add(self, points: Points, series: int) -> None:
        more = series - len(self._low)
        self._low = np.concatenate((self._low, np.full(more, np.inf)))
        self._high = np.concatenate((self._high, np.full(more, -np.inf)))
        np.minimum.at(self._low, points.series, points.value)
        np.maximum.at(self._high, points.series, points.value)

    @property
    def seen(self) -> int:
        return int((self._low <= self._high).sum())

    @property
    def constant(self) -> int:
        return int((self._low == self._high).sum())
