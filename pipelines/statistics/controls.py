"""Control records -> common rows, natively: kept for the marker of the window of their arrival, or rejected.

Every rule of a control record that the folds rely on is checked here, once, so that they need not doubt what they read.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final, get_args

from pyspark.sql import functions as sf

from pipelines.statistics import rows
from pipelines.statistics.parse import common_message, malformed, message_schema, name_faults, parsed
from topics.controls import CONTROL_TYPES, DAY_MINUTES, DAYS, WEEK_MINUTES, Rule, RuleRemoval
from topics.records import Direction, Inventory, OperatorVerdict, Opinion
from topics.registry import CONTROL
from topics.schemas import merged_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from pipelines.parameters import TimeRules

Faults = list[tuple["Column", str]]

#: Longer ones are refused: every partition gets a copy.
LIMIT_BYTES: Final = 64 * 1024
_PATTERNS: Final = ("resource", "service", "region", "metric")
_DEVIATIONS: Final = ("minimal_deviation", "minimal_relative_deviation")


def control_rows(raw: DataFrame, time: TimeRules) -> DataFrame:
    """Control records -> common rows: kept, and applied at the marker of the window of their arrival."""
    schema = message_schema(merged_schema(CONTROL.records).simpleString())
    record = parsed(raw, schema).withColumn("reason", sf.coalesce(malformed(), _first(_faults())))
    fate = sf.when(sf.col("reason").isNull(), rows.CONTROL).otherwise(rows.REJECTED)
    no_time = sf.lit(None).cast("bigint")
    return common_message(
        record.withColumns({"fate": fate, "event_us": no_time}), sf.lit(None).cast(rows.SAMPLE_TYPE), time
    )


def _first(faults: Faults) -> Column:
    reason = sf.when(sf.lit(False), sf.lit(None).cast("string"))
    for condition, text in faults:
        reason = reason.when(condition, text)
    return reason


def _faults() -> Faults:
    known = sf.coalesce(sf.col("point.type").isin(*CONTROL_TYPES), sf.lit(False))
    return [
        (~known, "type is unknown"),
        (sf.length(rows.VALUE) > LIMIT_BYTES, f"a control record is longer than {LIMIT_BYTES} bytes"),
        *_of(Inventory.type, name_faults("resource")),
        *_of(Rule.type, _rule_faults()),
        *_of(RuleRemoval.type, name_faults("id")),
        *_of(OperatorVerdict.type, _verdict_faults()),
    ]


def _of(kind: str, faults: Faults) -> Faults:
    """Let faults concern one type of record only."""
    return [((sf.col("point.type") == kind) & condition, text) for condition, text in faults]


def _rule_faults() -> Faults:
    effect = sf.coalesce("point.skip_result", sf.lit(Rule.skip_result)) | sf.coalesce(
        "point.skip_learning", sf.lit(Rule.skip_learning)
    )
    return [
        *name_faults("id"),
        *(fault for name in _PATTERNS for fault in _optional_name(name)),
        (~_among("point.direction", get_args(Direction)), "direction is unknown"),
        *((~_amount(name), f"{name} is not a number from 0 on") for name in _DEVIATIONS),
        (sf.exists("point.intervals", _bad_interval), "an interval must have start_ms before end_ms"),
        (
            sf.exists("point.weekly", _bad_week),
            f"weekly needs days of {', '.join(DAYS)}, start_minute below {DAY_MINUTES} and duration_minutes "
            f"from 1 to {WEEK_MINUTES}",
        ),
        (~effect, "a rule must skip the result or the learning"),
    ]


def _optional_name(name: str) -> Faults:
    given = sf.col(f"point.{name}").isNotNull()
    return [(given & condition, text) for condition, text in name_faults(name)]


def _among(column: str, allowed: tuple[str, ...]) -> Column:
    return sf.col(column).isNull() | sf.col(column).isin(*allowed)


def _amount(name: str) -> Column:
    column = sf.col(f"point.{name}")
    return column.isNull() | ((column >= 0) & (column < sf.lit(inf)))


def _bad_interval(interval: Column) -> Column:
    return ~sf.coalesce(interval["start_ms"] < interval["end_ms"], sf.lit(False))


def _bad_week(weekly: Column) -> Column:
    days, start, duration = weekly["days"], weekly["start_minute"], weekly["duration_minutes"]
    good = (
        (sf.size(days) > 0)
        & sf.forall(days, lambda day: sf.coalesce(day.isin(*DAYS), sf.lit(False)))
        & start.between(0, DAY_MINUTES - 1)
        & duration.between(1, WEEK_MINUTES)
    )
    return ~sf.coalesce(good, sf.lit(False))


def _verdict_faults() -> Faults:
    opinion = sf.coalesce(sf.col("point.verdict").isin(*get_args(Opinion)), sf.lit(False))
    nothing = sf.col("point.incident").isNull() & (sf.coalesce(sf.size("point.subjects"), sf.lit(0)) <= 0)
    return [
        (~opinion, f"verdict is none of {', '.join(get_args(Opinion))}"),
        (nothing, "a verdict names an incident or subjects"),
        (sf.exists("point.subjects", _no_resource), "a subject needs a resource"),
        (sf.col("point.start_ms") >= sf.col("point.end_ms"), "start_ms must be before end_ms"),
    ]


def _no_resource(subject: Column) -> Column:
    return sf.coalesce(subject["resource"], sf.lit("")) == ""
