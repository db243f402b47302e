"""Entry point of the statistics job: `python -m apps.statistics`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apps.runtime import Report, main_settings, run_job
from pipelines.statistics import closed_windows
from pipelines.statistics.output import WindowSink, target_of
from pipelines.statistics.sources import Broker, open_readers
from pipelines.transport import MarkerProducer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from apps.settings import Settings

JOB = "statistics"


def build(spark: SparkSession, settings: Settings, report: Report) -> DataStreamWriter:
    """Raw topics -> closed windows -> statistics, late, rejected."""
    parameters = settings.statistics_parameters()
    checkpoint = settings.checkpoint_dir(JOB)
    # an older driver is fenced before it is asked how far the output is complete
    producer = MarkerProducer(settings.kafka.bootstrap_servers, f"{settings.generation}.{JOB}")
    with Broker(settings.kafka.bootstrap_servers, parameters.time) as broker:
        target = target_of(broker, settings.kafka.bootstrap_servers, settings.generation, settings.novelty.buckets)
        readers = open_readers(spark, broker, settings.kafka.bootstrap_servers, parameters, checkpoint, target.after_ms)
    sink = WindowSink(target, producer, parameters, report)
    return closed_windows(readers, parameters).writeStream.outputMode("append").foreachBatch(sink)


def main() -> None:
    """Run the job until it is told to stop."""
    settings = main_settings()
    run_job(JOB, settings.statistics_parameters(), build, settings)


if __name__ == "__main__":
    main()
