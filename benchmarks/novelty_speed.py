"""How fast does the novelty job catch up? Statistics in a real Kafka topic in, scores and summaries out.

    python -m benchmarks.novelty_speed                       # both shapes
    python -m benchmarks.novelty_speed --shape wide --windows 20

Two shapes: *wide*, few windows of a large fleet (200 resources x 50 series, 60 windows); *narrow*, many windows of a
small one (60 resources x 12 series, two days of minutes). At one point every 6 s the wide shape stands for 6 million
points. A broker of its own is started, filled as the statistics job fills it, and stopped. Wall time counts from the
start of the query until everything is read, folded and acknowledged; CPU seconds are those of the job's driver and its
Python workers, without the broker.
"""

from __future__ import annotations

import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from apps.broker import broker_answers
from apps.local.artifacts import ArtifactStore
from apps.local.kafka import KafkaServer
from apps.local.processes import stop
from apps.novelty import build
from apps.runtime import pin_floating_point
from apps.settings import KafkaSettings, Settings, SparkSettings
from apps.spark import spark_session
from apps.topics_admin import ensure_topics
from benchmarks.statistics_speed import cpu_seconds, machine
from pipelines.parameters import NoveltyParameters
from pipelines.transport import TaskProducer
from topics import wire
from topics.records import ClosedMarker, SeriesStatistics, Statistics
from topics.registry import STATISTICS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_START_MS = 1_763_690_400_000
_WINDOW_MS = 60_000
_NS_PER_MS = 1_000_000
_POINTS = 10


@dataclass(frozen=True)
class Shape:
    """What the log looks like."""

    resources: int
    series: int
    windows: int
    buckets: int


SHAPES = {"wide": Shape(200, 50, 60, 8), "narrow": Shape(60, 12, 2880, 8)}


