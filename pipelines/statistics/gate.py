"""The gate: arrival minus event time decides the fate of a point, before Spark sees a watermark.

It is a property of the record alone, so it is the same in every replay:

    arrival - event time > L   late
    event time - arrival > F   rejected (from the future)
"""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray
from pyspark.sql import functions as sf

from pipelines.statistics import rows
from topics import wire

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from pipelines.parameters import TimeRules

FUTURE_REASON: Final = "event time is further ahead of arrival than future_s allows"
LATE_REASON: Final = "event time is further behind arrival than lateness_s allows"

_NS_PER_MS: Final = 1_000_000
_NS_PER_S: Final = 1_000_000_000
_LATEST_ARRIVAL_MS: Final = 4_102_444_800_000


def with_arrival(raw: DataFrame, time: TimeRules) -> DataFrame:
    """Add arrival in ms: the broker's append time or, in history topics, the header the one writer set.

    Where that header is the only one, it is taken away: it says nothing more, and headers are dear to carry.
    """
    appended, headers = sf.col(rows.TIMESTAMP_MS), sf.col(rows.HEADERS)
    if time.arrival == "broker":
        return raw.withColumn(rows.ARRIVAL_MS, appended)
    alone = (sf.size(headers) == 1) & (sf.get(headers, sf.lit(0))["key"] == wire.ARRIVAL_HEADER)
    named = sf.filter(headers, lambda header: header["key"] == sf.lit(wire.ARRIVAL_HEADER))
    told = sf.when(alone, sf.get(headers, sf.lit(0))["value"]).otherwise(sf.get(named, sf.lit(0))["value"])
    number = told.cast("string").try_cast("bigint")
    arrival = sf.coalesce(sf.when(number.between(0, _LATEST_ARRIVAL_MS), number), appended)
    spare = alone & (arrival.cast("string") == told.cast("string"))
    return raw.withColumns({rows.ARRIVAL_MS: arrival, rows.HEADERS: sf.when(~spare, headers)})


def with_headers_as_text(raw: DataFrame, time: TimeRules) -> DataFrame:
    """Make headers the JSON of a list of {key, value in base64}, null where there are none, to carry them to Python.

    Spark's Arrow writer walks over all nulls of a list column again for every row, and a text is cheaper than a list.
    """
    headers = sf.col(rows.HEADERS)
    some = headers.isNotNull() if time.arrival == "history" else sf.size(headers) > 0
    return raw.withColumn(rows.HEADERS, sf.when(some, sf.to_json(headers)))


def kept_headers(text: str | None, arrival_ms: int, time: TimeRules) -> list[dict[str, Any]]:
    """Return a message's headers as they were received: `with_arrival` may have taken one away."""
    if text is None:
        own = {"key": wire.ARRIVAL_HEADER, "value": str(arrival_ms).encode()}
        return [own] if time.arrival == "history" else []
    return [{"key": header["key"], "value": _bytes(header.get("value"))} for header in orjson.loads(text)]


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


def kept_headers_column(time: TimeRules) -> Column:
    """Return the same natively."""
    headers = sf.col(rows.HEADERS)
    if time.arrival == "broker":
        return headers
    value = sf.col(rows.ARRIVAL_MS).cast("string").cast("binary")
    taken = sf.array(sf.struct(sf.lit(wire.ARRIVAL_HEADER).alias("key"), value.alias("value")))
    return sf.coalesce(headers, taken)


def fate(time_ns: Column, time: TimeRules) -> Column:
    """Return the fate of a point whose event time is valid."""
    arrival_ns = sf.col(rows.ARRIVAL_MS) * sf.lit(_NS_PER_MS)
    late = time_ns < arrival_ns - sf.lit(time.lateness_s * _NS_PER_S)
    future = time_ns > arrival_ns + sf.lit(time.future_s * _NS_PER_S)
    return sf.when(late, rows.LATE).when(future, rows.REJECTED).otherwise(rows.ON_TIME)


def fate_of(time_ns: int, arrival_ms: int, time: TimeRules) -> str:
    """Return the fate of one point: the rule of `fate`, for what is decoded outside Spark's own functions."""
    arrival_ns = arrival_ms * _NS_PER_MS
    if time_ns < arrival_ns - time.lateness_s * _NS_PER_S:
        return rows.LATE
    return rows.REJECTED if time_ns > arrival_ns + time.future_s * _NS_PER_S else rows.ON_TIME


def fates_of(
    time_ns: NDArray[np.int64], arrival_ms: NDArray[np.int64], time: TimeRules
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which points are late and which are from the future: the rule of `fate`, for columns."""
    arrival_ns = arrival_ms * _NS_PER_MS
    return time_ns < arrival_ns - time.lateness_s * _NS_PER_S, time_ns > arrival_ns + time.future_s * _NS_PER_S


def tick_time_ms(time: TimeRules) -> Column:
    """Return the event time of a tick in ms: as far ahead of arrival as any point may be."""
    return sf.col(rows.ARRIVAL_MS) + sf.lit(time.future_s * 1000)


def watermarked(points: DataFrame, time: TimeRules) -> DataFrame:
    """Watermark = arrival - L - C, whatever the data do: ticks run F ahead, the delay is L + F + C."""
    return points.withWatermark(rows.EVENT_TIME, f"{time.watermark_delay_s} seconds")
