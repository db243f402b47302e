"""The job as a process against a real broker, killed in the middle: the topics hold what the pure fold gives."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING

import orjson
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from apps.runtime import pin_floating_point
from apps.settings import Settings
from apps.topics_admin import TopicsAdmin, ensure_topics
from pipelines.transport import MarkerProducer, TaskProducer
from tests.pipelines.novelty.log import Bucket, control, counter, end_of, events, marker, record, series
from tests.support import JobRunner
from topics.controls import ControlRecord
from topics.records import Statistics
from topics.registry import MODELS, SCORES, STATISTICS, SUMMARIES, Topic
from topics.wire import BUCKET_SQL, CONTROL_KEY, MARKER_KEY, PARTITION_SQL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1200)]

RESOURCES = [f"vm-{number:03d}" for number in range(12)]
WINDOWS = 90
#: Generous: a first micro-batch takes ten seconds on an idle machine and a minute on a crowded one.
WAIT_S = 420.0


def statistics(window: int) -> list[Statistics]:
    return [
        record(
            name,
            window,
            [
                series(window, "cpu", 0.5 + 0.01 * ((window * 7 + number) % 11)),
                counter(window, "packets", 100.0 * window, 100.0 * window + (window * 5 + number) % 17),
                events(window, "log.severity", 1 + (window + number) % 4, severity="info"),
            ],
            service="upf" if number % 2 else None,
        )
        for number, name in enumerate(RESOURCES)
        if (window + number) % 13
    ]


def controls(window: int) -> list[ControlRecord]:
    return [control(window, RESOURCES[window % 12], "smf", "north")] if window % 10 == 0 else []


def buckets_of(spark: SparkSession, settings: Settings) -> dict[str, tuple[int, int]]:
    """Return bucket and statistics partition of every resource, as Spark computes them."""
    bucket = BUCKET_SQL.format(resource="resource", buckets=settings.novelty.buckets)
    partition = PARTITION_SQL.format(bucket="bucket", partitions=settings.kafka.derived_partitions)
    frame = spark.createDataFrame([(name,) for name in RESOURCES], "resource STRING")
    rows = frame.selectExpr("resource", f"{bucket} AS bucket").selectExpr("*", f"{partition} AS partition").collect()
    return {row.resource: (row.bucket, row.partition) for row in rows}


def write(settings: Settings, places: dict[str, tuple[int, int]], windows: Iterable[int]) -> None:
    """Write windows as the statistics job does: records, then in one transaction controls and markers."""
    topic = STATISTICS.full_name(settings.generation)
    markers = MarkerProducer(settings.kafka.bootstrap_servers, f"{settings.generation}.test")
    for window in windows:
        with TaskProducer(settings.kafka.bootstrap_servers) as producer:
            for each in statistics(window):
                producer.send(topic, orjson.dumps(each), each.resource.encode(), places[each.resource][1])
        with markers.transaction() as send:
            for partition in range(settings.kafka.derived_partitions):
                for each_control in controls(window):
                    send(topic, orjson.dumps(each_control), key=CONTROL_KEY, partition=partition)
                send(topic, orjson.dumps(marker(window)), key=MARKER_KEY, partition=partition)


def expected(settings: Settings, places: dict[str, tuple[int, int]]) -> dict[Topic, set[tuple[int, bytes, bytes]]]:
    """Fold the log without Spark, in a process whose NumPy takes the same code path as the job's."""
    before = dict(os.environ)
    pin_floating_point()
    try:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            return pool.submit(fold_all, settings, places).result()
    finally:
        os.environ.clear()
        os.environ.update(before)


def fold_all(settings: Settings, places: dict[str, tuple[int, int]]) -> dict[Topic, set[tuple[int, bytes, bytes]]]:
    """Fold every bucket's part of the log; records with their partition."""
    found: dict[Topic, set[tuple[int, bytes, bytes]]] = {SCORES: set(), SUMMARIES: set(), MODELS: set()}
    for bucket in range(settings.novelty.buckets):
        mine = {name for name, (its, _) in places.items() if its == bucket}
        fold = Bucket(settings.novelty, number=bucket)
        for window in range(WINDOWS):
            items = [each for each in statistics(window) if each.resource in mine]
            control_items = [each for each in controls(window) if each.control.resource in mine]
            fold.batch([(window, item) for item in (*items, *control_items, marker(window))])
        for written in fold.written:
            partition = bucket % settings.kafka.derived_partitions
            found[written.topic].add((partition, written.key, written.value))
    return found


def read(settings: Settings, topic: Topic) -> list[tuple[int, bytes, bytes]]:
    """Return partition, key and value of every record of a topic."""
    name = topic.full_name(settings.generation)
    consumer = Consumer(
        {
            "bootstrap.servers": settings.kafka.bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "enable.partition.eof": True,
        }
    )
    partitions = TopicsAdmin(settings.kafka.bootstrap_servers).partition_counts()[name]
    consumer.assign([TopicPartition(name, number, OFFSET_BEGINNING) for number in range(partitions)])
    found, ended = [], 0
    while ended < partitions:
        message = consumer.poll(10)
        assert message is not None, f"{name} does not answer"
        if message.error():
            ended += 1
        else:
            found.append((message.partition(), message.key(), message.value()))
    consumer.close()
    return found


def closed_windows(settings: Settings) -> dict[int, int]:
    """Return the last window that each bucket has closed."""
    summaries = [orjson.loads(value) for _, _, value in read(settings, SUMMARIES)]
    return {each["bucket"]: each["window_end_ms"] for each in sorted(summaries, key=lambda each: each["window_end_ms"])}


def wait_for(settings: Settings, window: int) -> None:
    deadline = time.monotonic() + WAIT_S
    while True:
        closed = closed_windows(settings)
        if len(closed) == settings.novelty.buckets and min(closed.values()) >= end_of(window):
            return
        assert time.monotonic() < deadline, closed
        time.sleep(0.3)


def test_a_job_killed_in_the_middle_writes_what_an_undisturbed_fold_gives(
    settings: Settings, spark: SparkSession, run_job: JobRunner
) -> None:
    small = settings.novelty.__class__(snapshot_windows=20, log_warmup_windows=10, batch_records=150)
    settings = settings.model_copy(update={"novelty": small})
    ensure_topics(settings)
    places = buckets_of(spark, settings)
    write(settings, places, range(WINDOWS // 2))
    job = run_job("novelty", settings)
    wait_for(settings, 10)
    job.kill()
    write(settings, places, range(WINDOWS // 2, WINDOWS))
    job = run_job("novelty", settings)
    wait_for(settings, WINDOWS - 1)
    assert job.stop() == 0
    wanted = expected(settings, places)
    for topic in (SCORES, SUMMARIES):
        assert set(read(settings, topic)) == wanted[topic]
    assert latest(read(settings, MODELS)) == latest(sorted(wanted[MODELS], key=_window_end))
    assert _in_order(read(settings, SUMMARIES))


def _window_end(record: tuple[int, bytes, bytes]) -> int:
    return int(orjson.loads(record[2])["window_end_ms"])


def latest(records: Sequence[tuple[int, bytes, bytes]]) -> dict[bytes, bytes]:
    return {key: value for _, key, value in records}


def _in_order(records: Sequence[tuple[int, bytes, bytes]]) -> bool:
    """Tell whether each bucket's first summary of a window comes after that of the window before."""
    first: dict[bytes, list[int]] = {}
    for each in records:
        ends = first.setdefault(each[1], [])
        if _window_end(each) not in ends:
            ends.append(_window_end(each))
    return all(ends == sorted(ends) for ends in first.values())
