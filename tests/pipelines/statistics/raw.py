"""Raw messages for tests, as a reader of one Kafka partition gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf

from pipelines.parameters import StatisticsParameters, TimeRules
from pipelines.statistics import common_rows, rows
from pipelines.statistics.pack import POINT
from topics import registry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ARRIVAL_MS = 1_763_690_400_000
ARRIVAL_NS = ARRIVAL_MS * 1_000_000
SECOND_NS = 1_000_000_000

_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
_RAW = pa.schema(
    [
        (rows.KEY, pa.binary()),
        (rows.VALUE, pa.binary()),
        (rows.HEADERS, pa.list_(_HEADER)),
        (rows.TOPIC, pa.string()),
        (rows.PARTITION, pa.int32()),
        (rows.OFFSET, pa.int64()),
        (rows.TIMESTAMP_MS, pa.int64()),
    ]
)


def raw_messages(
    spark: SparkSession,
    topic: registry.Topic,
    values: Sequence[bytes | None],
    key: bytes | None = None,
    arrival_ms: int = ARRIVAL_MS,
    headers: dict[str, bytes] | None = None,
) -> DataFrame:
    own = [{"key": name, "value": value} for name, value in (headers or {}).items()]
    lines = [
        dict(zip(_RAW.names, (key, value, own, topic.name, 0, offset, arrival_ms), strict=True))
        for offset, value in enumerate(values)
    ]
    return spark.createDataFrame(pa.Table.from_pylist(lines, _RAW))


def parse(
    spark: SparkSession,
    topic: registry.Topic,
    values: Sequence[bytes | None],
    time: TimeRules | None = None,
    **raw: Any,
) -> list[dict[str, Any]]:
    """Parse messages through Spark; return the common rows as dictionaries."""
    parameters = StatisticsParameters(time=time or TimeRules())
    found = common_rows(topic, raw_messages(spark, topic, values, **raw), parameters)
    nullable = {
        rows.SAMPLE: sf.col(rows.SAMPLE).cast(rows.SAMPLE_TYPE),
        rows.KEPT: sf.col(rows.KEPT).cast(rows.KEPT_TYPE),
    }
    lines: list[dict[str, Any]] = found.withColumns(nullable).toArrow().to_pylist()
    return lines


def fates(found: list[dict[str, Any]], count: int) -> list[str]:
    """Return the fate of each of `count` canonical messages, by offset; a tick's is `tick`."""
    kept = {row["kept"]["offset"]: row["kept"]["fate"] for row in found if row["kept"]}
    assert len(samples_of(found)) + len(kept) == count
    return [kept.get(offset, rows.ON_TIME) for offset in range(count)]


def samples_of(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return all samples, packed or not, with the resource they belong to."""
    samples = [{"resource": row["group_key"], **row["sample"]} for row in found if row["sample"]]
    for row in found:
        if row["packed"]:
            names = row["packed"]["names"].decode()[:-1].split(rows.RESERVED)
            for name, *numbers in np.frombuffer(row["packed"]["points"], POINT).tolist():
                values = dict(zip(POINT.names[1:], numbers, strict=True))
                origin = row["packed"]["origin"]
                samples.append({"resource": row["group_key"], "series": names[name], "origin": origin, **values})
    return samples
