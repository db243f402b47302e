"""A statistics log for tests: records, control records and markers, as the statistics job writes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from pipelines.novelty.fold import Counts, Written, close_windows
from pipelines.novelty.packing import Parcel, ParcelBuilder, parcel_from_bytes, parcel_to_bytes
from pipelines.novelty.state import BucketState
from pipelines.parameters import NoveltyParameters
from topics.controls import Control, ControlRecord
from topics.records import ClosedMarker, Inventory, Kind, SeriesStatistics, Statistics

WINDOW_MS = 60_000
FIRST_START_MS = 1_763_690_400_000
NS = 1_000_000


def start_of(window: int) -> int:
    return FIRST_START_MS + window * WINDOW_MS


def end_of(window: int) -> int:
    return start_of(window) + WINDOW_MS


def series(
    window: int,
    metric: str,
    value: float,
    kind: Kind = "gauge",
    attributes: dict[str, str] | None = None,
    **rest: Any,
) -> SeriesStatistics:
    """One point at the start of the window and one in its middle, both with the value; `rest` overrides fields."""
    made = SeriesStatistics(
        metric=metric,
        attributes=attributes or {},
        kind=kind,
        unit="1",
        n=2,
        sum=2 * value,
        mean=value,
        m2=0.0,
        min=value,
        max=value,
        first=value,
        first_time_ns=start_of(window) * NS,
        last=value,
        last_time_ns=(start_of(window) + WINDOW_MS // 2) * NS,
    )
    return replace(made, **rest)


def events(window: int, metric: str, count: int, **attributes: str) -> SeriesStatistics:
    return series(window, metric, 1.0, "delta", attributes, n=count, sum=float(count), mean=1.0)


def counter(window: int, metric: str, first: float, last: float, **rest: Any) -> SeriesStatistics:
    inner = last - first if last >= first else last
    return series(window, metric, last, "cumulative", first=first, last=last, increase=inner, **rest)


def ratio(window: int, metric: str, successes: float, total: float | None) -> SeriesStatistics:
    mean = successes / total if total else successes
    return series(window, metric, mean, "ratio", sum=successes, total=total)


def record(resource: str, window: int, found: Sequence[SeriesStatistics], **rest: Any) -> Statistics:
    made = Statistics(
        resource=resource,
        window_start_ms=start_of(window),
        window_end_ms=end_of(window),
        part=0,
        parts=1,
        service=None,
        region=None,
        site=None,
        samples=2 * len(found),
        duplicates=0,
        excess=0,
        series=list(found),
    )
    return replace(made, **rest)


def marker(window: int, records: int = 0) -> ClosedMarker:
    return ClosedMarker(start_of(window), end_of(window), 0, records)


def control(window: int, resource: str, service: str | None = None, region: str | None = None) -> ControlRecord:
    return ControlRecord(end_of(window), Inventory(resource, service, region))


def rule(window: int, change: Control) -> ControlRecord:
    return ControlRecord(end_of(window), change)


Item = Statistics | ControlRecord | ClosedMarker


def parcel(log: Iterable[tuple[int, Item]]) -> Parcel:
    """Pack (offset, item) pairs, through bytes as the job does."""
    builder = ParcelBuilder()
    for offset, item in log:
        content = orjson.loads(orjson.dumps(item))
        if isinstance(item, Statistics):
            builder.record(content)
        elif isinstance(item, ClosedMarker):
            builder.marker(content)
        else:
            builder.control(content, offset)
    return parcel_from_bytes(parcel_to_bytes(builder.parcel()))


@dataclass
class Bucket:
    """The fold with its state store: what the processor does, without Spark."""

    parameters: NoveltyParameters = field(default_factory=NoveltyParameters)
    number: int = 3
    stored: bytes | None = None
    waiting: list[Parcel] = field(default_factory=list)
    written: list[Written] = field(default_factory=list)
    counts: list[Counts] = field(default_factory=list)

    def batch(self, log: Sequence[tuple[int, Item]]) -> None:
        """One micro-batch."""
        state = BucketState() if self.stored is None else BucketState.from_bytes(self.stored)
        self.waiting.append(parcel(log))
        for written, counts in close_windows(state, self.waiting, self.number, self.parameters):
            self.written += written
            self.counts.append(counts)
        self.waiting = [each for each in self.waiting if each.last_end_ms > state.end_ms]
        self.stored = state.to_bytes()

    def of(self, topic: Any) -> list[Any]:
        """Return the parsed records of a topic, in order."""
        return [orjson.loads(written.value) for written in self.written if written.topic == topic]


def fold(log: Sequence[Item], parameters: NoveltyParameters | None = None) -> Bucket:
    """Fold a log in one micro-batch."""
    bucket = Bucket(parameters or NoveltyParameters())
    bucket.batch(list(enumerate(log)))
    return bucket
