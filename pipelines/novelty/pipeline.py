"""Source and dataflow of the novelty job: Kafka records -> parcels per bucket -> closed windows' records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import orjson
import pyarrow as pa
from pyspark.sql import functions as sf

from pipelines.novelty.packing import ParcelBuilder, concerns_one_bucket, parcel_to_bytes
from pipelines.novelty.processor import OUTPUT_SCHEMA, PARCEL_SCHEMA, NoveltyProcessor
from pipelines.parameters import NoveltyParameters
from topics.registry import STATISTICS
from topics.wire import BUCKET_SQL, CONTROL_KEY, CONTROL_RESOURCE_PATH, MARKER_KEY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class StatisticsRecordError(ValueError):
    """A record in the statistics topic is not what its one writer writes."""


def read_statistics(
    spark: SparkSession, bootstrap_servers: str, generation: str, parameters: NoveltyParameters
) -> DataFrame:
    """Return the statistics topic as a stream: every committed record from the beginning."""
    # --- time: none of the broker's or of Spark's. Closed markers in the log say which windows are complete. ---
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", STATISTICS.full_name(generation))
        .option("kafka.isolation.level", "read_committed")
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", "true")
        .option("maxOffsetsPerTrigger", parameters.batch_records)
        .load()
    )


def novelty(statistics: DataFrame, partitions: int, parameters: NoveltyParameters) -> DataFrame:
    """Return the records of closed windows, packed, in the columns of `OUTPUT_SCHEMA`.

    Args:
        statistics: Records of the statistics topic with columns key, value, partition, offset.
        partitions: Partitions of that topic.
        parameters: Settings of the job.
    """
    control = sf.col("key") == sf.lit(bytearray(CONTROL_KEY))
    named = sf.get_json_object(sf.col("value").cast("string"), CONTROL_RESOURCE_PATH)
    resource = sf.when(control, named).otherwise(sf.col("key").cast("string"))
    bucket = sf.expr(BUCKET_SQL.format(resource="resource", buckets=parameters.buckets))
    located = statistics.withColumn("resource", resource).select("key", "value", "partition", "offset",
                                                                 bucket.alias("bucket"))  # fmt: skip
    parcels = located.mapInArrow(partial(_pack, parameters.buckets, partitions), PARCEL_SCHEMA)
    # element: (bucket, parcel)
    return parcels.groupBy("bucket").transformWithState(
        NoveltyProcessor(parameters), OUTPUT_SCHEMA, outputMode="Append", timeMode="None"
    )


def _pack(buckets: int, partitions: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn each Arrow batch into one parcel per bucket."""
    for batch in batches:
        builders: dict[int, ParcelBuilder] = defaultdict(ParcelBuilder)
        for key, value, partition, offset, bucket in zip(*(column.to_pylist() for column in batch), strict=True):
            try:
                _add(builders, key, value, range(partition, buckets, partitions), offset, bucket)
            except (KeyError, TypeError, ValueError) as broken:
                message = (
                    f"record at {STATISTICS.name} partition {partition} offset {offset} is not a statistics record "
                    f"({broken!r}): only the statistics job may write there; start a new generation"
                )
                raise StatisticsRecordError(message) from broken
        yield pa.RecordBatch.from_pydict(
            {
                "bucket": pa.array(sorted(builders), pa.int32()),
                "parcel": [parcel_to_bytes(builders[bucket].parcel()) for bucket in sorted(builders)],
            }
        )


def _add(
    builders: dict[int, ParcelBuilder], key: bytes, value: bytes, of_partition: range, offset: int, bucket: int
) -> None:
    content = orjson.loads(value)
    if key == MARKER_KEY:
        for every in of_partition:
            builders[every].marker(content)
    elif key != CONTROL_KEY:
        builders[bucket].record(content)
    else:
        concerned = {bucket}.intersection(of_partition) if concerns_one_bucket(content) else of_partition
        for every in concerned:
            builders[every].control(content, offset)
