"""Log events -> common rows, natively: every bad message becomes a rejected one with its reason.

A message is read as the one element of an array: that is how a native parse notices what follows the first object.
Types are strict: a number where text belongs, or the reverse, is refused. `severity` and `body` take any JSON value as
its text.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final, get_type_hints

from pyspark.sql import functions as sf

from pipelines.statistics import gate, rows
from topics import records, wire

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from pipelines.parameters import TimeRules

_OPTIONS: Final = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": "corrupt",
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}
_NATIVE_TYPES: Final[dict[Any, str]] = {str: "STRING", int: "BIGINT", float: "DOUBLE"}
#: Text starting so may have been another JSON type before it was read as text.
_MAYBE_NOT_TEXT: Final = r'^[-0-9\[{tfnIN"]'
_SURROGATE: Final = r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}"

_MASKS: Final = (
    (r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b", "<uuid>"),
    (r"\b\d{1,3}(?:\.\d{1,3}){3}\b|\b(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}\b", "<addr>"),
    (r"(?<![0-9a-zA-Z:])(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}\b", "<addr>"),
    (r"(?<![0-9a-zA-Z:])(?:[0-9a-fA-F]{1,4}:)+(?::[0-9a-fA-F]{1,4})+\b", "<addr>"),
    (r"\b0[xX][0-9a-fA-F]+\b|\b(?=[a-fA-F]*[0-9])(?=[0-9]*[a-fA-F])[0-9a-fA-F]{8,}\b", "<hex>"),
    (r"\d+", "<n>"),
)


def _native_schema(record: type[Any]) -> str:
    """Return the DDL of one message; a record's nested fields are read as JSON text."""
    hints = get_type_hints(record)
    names = [item.name for item in fields(record)]
    inner = ", ".join(f"{name}: {_native_type(hints[name])}" for name in names)
    return message_schema(f"STRUCT<{inner}>")


def message_schema(struct: str) -> str:
    """Return the DDL of one message, a struct, wrapped in an array."""
    return f"message ARRAY<{struct}>, complete BOOLEAN, corrupt STRING"


def _native_type(hint: Any) -> str:
    options = [hint, *getattr(hint, "__args__", ())]
    return next((_NATIVE_TYPES[option] for option in options if option in _NATIVE_TYPES), "STRING")


def parsed(raw: DataFrame, schema: str) -> DataFrame:
    """Add `text`, `read` (the wrapped parse) and `point` (the message's fields, null where it is not one object)."""
    text = sf.col(rows.VALUE).cast("string")
    # the parser is given nothing but what it can read: ticks and invalid bytes are told apart below
    wrapped = sf.when(sf.is_valid_utf8(text), sf.concat(sf.lit('{"message":['), text, sf.lit('],"complete":true}')))
    read = raw.withColumn("text", text).withColumn("read", sf.from_json(wrapped, schema, _OPTIONS))
    return read.withColumn("point", sf.when(sf.size("read.message") == 1, sf.col("read.message")[0]))


def malformed() -> Column:
    """Reason why a message is no JSON object of the right types, else null."""
    return (
        sf.when(sf.col(rows.VALUE).isNull() | (sf.length(rows.VALUE) == 0), "empty message")
        .when(~sf.is_valid_utf8(sf.col("text")), "invalid UTF-8")
        .when(sf.col("read").isNull() | sf.col("read.message").isNull(), "malformed JSON")
        .when(sf.col("read.corrupt").isNotNull(), "a field has the wrong type")
        .when(sf.col("read.complete").isNull() | (sf.size("read.message") != 1), "not exactly one JSON object")
        .when(sf.col("point").isNull(), "not a JSON object")
    )


def name_faults(name: str, limit: int = rows.NAME_LIMIT) -> list[tuple[Column, str]]:
    """Conditions under which a name is refused, with their reasons."""
    column = sf.col(f"point.{name}")
    return [
        (column.isNull(), f"{name} is missing"),
        (column == "", f"{name} is empty"),
        (sf.length(column) > limit, f"{name} is longer than {limit} characters"),
        (column.contains(rows.SEPARATOR) | column.contains(rows.RESERVED), f"{name} holds a control character"),
        (column.rlike(_MAYBE_NOT_TEXT) & ~_is_text(name), f"{name} is not text"),
    ]


def attributes_faults() -> list[tuple[Column, str]]:
    """Conditions under which attributes are refused; text that only looks like an object is found by a second look."""
    column, text = sf.col("point.attributes"), sf.col("text")
    quoted = column.isNotNull() & (text.contains('"{') | text.contains('"\\u007'))
    return [
        (~column.startswith("{") | (quoted & ~_type_of("attributes").startswith("OBJECT")), "attributes are no object"),
        (sf.length(column) > rows.ATTRIBUTES_LIMIT, f"attributes are longer than {rows.ATTRIBUTES_LIMIT} characters"),
    ]


def _is_text(name: str) -> Column:
    return _type_of(name) == "STRING"


def _type_of(name: str) -> Column:
    """Type of one top-level field by a parse that keeps types; only for the few messages that need it."""
    # half a surrogate pair, which the first parse reads as a question mark, would stop this one
    whole = sf.regexp_replace("text", sf.lit(_SURROGATE), sf.lit(r"\\\\u003f"))
    found = sf.try_variant_get(sf.try_parse_json(whole), f"$.{name}", "variant")
    return sf.coalesce(sf.schema_of_variant(found), sf.lit("VOID"))


