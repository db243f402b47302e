"""All files as one stream in the order of arrival.

Each file is read in chunks. What may still come from a file arrives no earlier than its newest event time seen, less
its known disorder, plus the smallest delay: its *frontier*. Everything before the smallest frontier is final and goes
out, sorted by (arrival, file, row). So memory holds about one chunk per open file, and the order does not depend on
chunk sizes. Files are opened when the stream reaches them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from apps.feed.delays import DelayModel
from apps.feed.errors import FeedError
from apps.feed.series import Codes, SeriesTable
from apps.feed.sources import Counts, Floats, Points, Source
from apps.feed.survey import Span
from apps.feed.times import Times

_NS_PER_MS = 10**6
_FOR_EVER = 2**63 - 1


@dataclass(frozen=True)
class Arrivals:
    """Points in the order of arrival; all arrays of one length."""

    arrival_ms: NDArray[np.int64]
    series: Codes
    time_ns: Times
    value: Floats

    def __len__(self) -> int:
        return len(self.series)

    def part(self, start: int, stop: int) -> Arrivals:
        """Return the points [start, stop)."""
        part = slice(start, stop)
        return Arrivals(self.arrival_ms[part], self.series[part], self.time_ns[part], self.value[part])


def _joined(parts: Sequence[Arrivals]) -> Arrivals:
    """Return all points by arrival; equal arrivals keep the order of the parts."""
    arrival = np.concatenate([part.arrival_ms for part in parts])
    order = np.argsort(arrival, kind="stable")
    return Arrivals(
        arrival[order],
        np.concatenate([part.series for part in parts])[order],
        np.concatenate([part.time_ns for part in parts])[order],
        np.concatenate([part.value for part in parts])[order],
    )


class _Stream:
    """One file, read chunk by chunk, with what it must still hold back."""

    def __init__(
        self, source: Source, span: Span, table: SeriesTable, delay: DelayModel, seed: tuple[int, int]
    ) -> None:
        self.path = source.path
        self._source, self._table, self._delay, self._seed = source, table, delay, seed
        self._span = span
        self._newest_ns = span.first_ns
        self._chunks: Iterator[Points] | None = None
        self._exhausted = False
        self.held: Arrivals | None = None

    @property
    def frontier_ms(self) -> int:
        """No point still to be read arrives before this."""
        if self._exhausted:
            return _FOR_EVER
        earliest_ns = max(self._span.first_ns, self._newest_ns - self._span.disorder_ns)
        return int(_arrival_ms(np.array([earliest_ns]))[0]) + self._delay.smallest_ms

    def advance(self, block_bytes: int) -> None:
        """Read the next chunk."""
        if self._chunks is None:
            self._generator = np.random.default_rng(self._seed)
            self._chunks = self._source.read(self._table, Counts(), block_bytes)
        points = next(self._chunks, None)
        if points is None:
            self._exhausted = True
            return
        self._newest_ns = max(self._newest_ns, int(points.time_ns.max()))
        arrival = _arrival_ms(points.time_ns) + self._delay.draw_ms(len(points), self._generator)
        fresh = Arrivals(arrival, points.series, points.time_ns, points.value)
        self.held = _joined([self.held, fresh] if self.held is not None else [fresh])

    def release(self, before_ms: int) -> Arrivals | None:
        """Take out what arrives before a time."""
        if self.held is None:
            return None
        cut = int(np.searchsorted(self.held.arrival_ms, before_ms))
        released, rest = self.held.part(0, cut), self.held.part(cut, len(self.held))
        self.held = rest if len(rest) else None
        return released if len(released) else None


def _arrival_ms(time_ns: Times) -> NDArray[np.int64]:
    # Rounded up: a point must not arrive before it happened.
    return -(-time_ns // _NS_PER_MS)


@dataclass(frozen=True)
class MergeOptions:
    """How files become one stream.

    Attributes:
        delay: Delay of arrival behind event time.
        seed: Seed of the delays; every file has its own stream of numbers.
        block_bytes: Chunk of CSV text; a smaller one takes less memory.
        hold_points: Most points kept in memory (28 bytes each).
    """

    delay: DelayModel = field(default_factory=DelayModel)
    seed: int = 0
    block_bytes: int = 4 * 1024 * 1024
    hold_points: int = 50_000_000


def merged(
    sources: Sequence[Source], spans: Sequence[Span | None], table: SeriesTable, options: MergeOptions
) -> Iterator[Arrivals]:
    """Yield all points in the order of arrival.

    Args:
        sources: The files.
        spans: Their spans from the survey; a file with None is left out.
        table: Numbers the series.
        options: Delay, seed and limits.

    Raises:
        FeedError: Files are so much out of order that too many points would have to be held.
    """
    streams = [
        _Stream(source, span, table, options.delay, (options.seed, number))
        for number, (source, span) in enumerate(zip(sources, spans, strict=True))
        if span is not None
    ]
    while streams:
        lagging = min(streams, key=lambda stream: stream.frontier_ms)
        lagging.advance(options.block_bytes)
        frontier = min(stream.frontier_ms for stream in streams)
        released = [part for stream in streams if (part := stream.release(frontier)) is not None]
        if released:
            yield _joined(released)
        _refuse_too_many(streams, options.hold_points)
        streams = [stream for stream in streams if stream.frontier_ms < _FOR_EVER or stream.held is not None]


def _refuse_too_many(streams: Sequence[_Stream], hold_points: int) -> None:
    held = {stream.path: len(stream.held) for stream in streams if stream.held is not None}
    if sum(held.values()) > hold_points:
        worst = max(held, key=lambda path: held[path])
        message = (
            f"more than {hold_points:,} points would have to be held in memory because {worst} is not in the order of "
            "time: sort it by time, or raise --hold-points (28 bytes each)"
        )
        raise FeedError(message)