def series(pick: random.Random, number: int, start_ms: int) -> SeriesStatistics:
    """Make one series' statistics: of ten, five gauges, two counters, two log series, one ratio."""
    first_ns, last_ns = start_ms * _NS_PER_MS, (start_ms + _WINDOW_MS * (_POINTS - 1) // _POINTS) * _NS_PER_MS
    index = number % 10
    if index < 5:
        mean = pick.gauss(0.5, 0.05)
        return SeriesStatistics(
            f"system.metric.{number}", {"cpu": str(number & 7)}, "gauge", "1", _POINTS, mean * _POINTS, mean, 0.01,
            mean - 0.1, mean + 0.1, mean, first_ns, mean, last_ns,
        )  # fmt: skip
    if index < 7:
        grown = float(start_ms // 100)
        return SeriesStatistics(
            f"system.packets.{number}", {"device": "eth0"}, "cumulative", "1", _POINTS, grown * _POINTS, grown, 1.0,
            grown, grown + 540, grown, first_ns, grown + 540 + pick.randrange(20), last_ns, 540.0,
        )  # fmt: skip
    if index < 9:
        events = pick.randrange(1, 9)
        return SeriesStatistics(
            "log.template", {"template": f"template {number}"}, "delta", "1", events, float(events), 1.0, 0.0, 1.0,
            1.0, 1.0, first_ns, 1.0, last_ns,
        )  # fmt: skip
    dropped = float(pick.randrange(5))
    return SeriesStatistics(
        f"system.drops.{number}", {}, "ratio", "1", _POINTS, dropped, dropped / 1000, 0.0, 0.0, 0.01, 0.0, first_ns,
        0.0, last_ns, total=1000.0,
    )  # fmt: skip


def partitions_of(spark: SparkSession, settings: Settings, resources: list[str]) -> dict[str, int]:
    """Return the statistics partition of each resource."""
    bucket = wire.BUCKET_SQL.format(resource="resource", buckets=settings.novelty.buckets)
    partition = wire.PARTITION_SQL.format(bucket=f"({bucket})", partitions=settings.kafka.derived_partitions)
    frame = spark.createDataFrame([(name,) for name in resources], "resource STRING")
    return {row[0]: row[1] for row in frame.selectExpr("resource", partition).collect()}


def fill(settings: Settings, shape: Shape, partitions: dict[str, int]) -> None:
    """Write the windows' records and markers."""
    pick = random.Random(1)
    topic = STATISTICS.full_name(settings.generation)
    with TaskProducer(settings.kafka.bootstrap_servers) as producer:
        for window in range(shape.windows):
            start_ms = _START_MS + window * _WINDOW_MS
            times = start_ms, start_ms + _WINDOW_MS
            for name, partition in partitions.items():
                found = [series(pick, number, start_ms) for number in range(shape.series)]
                record = Statistics(name, *times, 0, 1, "upf", "north", None, len(found) * _POINTS, 0, 0, found)
                producer.send(topic, orjson.dumps(record), name.encode(), partition)
            for partition in range(settings.kafka.derived_partitions):
                marker = orjson.dumps(ClosedMarker(*times, partition, 0))
                producer.send(topic, marker, wire.MARKER_KEY, partition)


def catch_up(spark: SparkSession, settings: Settings) -> tuple[Counter[str], float, float, list[Any]]:
    """Run the job until it has read everything; return its counts, wall and CPU seconds, and its batches."""
    reported: Counter[str] = Counter()
    writer = build(spark, settings, lambda name, value: reported.update({name: int(value)}))
    checkpoint = settings.data_dir / "checkpoint"
    cpu, wall = cpu_seconds(), time.perf_counter()
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    wall, cpu = time.perf_counter() - wall, cpu_seconds() - cpu
    return reported, wall, cpu, list(query.recentProgress)


def report(shape: Shape, reported: Counter[str], wall: float, cpu: float, batches: list[Any]) -> None:
    """Print what was measured; end with an error when something is missing."""
    wanted = shape.resources * shape.series * shape.windows
    for batch in batches:
        duration_s = batch["durationMs"]["triggerExecution"] / 1000
        print(f"  batch {batch['batchId']:3}  {batch['numInputRows']:9,} records  {duration_s:6.1f} s")
    print(
        f"output    {reported['scores']:,} scores, {reported['windows']:,} summaries, {reported['findings']} findings"
    )
    print(f"catch-up  {wanted / wall:,.0f} series-windows/s  ({wanted:,} in {wall:.1f} s)")
    print(f"CPU       {cpu / wanted * 1e6:.2f} us per series-window  ({cpu:.0f} CPU-seconds)")
    if reported["scores"] != shape.resources * shape.windows or reported["windows"] != shape.buckets * shape.windows:
        message = f"scores or summaries are missing: {dict(reported)}"
        raise SystemExit(message)


def measure(shape: Shape, batch_records: int, port: int) -> None:
    """Fill a broker of its own and measure the job."""
    folder = Path(tempfile.mkdtemp(prefix="kappa-novelty-speed-"))
    server = KafkaServer(folder / "kafka", folder / "kafka.log", port, port + 1)
    settings = Settings(
        data_dir=folder / "data",
        kafka=KafkaSettings(bootstrap_servers=server.bootstrap_servers),
        spark=SparkSettings(driver_memory="2g"),
        novelty=NoveltyParameters(buckets=shape.buckets, batch_records=batch_records),
    )
    if broker_answers(server.bootstrap_servers, 1.0):
        message = f"another broker answers at {server.bootstrap_servers}: stop it, or choose another --port"
        raise SystemExit(message)
    broker = server.start()
    try:
        server.wait(broker, 120.0)
        ensure_topics(settings)
        spark = spark_session("kappa-novelty-speed", settings)
        started = time.perf_counter()
        fill(settings, shape, partitions_of(spark, settings, [f"vm-{n:05d}" for n in range(shape.resources)]))
        print(f"log       written in {time.perf_counter() - started:.0f} s")
        measured = catch_up(spark, settings)
        spark.stop()
    finally:
        stop([broker], 30.0)
        shutil.rmtree(folder, ignore_errors=True)
    report(shape, *measured)


def main(
    shape: Annotated[str, typer.Option(help="wide, narrow or both.")] = "both",
    windows: Annotated[int, typer.Option(help="Windows of one minute; 0: as many as the shape has.")] = 0,
    batch_records: Annotated[int, typer.Option(help="Records per micro-batch.")] = 20_000,
    port: Annotated[int, typer.Option(help="Port of the broker; the next one is its controller's.")] = 29_592,
) -> None:
    """Measure catch-up of the novelty job."""
    ArtifactStore().ensure(["connector", "kafka"])
    # A benchmark that is told to stop must still stop its broker.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    pin_floating_point()
    print(f"machine   {machine()}")
    for name in SHAPES if shape == "both" else [shape]:
        wanted = SHAPES[name]
        chosen = Shape(wanted.resources, wanted.series, windows or wanted.windows, wanted.buckets)
        print(f"{name:9} {chosen}")
        measure(chosen, batch_records, port)


if __name__ == "__main__":
    typer.run(main)
