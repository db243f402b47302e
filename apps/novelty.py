"""Entry point of the novelty job: `python -m apps.novelty`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apps.runtime import Report, main_settings, run_job
from apps.topics_admin import TopicsAdmin
from pipelines.novelty.output import Target, write_batch
from pipelines.novelty.pipeline import novelty, read_statistics
from topics.registry import STATISTICS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from apps.settings import Settings


def build(spark: SparkSession, settings: Settings, report: Report) -> DataStreamWriter:
    """Statistics -> fold per bucket -> scores, summaries, snapshots."""
    brokers, generation, parameters = settings.kafka.bootstrap_servers, settings.generation, settings.novelty
    partitions = TopicsAdmin(brokers).partition_counts()
    statistics = read_statistics(spark, brokers, generation, parameters)
    records = novelty(statistics, partitions[STATISTICS.full_name(generation)], parameters)
    sink = write_batch(Target(brokers, generation, partitions), report)
    return records.writeStream.outputMode("append").foreachBatch(sink)


if __name__ == "__main__":
    chosen = main_settings()
    run_job("novelty", chosen.novelty, build, chosen)
