"""The gate: arrival minus event time decides the fate of a point, before Spark sees a watermark.

It is a property of the record alone, so it is the same in every replay:

    arrival - event time > L   late
    event time - arrival > F   rejected (from the future)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
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


def arrival_ms(time: TimeRules) -> Column:
    """Return arrival in ms: the broker's append time or, in history topics, the header the one writer set."""
    appended = sf.col(rows.TIMESTAMP_MS)
    if time.arrival == "broker":
        return appended
    named = sf.filter(sf.col(rows.HEADERS), lambda header: header["key"] == sf.lit(wire.ARRIVAL_HEADER))
    told = sf.element_at(sf.transform(named, lambda header: header["value"]), 1)
    number = sf.when(sf.size(named) > 0, told.cast("string").try_cast("bigint"))
    return sf.coalesce(sf.when(number.between(0, _LATEST_ARRIVAL_MS), number), appended)


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
