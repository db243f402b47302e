"""Feeding tables: survey, checks, then points in the order of arrival with the ticks of their clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import numpy as np

from apps.feed.encoding import PointEncoder
from apps.feed.errors import FeedError
from apps.feed.guard import raw_partitions, reached, require_history, require_later
from apps.feed.merge import Arrivals, MergeOptions, merged
from apps.feed.series import Rules
from apps.feed.sources import Source
from apps.feed.survey import Survey, survey
from apps.feed.times import format_ns
from apps.feed.writer import HistoryWriter, TickGrid
from apps.settings import Settings
from topics.registry import METRICS

_NS_PER_MS: Final = 10**6
_ENCODED_AT_ONCE: Final = 50_000
_BLOCK_BYTES: Final = 4 * 1024 * 1024
_BLOCKS_TOGETHER_BYTES: Final = 256 * 1024 * 1024
_SMALLEST_BLOCK_BYTES: Final = 128 * 1024
#: More ticks than this and more than points say that a time is wrong, not that the files are long.
_MANY_TICKS: Final = 20_000_000


class Progress(Protocol):
    """Hears how far the feed is."""

    def surveyed(self, file: str, points: int) -> None:
        """Points of a file were counted."""

    def sent(self, points: int, arrival_ms: int) -> None:
        """Points were handed to the broker's client, the newest with this arrival."""

    def waiting(self, reason: str) -> None:
        """The broker does not take records at the moment."""


class Silent:
    """Progress nobody looks at."""

    def surveyed(self, file: str, points: int) -> None:
        """Say nothing."""

    def sent(self, points: int, arrival_ms: int) -> None:
        """Say nothing."""

    def waiting(self, reason: str) -> None:
        """Say nothing."""


@dataclass(frozen=True)
class FeedOptions:
    """What to do with the points.

    Attributes:
        merge: Delay model, seed and memory limits.
        kinds: Kind of each metric.
        units: Unit of each metric.
        shift_to_ns: Event time that the first point gets; None leaves times as they are.
        flush: Whether to move the clock on at the end until every window is closed.
        tick_s: Seconds of arrival between ticks; None for one per window.
    """

    merge: MergeOptions = field(default_factory=MergeOptions)
    kinds: Rules = field(default_factory=lambda: Rules("gauge"))
    units: Rules = field(default_factory=lambda: Rules("1"))
    shift_to_ns: int | None = None
    flush: bool = True
    tick_s: int | None = None


@dataclass(frozen=True)
class FeedResult:
    """What was sent; event times in nanoseconds, arrivals in milliseconds."""

    points: int
    ticks: int
    late: int
    first_ns: int
    last_ns: int
    last_arrival_ms: int


def feed_tables(
    settings: Settings,
    sources: Sequence[Source],
    options: FeedOptions,
    progress: Progress | None = None,
    surveyed: Callable[[Survey], None] = lambda survey: None,
) -> FeedResult:
    """Feed files to the canonical metrics topic; return when the broker has acknowledged everything.

    Args:
        settings: Settings of the running chain.
        sources: The files.
        options: What to do with the points.
        progress: Hears how far the feed is.
        surveyed: Hears what the files hold, before anything is sent.

    Raises:
        FeedError: The chain, the log or the files do not allow it.
        BrokerUnreachableError: No broker answers at the start. Later outages are waited for.
    """
    progress = progress or Silent()
    require_history(settings)
    partitions = raw_partitions(settings)
    found = survey(sources, lambda path, points: progress.surveyed(path.name, points))
    surveyed(found)
    sources, found = shifted(sources, found, options.shift_to_ns)
    first_ms = -(-found.first_ns // _NS_PER_MS) + options.merge.delay.smallest_ms
    require_later(first_ms, reached(settings, partitions))
    grid = TickGrid(settings.time, options.tick_s)
    _refuse_absurd_span(found, grid.count(first_ms, found.last_ns // _NS_PER_MS) * sum(partitions.values()))
    writer = HistoryWriter(settings.kafka.bootstrap_servers, partitions, grid, progress.waiting)
    late = _send(writer, sources, found, options, settings.time.lateness_s, progress)
    if options.flush:
        writer.close_windows()
    writer.flush()
    return FeedResult(writer.records, writer.ticks, late, found.first_ns, found.last_ns, writer.last_ms or first_ms)


def _send(
    writer: HistoryWriter,
    sources: Sequence[Source],
    found: Survey,
    options: FeedOptions,
    lateness_s: int,
    progress: Progress,
) -> int:
    """Send all points; return how many of them the chain will call late."""
    encoder = PointEncoder(found.table, options.kinds, options.units)
    merge = replace(options.merge, block_bytes=_block_bytes(len(sources)))
    late = 0
    for batch in merged(sources, found.spans, found.table, merge):
        for start in range(0, len(batch), _ENCODED_AT_ONCE):
            part = batch.part(start, start + _ENCODED_AT_ONCE)
            keys, values = encoder.encode(part)
            writer.write(METRICS.name, keys, values, part.arrival_ms)
            late += _late(part, lateness_s)
            progress.sent(len(part), int(part.arrival_ms[-1]))
    return late


def _late(part: Arrivals, lateness_s: int) -> int:
    return int(np.count_nonzero(part.arrival_ms * _NS_PER_MS - part.time_ns > lateness_s * 10**9))


def _block_bytes(files: int) -> int:
    return max(_SMALLEST_BLOCK_BYTES, min(_BLOCK_BYTES, _BLOCKS_TOGETHER_BYTES // max(1, files)))


def shifted(sources: Sequence[Source], found: Survey, to_ns: int | None) -> tuple[list[Source], Survey]:
    """Move all times by one constant so that the first point happens at `to_ns`."""
    if to_ns is None:
        return list(sources), found
    shift_ns = to_ns - found.first_ns
    spans = [
        span and replace(span, first_ns=span.first_ns + shift_ns, last_ns=span.last_ns + shift_ns)
        for span in found.spans
    ]
    return [replace(source, shift_ns=source.shift_ns + shift_ns) for source in sources], replace(found, spans=spans)


def _refuse_absurd_span(found: Survey, ticks: int) -> None:
    if ticks > max(_MANY_TICKS, found.points):
        message = (
            f"the files span {format_ns(found.first_ns)} to {format_ns(found.last_ns)}, which would take {ticks:,} "
            f"ticks for {found.points:,} points: look for a wrong time in the files, force the unit with --time-unit, "
            "or take ticks further apart with --tick-s"
        )
        raise FeedError(message)
