"""The fold inside Spark: state survives micro-batches and restarts, records come out once and in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from pipelines.incidents.pipeline import incidents
from tests.pipelines.incidents.cloud import PARAMETERS, at, cloud, pieces, run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CLOUD = cloud()
EVENTS = at(10, 14, *(resource.finding(1e-9) for resource in CLOUD.resources[:8])) | at(
    20, 20, CLOUD.resources[40].finding(1e-9)
)
WINDOWS = 30


@pytest.fixture
def one_partition(spark: SparkSession) -> Iterator[SparkSession]:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    yield spark
    spark.conf.set("spark.sql.shuffle.partitions", str(before))


def fold_files(spark: SparkSession, folder: Path, batches: Sequence[Sequence[bytes]]) -> list[bytes]:
    """Run the query over each batch as a file of its own, with a restart before each; return the records."""
    (folder / "in").mkdir()
    found: list[bytes] = []

    def keep(batch: DataFrame, _: int) -> None:
        found.extend(bytes(row["record"]) for row in batch.collect() if row["id"] is not None)

    for number, batch in enumerate(batches):
        (folder / "in" / f"{number}.txt").write_bytes(b"\n".join(batch))
        source = spark.readStream.text(str(folder / "in")).selectExpr("CAST(value AS BINARY) AS value")
        query: Any = (
            incidents(source, PARAMETERS)
            .writeStream.outputMode("append")
            .foreachBatch(keep)
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    return found


def test_spark_writes_what_the_fold_returns(one_partition: SparkSession, tmp_path: Path) -> None:
    log = CLOUD.log(WINDOWS, EVENTS)
    expected = list(map(orjson.dumps, run(CLOUD, WINDOWS, EVENTS)))
    assert len(expected) >= 4
    assert fold_files(one_partition, tmp_path, list(pieces(log, [41, 47, 83]))) == expected
