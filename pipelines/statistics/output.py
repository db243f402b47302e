"""Writing closed windows: records and kept messages from tasks, then control records and markers from the driver.

One task per Kafka partition writes its records sorted by (window end, resource). When all are acknowledged, the driver
writes, window by window and in order, the control records and one closed marker to every partition, in one Kafka
transaction. A retry after a crash writes the same again; readers ignore what is not after the last closed window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import orjson
import pyarrow as pa
import structlog
from pyspark.sql import functions as sf

from pipelines.parameters import StatisticsParameters
from pipelines.statistics import rows
from pipelines.statistics.sources import Broker, SourceError
from pipelines.statistics.summarise import Window, summarise
from pipelines.transport import MarkerProducer, TaskProducer
from topics import wire
from topics.controls import ControlRecord, control_of
from topics.records import ClosedMarker, Statistics
from topics.registry import LATE, REJECTED, STATISTICS, STATISTICS_MESSAGE_LIMIT_BYTES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

log = structlog.get_logger()

Report = Callable[[str, float], None]

#: Room for key, headers and the record's own fields beside its series.
_PART_LIMIT_BYTES: Final = STATISTICS_MESSAGE_LIMIT_BYTES - 32 * 1024
_HEADERS_LIMIT_BYTES: Final = 32 * 1024
_SUMMARY_TYPE: Final = (
    "partition INT, window_end_ms BIGINT, counts MAP<STRING, BIGINT>, "
    "controls ARRAY<STRUCT<topic: STRING, partition: INT, offset: BIGINT, value: BINARY>>"
)
#: Counts that the driver reports as metrics.
_REPORTED: Final = ("samples", "duplicates", "excess", "late_messages", "late_points", "rejected_messages",
                    "rejected_points", "records")  # fmt: skip


@dataclass(frozen=True)
class Target:
    """Where closed windows go.

    Attributes:
        bootstrap_servers: The broker.
        generation: Suffix of the derived topics.
        buckets: B, the number of buckets.
        partitions: Number of partitions of each derived topic written here, by full name.
        after_ms: End of the last window that is already complete in the output; nothing up to it is written again.
    """

    bootstrap_servers: str
    generation: str
    buckets: int
    partitions: dict[str, int]
    after_ms: int = -1

    @property
    def statistics_partitions(self) -> int:
        """P, the partitions of the statistics topic."""
        return self.partitions[STATISTICS.full_name(self.generation)]


@dataclass
class _Tally:
    """What one task wrote of one window into one partition."""

    counts: Counter[str] = field(default_factory=Counter)
    controls: list[dict[str, Any]] = field(default_factory=list)


def target_of(broker: Broker, bootstrap_servers: str, generation: str, buckets: int) -> Target:
    """Ask the broker about the derived topics: their partitions, and how far the output is complete.

    Raises:
        SourceError: A derived topic is missing.
    """
    names = [topic.full_name(generation) for topic in (STATISTICS, LATE, REJECTED)]
    counts = broker.partition_counts()
    missing = [name for name in names if name not in counts]
    if missing:
        message = f"topics are missing: {', '.join(missing)}. Create them with `kappa topics create`"
        raise SourceError(message)
    closed_ms = broker.last_closed_ms(names[0])
    partitions = {name: counts[name] for name in names}
    return Target(bootstrap_servers, generation, buckets, partitions, -1 if closed_ms is None else closed_ms)


# ---- in the tasks ----------------------------------------------------------------------------------------------------


def write_windows(closed: DataFrame, target: Target, parameters: StatisticsParameters, batch: int) -> list[Row]:
    """Summarise and write closed windows; return what was written per partition and window."""
    bucket = wire.BUCKET_SQL.format(resource=rows.GROUP_KEY, buckets=target.buckets)
    partition = wire.PARTITION_SQL.format(bucket=bucket, partitions=target.statistics_partitions)
    placed = (
        closed.select(
            sf.expr(partition).alias("partition"),
            sf.unix_millis("window.start").alias("window_start_ms"),
            sf.unix_millis("window.end").alias("window_end_ms"),
            rows.GROUP_KEY,
            "samples",
            "packed",
            "kept",
        )
        .where(sf.col("window_end_ms") > target.after_ms)
        .repartitionById(target.statistics_partitions, "partition")
        .sortWithinPartitions("window_end_ms", rows.GROUP_KEY)
    )

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with TaskProducer(target.bootstrap_servers) as producer:
            tallies = _Writer(producer, target, parameters, batch).write(batches)
        yield _summary(tallies)

    return placed.mapInArrow(write, _SUMMARY_TYPE).collect()


@dataclass
class _Writer:
    """Writes the windows of one task."""

    producer: TaskProducer
    target: Target
    parameters: StatisticsParameters
    batch: int
    tallies: dict[tuple[int, int], _Tally] = field(default_factory=dict)

    def write(self, batches: Iterable[pa.RecordBatch]) -> dict[tuple[int, int], _Tally]:
        """Write all windows; return a tally per (partition, window end)."""
        for batch in batches:
            windows = summarise(batch["samples"], batch["packed"], self.parameters)
            places = zip(
                *(batch[name].to_pylist() for name in ("partition", "window_start_ms", "window_end_ms")), strict=True
            )
            for place, resource, window in zip(places, batch[rows.GROUP_KEY].to_pylist(), windows, strict=True):
                self._records(place, resource, window)
            self._all_kept(batch)
        return self.tallies

    def _tally(self, partition: int, window_end_ms: int) -> _Tally:
        return self.tallies.setdefault((partition, window_end_ms), _Tally())

    def _records(self, place: tuple[int, int, int], resource: str, window: Window) -> None:
        partition, start_ms, end_ms = place
        counts = self._tally(partition, end_ms).counts
        if resource.startswith(rows.RESERVED):
            return
        values = record_values(resource, start_ms, end_ms, window)
        topic = STATISTICS.full_name(self.target.generation)
        for value in values:
            self.producer.send(topic, value, resource.encode(), partition, self._lineage())
        counts.update(records=len(values), samples=window.samples, duplicates=window.duplicates, excess=window.excess)

    def _all_kept(self, batch: pa.RecordBatch) -> None:
        kept = batch["kept"]
        if not len(kept.flatten()):
            return
        places = zip(batch["partition"].to_pylist(), batch["window_end_ms"].to_pylist(), strict=True)
        for place, messages in zip(places, kept.to_pylist(), strict=True):
            for message in messages:
                self._keep(self._tally(*place), message)

    def _keep(self, tally: _Tally, message: dict[str, Any]) -> None:
        fate = message["fate"]
        if fate == rows.CONTROL:
            tally.controls.append({name: message[name] for name in ("topic", "partition", "offset", "value")})
            return
        topic = (LATE if fate == rows.LATE else REJECTED).full_name(self.target.generation)
        partition = message["partition"] % self.target.partitions[topic]
        headers = kept_headers(message) | self._lineage()
        self.producer.send(topic, message["value"] or b"", message["key"], partition, headers)
        tally.counts.update({f"{fate}_messages": 1, f"{fate}_points": message["point_count"]})

    def _lineage(self) -> dict[str, bytes]:
        return {
            wire.GENERATION_HEADER: self.target.generation.encode(),
            wire.BATCH_HEADER: str(self.batch).encode(),
        }


def record_values(resource: str, start_ms: int, end_ms: int, window: Window) -> list[bytes]:
    """Return the JSON of `Statistics` records of one resource and window, in parts that fit a message."""
    parts = _parts(window.series)
    values = []
    for number, series in enumerate(parts):
        head = Statistics(
            resource, start_ms, end_ms, number, len(parts), *window.origin,
            samples=window.samples, duplicates=window.duplicates, excess=window.excess, series=[],
        )  # fmt: skip
        values.append(orjson.dumps(head)[:-2] + b",".join(series) + b"]}")
    return values


def _parts(series: list[bytes]) -> list[list[bytes]]:
    """Cut a list of series where the next one would pass the message limit."""
    parts: list[list[bytes]] = [[]]
    size = 0
    for one in series:
        if parts[-1] and size + len(one) + 1 > _PART_LIMIT_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(one)
        size += len(one) + 1
    return parts


def kept_headers(message: dict[str, Any]) -> dict[str, bytes]:
    """Return why and from where a message was kept; its own headers too, as far as there is room."""
    ours = {
        wire.REASON_HEADER: message["reason"],
        wire.POINTS_HEADER: message["points"],
        wire.SOURCE_TOPIC_HEADER: message["topic"],
        wire.SOURCE_PARTITION_HEADER: message["partition"],
        wire.SOURCE_OFFSET_HEADER: message["offset"],
        wire.SOURCE_TIMESTAMP_HEADER: message["timestamp_ms"],
    }
    own = {header["key"]: header["value"] or b"" for header in message["headers"] or []}
    if sum(len(name) + len(value) for name, value in own.items()) > _HEADERS_LIMIT_BYTES:
        own = {}
    return own | {name: str(value).encode() for name, value in ours.items()}


def _summary(tallies: dict[tuple[int, int], _Tally]) -> pa.RecordBatch:
    schema = pa.schema(
        [
            ("partition", pa.int32()),
            ("window_end_ms", pa.int64()),
            ("counts", pa.map_(pa.string(), pa.int64())),
            ("controls", pa.list_(pa.struct([
                ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("value", pa.binary()),
            ]))),
        ]
    )  # fmt: skip
    lines = [
        {"partition": partition, "window_end_ms": end_ms, "counts": list(tally.counts.items()),
         "controls": tally.controls}
        for (partition, end_ms), tally in sorted(tallies.items())
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(lines, schema)


# ---- in the driver ---------------------------------------------------------------------------------------------------


class WindowSink:
    """The `foreachBatch` function of the job: write closed windows, then mark them closed."""

    def __init__(
        self, target: Target, producer: MarkerProducer, parameters: StatisticsParameters, report: Report
    ) -> None:
        self._target = target
        self._markers = producer
        self._parameters = parameters
        self._report = report

    def __call__(self, closed: DataFrame, batch: int) -> None:
        """Write one micro-batch."""
        written = write_windows(closed, self._target, self._parameters, batch)
        self._mark(written)
        self._count(written)

    def _mark(self, written: list[Row]) -> None:
        topic = STATISTICS.full_name(self._target.generation)
        with self._markers.transaction() as send:
            for key, value, partition in markers(written, self._parameters, self._target.statistics_partitions):
                send(topic, value, key=key, partition=partition)

    def _count(self, written: list[Row]) -> None:
        counts = total_counts(written)
        for name in _REPORTED:
            if counts[name]:
                self._report(name, counts[name])
        windows = len({line["window_end_ms"] for line in written})
        if windows:
            self._report("windows", windows)
            log.info(
                "windows closed", windows=windows, until_ms=max(line["window_end_ms"] for line in written), **counts
            )


def total_counts(written: Iterable[Row]) -> Counter[str]:
    """Return the counts of a batch over all partitions and windows."""
    counts: Counter[str] = Counter()
    for line in written:
        counts.update(line["counts"])
    return counts


def markers(
    written: list[Row], parameters: StatisticsParameters, partitions: int
) -> Iterator[tuple[bytes, bytes, int]]:
    """Return (key, value, partition) of control records and closed markers, window by window, in log order."""
    records = {(line["partition"], line["window_end_ms"]): line["counts"].get("records", 0) for line in written}
    for end_ms in sorted({line["window_end_ms"] for line in written}):
        controls = [item for line in written if line["window_end_ms"] == end_ms for item in line["controls"]]
        ordered = sorted(controls, key=lambda item: (item["topic"], item["partition"], item["offset"]))
        values = [control_value(bytes(item["value"]), end_ms) for item in ordered]
        for partition in range(partitions):
            for value in values:
                yield wire.CONTROL_KEY, value, partition
            count = records.get((partition, end_ms), 0)
            start_ms = end_ms - parameters.time.window_s * 1000
            yield wire.MARKER_KEY, orjson.dumps(ClosedMarker(start_ms, end_ms, partition, count)), partition


def control_value(raw: bytes, window_end_ms: int) -> bytes:
    """Return a raw control record stamped with the window of its arrival; unknown fields are left out."""
    return orjson.dumps(ControlRecord(window_end_ms, control_of(orjson.loads(raw))))
