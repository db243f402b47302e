"""Summaries in, incident rows out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from pipelines.incidents.processor import OUTPUT_SCHEMA, IncidentProcessor
from pipelines.parameters import IncidentParameters
from topics import registry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_summaries(
    spark: SparkSession, bootstrap_servers: str, generation: str, parameters: IncidentParameters
) -> DataFrame:
    """Return the stream of summaries of a generation, from their beginning: (value)."""
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", registry.SUMMARIES.full_name(generation))
        .option("startingOffsets", "earliest")
        .option("kafka.isolation.level", "read_committed")
        .option("failOnDataLoss", "true")
        .option("maxOffsetsPerTrigger", parameters.batch_records)
        .load()
        .select("value")
    )


def incidents(summaries: DataFrame, parameters: IncidentParameters) -> DataFrame:
    """Return the incident records that summaries lead to, and one row of counts per batch.

    Args:
        summaries: Column `value`: records of novelty.summaries as bytes.
        parameters: Settings of the job.
    """
    return (
        summaries.select(F.lit(0).alias("fleet"), "value")
        .groupBy("fleet")
        .transformWithState(
            statefulProcessor=IncidentProcessor(parameters),
            outputStructType=OUTPUT_SCHEMA,
            outputMode="Append",
            timeMode="None",
        )
    )  # (id, record, completed, ignored, waiting, unmatched)
