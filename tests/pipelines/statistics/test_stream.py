"""The whole job on a real broker: the same log gives the same records, however it is cut into micro-batches."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from apps.settings import Settings
from apps.statistics import build
from apps.topics_admin import ensure_topics
from pipelines.parameters import TimeRules
from topics import registry, wire
from topics.records import Inventory, LogEvent, MetricPoint

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.stack

_START_MS = 1_763_690_400_000
_SECONDS = 300
_RESOURCES = 6
Records = Counter[tuple[str, int, bytes | None, bytes]]


def write_log(settings: Settings) -> Counter[str]:
    """Write five minutes of history: late, duplicated and broken messages, an idle and a bursty partition, ticks."""
    pick = random.Random(7)
    producer = Producer({"bootstrap.servers": settings.kafka.bootstrap_servers})
    sent: Counter[str] = Counter()

    def send(topic: registry.Topic, partition: int, value: bytes, arrival_ms: int, key: bytes = b"k") -> None:
        headers = [(wire.ARRIVAL_HEADER, str(arrival_ms).encode())]
        producer.produce(topic.name, value, key=key, partition=partition, headers=headers)
        sent[topic.name] += key != wire.TICK_KEY

    for second in range(_SECONDS + 40):  # ticks alone close the last window
        arrival_ms = _START_MS + second * 1000
        for number in range(_RESOURCES if second < _SECONDS else 0):
            time_ns = (arrival_ms - pick.randrange(60_000)) * 1_000_000
            point = orjson.dumps(MetricPoint(f"vm-{number}", "m", time_ns, pick.random(), attributes={"b": "1"}))
            for _ in range(pick.choice((1, 1, 2))):  # an exporter that retries
                send(registry.METRICS, 0 if second % 100 > 5 else 1, point, arrival_ms)
        if second % 7 == 0 and second < _SECONDS:
            send(registry.METRICS, 0, b"broken", arrival_ms)
            event = LogEvent("vm-1", arrival_ms * 1_000_000, "INFO", f"session {second}")
            send(registry.LOGS, 0, orjson.dumps(event), arrival_ms)
        if second == 90:
            send(registry.CONTROL, 0, orjson.dumps(Inventory("vm-1", service="upf")), arrival_ms)
        for topic in registry.RAW_TOPICS:
            for partition in range(1 if topic.partitions == "one" else settings.kafka.raw_partitions):
                send(topic, partition, b"", arrival_ms, wire.TICK_KEY)
    producer.flush()
    return sent


def run(spark: SparkSession, settings: Settings, checkpoint: Path) -> Counter[str]:
    """Run the job until it has read the log; return what it reported."""
    reported: Counter[str] = Counter()
    writer = build(spark, settings, lambda name, value: reported.update({name: int(value)}))
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    dropped = sum(o["numRowsDroppedByWatermark"] for p in query.recentProgress for o in p["stateOperators"])
    assert dropped == 0
    reported["batches"] = len(query.recentProgress)
    return reported


def output(settings: Settings) -> tuple[Records, list[list[tuple[bytes | None, bytes]]]]:
    """Return all records of the three output topics, and the statistics topic's markers and controls by partition."""
    topics = [topic.full_name(settings.generation) for topic in (registry.STATISTICS, registry.LATE, registry.REJECTED)]
    partitions = [TopicPartition(t, p, 0) for t in topics for p in range(settings.kafka.derived_partitions)]
    consumer = Consumer(
        {"bootstrap.servers": settings.kafka.bootstrap_servers, "group.id": "test", "enable.partition.eof": True}
    )
    consumer.assign(partitions)
    records: Records = Counter()
    marks: list[list[tuple[bytes | None, bytes]]] = [[] for _ in range(settings.kafka.derived_partitions)]
    ends = 0
    while ends < len(partitions):
        message: Any = consumer.poll(20)
        assert message is not None
        if message.error():
            ends += 1
        elif message.key() in (wire.MARKER_KEY, wire.CONTROL_KEY):
            marks[message.partition()].append((message.key(), message.value()))
        else:
            records[
                message.topic().removesuffix(settings.generation), message.partition(), message.key(), message.value()
            ] += 1
    consumer.close()
    return records, marks


def of_generation(settings: Settings, generation: str, batch_points: int) -> Settings:
    statistics = settings.statistics_parameters().__class__(batch_points=batch_points)
    time = TimeRules(window_s=60, arrival="history")
    return settings.model_copy(update={"generation": generation, "statistics": statistics, "time": time})


def test_the_same_log_gives_the_same_records_however_it_is_cut(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    few, many = (of_generation(settings, settings.generation + name, n) for name, n in (("a", 500_000), ("b", 300)))
    ensure_topics(few)
    ensure_topics(many)
    sent = write_log(few)
    reported = run(spark, few, tmp_path / "few")
    reported_of_many = run(spark, many, tmp_path / "many")
    records, marks = output(few)
    assert reported_of_many["batches"] > reported["batches"]
    assert (records, marks) == output(many)

    # every message is accounted for: statistics + late + rejected = sent
    counts = ("samples", "duplicates", "excess", "late_points", "rejected_points")
    assert sum(reported[name] for name in counts) == sent[registry.METRICS.name] + sent[registry.LOGS.name]
    assert min(reported[name] for name in ("samples", "duplicates", "late_points", "rejected_points")) > 0
    # every window was closed once, in order, in every partition, the control record before its window's marker
    for partition in marks:
        ends = [orjson.loads(value)["window_end_ms"] for _, value in partition]
        assert ends == sorted(ends)
        closed = [end for (key, _), end in zip(partition, ends, strict=True) if key == wire.MARKER_KEY]
        assert closed == [_START_MS + minute * 60_000 for minute in range(0, 6)]
        assert [end for (key, _), end in zip(partition, ends, strict=True) if key == wire.CONTROL_KEY] == [
            _START_MS + 120_000
        ]

    # state is disposable: with an empty checkpoint the job writes nothing that is already there
    again = run(spark, few, tmp_path / "empty")
    assert again["windows"] == 0
    assert (records, marks) == output(few)
