"""One reader per Kafka partition of every raw topic, each at its share of the pace.

A reader per partition keeps a watermark of its own; over one reader of many partitions Spark takes the maximum, and a
partition read ahead would make the others' points late. `maxOffsetsPerTrigger` is each reader's share of the backlog
per unit of arrival time, so that readers advance together and little state is open at once.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson
import structlog
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]
from pyspark.sql import functions as sf

from pipelines.statistics import rows
from topics import wire
from topics.registry import RAW_TOPICS, Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.parameters import StatisticsParameters, TimeRules

log = structlog.get_logger()

_TIMEOUT_S: Final = 20.0
_FETCH_WAIT_MS: Final = 10
_TIMESTAMP_TYPE: Final = "message.timestamp.type"
_APPEND_TIME: Final = "LogAppendTime"
#: A reader with next to nothing to read may still read this much per batch.
_LEAST_OFFSETS: Final = 1_000
#: About as many bytes of OTLP hold one data point.
_OTLP_BYTES_PER_POINT: Final = 100
#: What Spark keeps in a checkpoint.
_SPARK_FOLDERS: Final = ("offsets", "commits", "state", "sources")


class SourceError(RuntimeError):
    """A raw topic is not there, or not as the job needs it."""


@dataclass(frozen=True)
class Source:
    """One partition of one raw topic."""

    topic: Topic
    partition: int


@dataclass(frozen=True)
class Backlog:
    """What waits in one partition.

    Attributes:
        start: Offset to read from.
        end: Offset after the last record.
        span_ms: Arrival time from the first to the last record.
        points_per_record: About how many points one record holds.
    """

    start: int
    end: int
    span_ms: int = 0
    points_per_record: float = 1.0


class Broker:
    """Questions to the broker that the driver asks before it starts readers."""

    def __init__(self, bootstrap_servers: str, time: TimeRules) -> None:
        self._time = time
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers})
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "kappa-statistics-driver",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                # Questions wait behind a fetch that waits for records.
                "fetch.wait.max.ms": _FETCH_WAIT_MS,
            }
        )

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def partition_counts(self) -> dict[str, int]:
        """Return the number of partitions of every topic."""
        topics = self._admin.list_topics(timeout=_TIMEOUT_S).topics
        return {name: len(topic.partitions) for name, topic in topics.items()}

    def sources(self, topics: Sequence[Topic] = RAW_TOPICS) -> list[Source]:
        """Return all partitions of raw topics, in a fixed order.

        Raises:
            SourceError: A topic is missing.
        """
        counts = self.partition_counts()
        missing = [topic.name for topic in topics if topic.name not in counts]
        if missing:
            message = f"raw topics are missing: {', '.join(missing)}. Create them with `kappa topics create`"
            raise SourceError(message)
        return [Source(topic, partition) for topic in topics for partition in range(counts[topic.name])]

    def require_append_time(self, topics: Sequence[Topic] = RAW_TOPICS) -> None:
        """Refuse raw topics whose timestamps producers may set: arrival would not be monotone.

        Raises:
            SourceError: A topic has another timestamp type; the message says how to change it.
        """
        resources = [ConfigResource(ResourceType.TOPIC, topic.name) for topic in topics]
        answers = self._admin.describe_configs(resources, request_timeout=_TIMEOUT_S)
        wrong = sorted(
            resource.name
            for resource, answer in answers.items()
            if answer.result(_TIMEOUT_S)[_TIMESTAMP_TYPE].value != _APPEND_TIME
        )
        if wrong:
            message = (
                f"arrival is the broker's append time, but {', '.join(wrong)} lets producers set timestamps: "
                f'set {_TIMESTAMP_TYPE}={_APPEND_TIME} on the topic, or [time] arrival = "history" for topics whose '
                f"one writer sets the header {wire.ARRIVAL_HEADER}"
            )
            raise SourceError(message)

    def last_closed_ms(self, statistics_topic: str) -> int | None:
        """Return the end of the last window closed in every partition of the output; None if there is none."""
        count = self.partition_counts().get(statistics_topic, 0)
        ends = [self._last_marker_ms(TopicPartition(statistics_topic, partition)) for partition in range(count)]
        known = [end for end in ends if end is not None]
        return min(known) if known and len(known) == len(ends) else None

    def _last_marker_ms(self, partition: TopicPartition) -> int | None:
        """Search backwards, in growing steps, for the last committed marker of a partition."""
        low, high = self._consumer.get_watermark_offsets(partition, timeout=_TIMEOUT_S)
        step, upper = 1_000, high
        while upper > low:
            lower = max(low, upper - step)
            ends = [
                int(orjson.loads(message.value())["window_end_ms"])
                for message in self._read(partition, lower, upper)
                if message.key() == wire.MARKER_KEY
            ]
            if ends:
                return max(ends)
            step, upper = 4 * step, lower
        return None

    def _read(self, partition: TopicPartition, lower: int, upper: int) -> Iterable[Any]:
        """Read committed records with offsets in [lower, upper)."""
        self._consumer.assign([TopicPartition(partition.topic, partition.partition, lower)])
        while True:
            message = self._consumer.poll(_TIMEOUT_S)
            if message is None:
                failure = f"{partition.topic} [{partition.partition}] cannot be read at offset {lower}"
                raise SourceError(failure)
            if message.error() is not None or int(message.offset() or 0) >= upper:
                return
            yield message

    def first_offset_since(self, source: Source, arrival_ms: int | None) -> int:
        """Return the first offset whose arrival is not before `arrival_ms`; history topics are read from the start."""
        partition = TopicPartition(source.topic.name, source.partition)
        low, high = self._consumer.get_watermark_offsets(partition, timeout=_TIMEOUT_S)
        if arrival_ms is None or self._time.arrival == "history":
            return int(low)
        asked = TopicPartition(source.topic.name, source.partition, max(arrival_ms, 0))
        found = self._consumer.offsets_for_times([asked], timeout=_TIMEOUT_S)[0].offset
        return int(found) if found >= 0 else int(high)

    def backlog(self, source: Source, start: int) -> Backlog:
        """Return what waits in a partition from `start` on."""
        partition = TopicPartition(source.topic.name, source.partition)
        low, end = self._consumer.get_watermark_offsets(partition, timeout=_TIMEOUT_S)
        start = max(start, low)
        if end - start < 2:
            return Backlog(start, end)
        first, last = self._record(partition, start, end), self._record(partition, end - 1, end)
        if first is None or last is None:
            return Backlog(start, end)
        middle = self._record(partition, (start + end) // 2, end) or last
        span_ms = max(self._arrival_ms(last) - self._arrival_ms(first), 0)
        return Backlog(start, end, span_ms, _points_per_record(source.topic, [first, middle, last]))

    def _record(self, partition: TopicPartition, offset: int, end: int) -> Any:
        return next(iter(self._read(partition, offset, end)), None)

    def _arrival_ms(self, message: Any) -> int:
        told = dict(message.headers() or []).get(wire.ARRIVAL_HEADER)
        if self._time.arrival == "history" and told is not None and told.isdigit():
            return int(told)
        return int(message.timestamp()[1])


def _points_per_record(topic: Topic, examples: list[Any]) -> float:
    if topic.record is not None:
        return 1.0
    return max(1.0, max(len(message.value() or b"") for message in examples) / _OTLP_BYTES_PER_POINT)


def shares(backlogs: Sequence[Backlog], batch_points: int) -> list[int]:
    """Return each reader's records per batch, so that all advance by the same span of arrival time.

    The span is the one in which all partitions together hold `batch_points` points.
    """
    rates = [(b.end - b.start) / max(b.span_ms, 1_000) for b in backlogs]  # records per ms of arrival
    points_per_ms = sum(rate * b.points_per_record for rate, b in zip(rates, backlogs, strict=True))
    if not points_per_ms:
        return [max(_LEAST_OFFSETS, batch_points // max(len(backlogs), 1))] * len(backlogs)
    span_ms = batch_points / points_per_ms
    return [max(_LEAST_OFFSETS, round(rate * span_ms)) for rate in rates]


def checkpoint_offsets(checkpoint: Path) -> list[dict[str, dict[str, int]]] | None:
    """Return the offsets of the last planned batch of a checkpoint, one entry per reader; None if there is none."""
    batches = [path for path in (checkpoint / "offsets").glob("*") if path.name.isdigit()]
    if not batches:
        return None
    lines = max(batches, key=lambda path: int(path.name)).read_text().splitlines()
    return [orjson.loads(line) for line in lines[2:]]  # version and metadata come first


def raw_stream(spark: SparkSession, bootstrap_servers: str, source: Source, start: int, share: int) -> DataFrame:
    """Open the reader of one partition; `start` counts only while the checkpoint is empty."""
    messages = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("assign", orjson.dumps({source.topic.name: [source.partition]}).decode())
        .option("startingOffsets", orjson.dumps({source.topic.name: {str(source.partition): start}}).decode())
        .option("maxOffsetsPerTrigger", share)
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "true")
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.max.poll.records", 10_000)
        .option("kafka.max.partition.fetch.bytes", 8 * 1024 * 1024)
        .load()
    )
    return messages.select(
        sf.col("key").alias(rows.KEY),
        sf.col("value").alias(rows.VALUE),
        sf.coalesce("headers", sf.array().cast(rows.HEADERS_TYPE)).alias(rows.HEADERS),
        sf.lit(source.topic.name).alias(rows.TOPIC),
        sf.lit(source.partition).alias(rows.PARTITION),
        sf.col("offset").alias(rows.OFFSET),
        sf.unix_millis("timestamp").alias(rows.TIMESTAMP_MS),
    )


def open_readers(
    spark: SparkSession,
    broker: Broker,
    bootstrap_servers: str,
    parameters: StatisticsParameters,
    checkpoint: Path,
    after_ms: int,
) -> list[tuple[Topic, DataFrame]]:
    """Open one reader per Kafka partition of every raw topic.

    Args:
        spark: The session.
        broker: Answers questions about topics and offsets.
        bootstrap_servers: The broker's address for Spark.
        parameters: Settings of the job.
        checkpoint: Folder of the query's checkpoint; made empty when the partitions are others than before.
        after_ms: End of the last window that is complete in the output, -1 if there is none.
    """
    time = parameters.time
    if time.arrival == "broker":
        broker.require_append_time()
    sources = broker.sources()
    discard_unfit(checkpoint, sources)
    positions = checkpoint_offsets(checkpoint)
    since_ms = None if after_ms < 0 else after_ms - (time.future_s + time.slack_s) * 1000
    backlogs = []
    for index, source in enumerate(sources):
        start = (
            broker.first_offset_since(source, since_ms)
            if positions is None
            else positions[index][source.topic.name][str(source.partition)]
        )
        backlogs.append(broker.backlog(source, start))
    limits = shares(backlogs, parameters.batch_points)
    log.info("readers", readers=[
        {"topic": source.topic.name, "partition": source.partition, "start": b.start, "end": b.end, "per_batch": limit}
        for source, b, limit in zip(sources, backlogs, limits, strict=True)
    ])  # fmt: skip
    return [
        (source.topic, raw_stream(spark, bootstrap_servers, source, b.start, limit))
        for source, b, limit in zip(sources, backlogs, limits, strict=True)
    ]


def discard_unfit(checkpoint: Path, sources: Sequence[Source]) -> None:
    """Empty a checkpoint made for other partitions: state is disposable, the job starts from its last marker."""
    positions = checkpoint_offsets(checkpoint)
    if positions is None:
        return
    found = [(topic, int(partition)) for entry in positions for topic, at in entry.items() for partition in at]
    if found == [(source.topic.name, source.partition) for source in sources]:
        return
    log.warning(
        "raw topics have other partitions than before; starting from the last marker", checkpoint=str(checkpoint)
    )
    for folder in _SPARK_FOLDERS:
        shutil.rmtree(checkpoint / folder, ignore_errors=True)
    (checkpoint / "metadata").unlink(missing_ok=True)
    (checkpoint / ".metadata.crc").unlink(missing_ok=True)