def time_faults(name: str = "time_ns") -> list[tuple[Column, str]]:
    """Conditions under which an event time is refused."""
    column = sf.col(f"point.{name}")
    return [
        (column.isNull(), f"{name} is missing"),
        (column < sf.lit(rows.EARLIEST_NS), f"{name} is before the year 2000: not nanoseconds?"),
    ]


def _reason(faults: list[tuple[Column, str]]) -> Column:
    reason = sf.when(sf.lit(False), sf.lit(None).cast("string"))
    for condition, text in faults:
        reason = reason.when(condition, text)
    return sf.coalesce(malformed(), reason)


def log_rows(raw: DataFrame, time: TimeRules) -> DataFrame:
    """Canonical log events -> common rows, one per message."""
    faults = [
        *name_faults("resource"),
        *time_faults(),
        (sf.col("point.severity").isNull(), "severity is missing"),
        (sf.length("point.severity") > rows.NAME_LIMIT, f"severity is longer than {rows.NAME_LIMIT} characters"),
        (sf.col("point.severity").contains(rows.SEPARATOR), "severity holds a control character"),
        (sf.col("point.body").isNull(), "body is missing"),
        *attributes_faults(),
    ]
    event = parsed(raw, _native_schema(records.LogEvent)).withColumn("reason", _reason(faults))
    attributes = sf.coalesce("point.attributes", sf.lit("{}"))
    sample = log_sample(
        sf.col("point.resource"), sf.col("point.time_ns"), sf.col("point.severity"), sf.col("point.body"), attributes
    )
    return common_rows(event, sample, time)


def log_sample(
    resource: Column, time_ns: Column, severity: Column, body: Column, attributes: Column, origin: Column | None = None
) -> Column:
    """A log event as a sample: counts 1, and its identity tells a duplicate from another event of the same time."""
    series = sf.concat_ws(rows.SEPARATOR, sf.lit(rows.LOG_KIND), sf.lit("1"), severity, template_of(body))
    nothing = sf.lit(None)
    return sf.struct(
        series.alias("series"),
        time_ns.alias("time_ns"),
        sf.lit(1.0).alias("value"),
        nothing.cast("double").alias("total"),
        nothing.cast("bigint").alias("start_time_ns"),
        sf.xxhash64(resource, time_ns, severity, body, attributes).alias("id"),
        (nothing.cast("string") if origin is None else origin).alias("origin"),
    )


def template_of(body: Column) -> Column:
    """The body with its variable parts masked: UUIDs, addresses, hex numbers, digits."""
    template = sf.substring(body, 1, rows.TEMPLATE_LIMIT)
    for pattern, mask in _MASKS:
        template = sf.regexp_replace(template, pattern, mask)
    return template


def common_rows(point: DataFrame, sample: Column, time: TimeRules) -> DataFrame:
    """Gate parsed points: on time they are samples, else the whole message is kept with the reason."""
    time_ns = sf.col("point.time_ns")
    fate = sf.when(sf.col("reason").isNotNull(), rows.REJECTED).otherwise(gate.fate(time_ns, time))
    event_us = sf.expr("point.time_ns div 1000")
    return common_message(point.withColumns({"fate": fate, "event_us": event_us}), sample, time)


def common_message(point: DataFrame, sample: Column, time: TimeRules) -> DataFrame:
    """Columns `fate`, `reason` and `event_us` (event time in microseconds, the grain of a watermark) -> common row."""
    tick = sf.col(rows.KEY).eqNullSafe(sf.lit(wire.TICK_KEY))
    on_time = sf.col("fate") == rows.ON_TIME
    return point.select(
        sf.when(tick, rows.TICK_GROUP)
        .when(on_time, sf.col("point.resource"))
        .otherwise(kept_group())
        .alias(rows.GROUP_KEY),
        sf.when(tick, sf.timestamp_millis(gate.tick_time_ms(time)))
        .when(on_time, sf.timestamp_micros("event_us"))
        .otherwise(sf.timestamp_millis(sf.col(rows.ARRIVAL_MS)))
        .alias(rows.EVENT_TIME),
        sf.when(~tick & on_time, sample).alias(rows.SAMPLE),
        sf.lit(None).cast(rows.PACKED_TYPE).alias(rows.PACKED),
        sf.when(~tick & ~on_time, _kept(time)).alias(rows.KEPT),
    )


def kept_group() -> Column:
    """A group of its own for every kept message, so that no state row grows."""
    return sf.concat(
        sf.lit(f"{rows.RESERVED}kept/"),
        sf.col(rows.TOPIC),
        sf.lit("/"),
        sf.col(rows.PARTITION),
        sf.lit("/"),
        sf.col(rows.OFFSET),
    )


def _kept(time: TimeRules) -> Column:
    reason = (
        sf.when(sf.col("reason").isNotNull(), sf.col("reason"))
        .when(sf.col("fate") == rows.LATE, gate.LATE_REASON)
        .when(sf.col("fate") == rows.REJECTED, gate.FUTURE_REASON)
    )
    return sf.struct(
        sf.col("fate").alias("fate"),
        reason.alias("reason"),
        sf.lit("0").alias("points"),
        sf.lit(1).alias("point_count"),
        sf.col(rows.TOPIC).alias("topic"),
        sf.col(rows.PARTITION).alias("partition"),
        sf.col(rows.OFFSET).alias("offset"),
        sf.col(rows.TIMESTAMP_MS).alias("timestamp_ms"),
        sf.col(rows.KEY).alias("key"),
        sf.col(rows.VALUE).alias("value"),
        gate.kept_headers_column(time).alias("headers"),
    )
