"""Entry point of the incidents job: `python -m apps.incidents`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apps.runtime import Report, main_settings, run_job
from apps.settings import Settings
from pipelines.incidents.output import IncidentWriter
from pipelines.incidents.pipeline import incidents, read_summaries
from pipelines.transport import MarkerProducer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def build(spark: SparkSession, settings: Settings, report: Report) -> DataStreamWriter:
    """Wire summaries to incidents."""
    brokers, generation = settings.kafka.bootstrap_servers, settings.generation
    parameters = settings.incident_parameters()
    # The fleet is one key: a second shuffle partition would only be an empty task with a state store of its own.
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    summaries = read_summaries(spark, brokers, generation, parameters)
    writer = IncidentWriter(MarkerProducer(brokers, f"{generation}.incidents"), generation, report)
    return incidents(summaries, parameters).writeStream.outputMode("append").foreachBatch(writer)


if __name__ == "__main__":
    chosen = main_settings()
    run_job("incidents", chosen.incident_parameters(), build, chosen)
