"""How fast does the statistics job catch up? Canonical JSON points in a real Kafka topic in, statistics records out.

    python benchmarks/statistics_speed.py                    # 6 million points, 10,000 series at 10 s
    python benchmarks/statistics_speed.py --points 1000000 --resources 100

A broker of its own is started, filled, and stopped. The job reads the log as after a long standstill: all readers,
parse, gate, windows, records, markers. `all` counts from the start of the query, `warm` leaves out the first
micro-batches, in which code is compiled. CPU seconds are those of the job's JVM and its Python processes, without the
broker.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import psutil
import typer
from confluent_kafka import Producer

from apps.local.artifacts import ArtifactStore
from apps.local.kafka import KafkaServer
from apps.local.processes import stop
from apps.settings import KafkaSettings, Settings, SparkSettings
from apps.spark import spark_session
from apps.statistics import build
from apps.topics_admin import ensure_topics
from pipelines.parameters import StatisticsParameters, TimeRules
from topics import wire
from topics.registry import METRICS, RAW_TOPICS

_START_MS = 1_763_690_400_000
_STEP_S = 10
_DRAIN_S = 120
#: Micro-batches in which code is compiled and workers start; shown, but not counted as warm.
_WARM_UP_BATCHES = 3


def machine() -> str:
    """Describe the machine in one line."""
    names = [
        line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    memory_gib = psutil.virtual_memory().total / 2**30
    load = os.getloadavg()[0]
    return (
        f"{len(names)} x {names[0] if names else 'unknown CPU'}, {memory_gib:.0f} GiB, load before the run {load:.1f}"
    )


def fill(settings: Settings, points: int, resources: int, metrics: int) -> int:
    """Write points of `resources` x `metrics` series every 10 s, and ticks; return how many points."""
    pick = random.Random(1)
    producer = Producer(
        {"bootstrap.servers": settings.kafka.bootstrap_servers, "linger.ms": 50, "compression.type": "lz4",
         "batch.size": 1_000_000, "queue.buffering.max.messages": 1_000_000}
    )  # fmt: skip

    def send(topic: str, partition: int, key: bytes, value: bytes, arrival: list[tuple[str, bytes]]) -> None:
        while True:
            try:
                return producer.produce(topic, value, key, partition, headers=arrival)
            except BufferError:
                producer.poll(0.1)

    values = [f"{pick.random():.4f}" for _ in range(4096)]
    names = [
        (f"vm-{number:05d}", f"system.metric.{metric}", number % settings.kafka.raw_partitions)
        for number in range(resources)
        for metric in range(metrics)
    ]
    steps = max(1, points // len(names))
    for step in range(steps + _DRAIN_S // _STEP_S):
        start_ms = _START_MS + step * _STEP_S * 1000
        for index, (resource, metric, partition) in enumerate(names if step < steps else []):
            time_ns = (start_ms + index * _STEP_S * 1000 // len(names)) * 1_000_000
            value = (
                f'{{"resource":"{resource}","metric":"{metric}","attributes":{{"cpu":"{index & 7}","state":"user"}},'
                f'"time_ns":{time_ns},"start_time_ns":null,"value":{values[(index * 31 + step) & 4095]},'
                f'"kind":"gauge","unit":"1"}}'
            )
            arrival = [(wire.ARRIVAL_HEADER, str(time_ns // 1_000_000).encode())]
            send(METRICS.name, partition, resource.encode(), value.encode(), arrival)
        producer.poll(0)
        for second in range(_STEP_S):
            arrival = [(wire.ARRIVAL_HEADER, str(start_ms + (_STEP_S - 1) * 1000 + second).encode())]
            for topic in RAW_TOPICS:
                for partition in range(1 if topic.partitions == "one" else settings.kafka.raw_partitions):
                    send(topic.name, partition, wire.TICK_KEY, b"", arrival)
    producer.flush()
    return steps * len(names)


@dataclass(frozen=True)
class CpuSeconds:
    """CPU seconds of the job so far, by kind of process."""

    jvm: float = 0.0
    python: float = 0.0

    @classmethod
    def now(cls) -> CpuSeconds:
        """Read the counters of this process and everything it started."""
        jvm = python = 0.0
        process = psutil.Process()
        for one in [process, *process.children(recursive=True)]:
            times = one.cpu_times()
            if "java" in one.name():
                jvm += times.user + times.system
            else:
                python += times.user + times.system + times.children_user + times.children_system
        return cls(jvm, python)

    def __sub__(self, other: CpuSeconds) -> CpuSeconds:
        return CpuSeconds(self.jvm - other.jvm, self.python - other.python)


@dataclass
class Batch:
    """One micro-batch: messages read, and the time and CPU it took."""

    rows: int
    seconds: float
    cpu: CpuSeconds


def catch_up(settings: Settings) -> tuple[Counter[str], list[Batch], int]:
    """Run the job until it has read everything; return its counts, its batches and the rows the watermark dropped."""
    spark = spark_session("kappa-statistics-speed", settings)
    reported: Counter[str] = Counter()
    writer = build(spark, settings, lambda name, value: reported.update({name: int(value)}))
    batches: list[Batch] = []
    seen, cpu, clock = -1, CpuSeconds.now(), time.perf_counter()
    query = (
        writer.option("checkpointLocation", str(settings.data_dir / "checkpoint")).trigger(availableNow=True).start()
    )
    while query.isActive or (query.lastProgress and query.lastProgress["batchId"] > seen):
        time.sleep(0.02)
        progress = query.lastProgress
        if progress and progress["batchId"] > seen:
            seen, now, cpu_now = progress["batchId"], time.perf_counter(), CpuSeconds.now()
            batches.append(Batch(progress["numInputRows"], now - clock, cpu_now - cpu))
            clock, cpu = now, cpu_now
    query.awaitTermination()
    dropped = sum(o["numRowsDroppedByWatermark"] for batch in query.recentProgress for o in batch["stateOperators"])
    spark.stop()
    return reported, batches, dropped


def main(
    points: Annotated[int, typer.Option(help="Points in the topic.")] = 6_000_000,
    resources: Annotated[int, typer.Option(help="Resources; series = resources x metrics.")] = 1_000,
    metrics: Annotated[int, typer.Option(help="Metrics per resource, one point every 10 s each.")] = 10,
    batch_points: Annotated[int, typer.Option(help="Points per micro-batch.")] = 500_000,
    port: Annotated[int, typer.Option(help="Port of the broker; the next one is its controller's.")] = 29_492,
) -> None:
    """Measure catch-up of the statistics job."""
    ArtifactStore().ensure(["connector", "kafka"])
    folder = Path(tempfile.mkdtemp(prefix="kappa-statistics-speed-"))
    server = KafkaServer(folder / "kafka", folder / "kafka.log", port, port + 1)
    settings = Settings(
        data_dir=folder / "data",
        kafka=KafkaSettings(bootstrap_servers=server.bootstrap_servers),
        spark=SparkSettings(driver_memory="2g"),
        time=TimeRules(arrival="history"),
        statistics=StatisticsParameters(batch_points=batch_points),
    )
    print(f"machine   {machine()}")
    broker = server.start()
    try:
        server.wait(broker, 120.0)
        ensure_topics(settings)
        started = time.perf_counter()
        sent = fill(settings, points, resources, metrics)
        seconds = time.perf_counter() - started
        print(f"log       {sent:,} points of {resources * metrics:,} series, written in {seconds:.0f} s")
        reported, batches, dropped = catch_up(settings)
    finally:
        stop([broker], 30.0)
        shutil.rmtree(folder, ignore_errors=True)
    report(sent, reported, batches, dropped)


def report(sent: int, reported: Counter[str], batches: list[Batch], dropped: int) -> None:
    """Print what was measured."""
    kept = sum(reported[name] for name in ("samples", "duplicates", "excess", "late_points", "rejected_points"))
    print(f"output    {reported['records']:,} records of {reported['windows']} windows; {kept:,} points accounted for")
    print(f"dropped   {dropped} rows by the watermark")
    for number, batch in enumerate(batches):
        cpu = f"JVM {batch.cpu.jvm:5.1f} + Python {batch.cpu.python:5.1f} CPU-seconds"
        print(f"  batch {number:3}  {batch.rows:9,} messages  {batch.seconds:6.1f} s  {cpu}")
    print_speed("all", batches)
    print_speed("warm", batches[_WARM_UP_BATCHES:-1])
    if kept != sent or dropped:
        message = f"{sent - kept} points are not accounted for, {dropped} rows were dropped"
        raise SystemExit(message)


def print_speed(name: str, batches: list[Batch]) -> None:
    """Print messages per second and CPU per message of some batches."""
    messages, seconds = sum(batch.rows for batch in batches), sum(batch.seconds for batch in batches)
    if not messages:
        return
    jvm, python = (sum(getattr(batch.cpu, kind) for batch in batches) / messages * 1e6 for kind in ("jvm", "python"))
    print(
        f"{name:9} {messages / seconds:,.0f} messages/s  ({messages:,} in {seconds:.1f} s);  "
        f"{jvm + python:.2f} us of CPU per message (JVM {jvm:.2f}, Python {python:.2f})"
    )


if __name__ == "__main__":
    typer.run(main)
