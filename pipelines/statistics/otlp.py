"""OTLP messages of an OpenTelemetry Collector -> common rows, in an Arrow function.

Each message tells by its first byte whether it is JSON or protobuf. Both decode to the same neutral points, and one
function makes samples of them, so that the encoding cannot change a statistic:

| OTLP                                    | series (kind)                                                        |
|-----------------------------------------|----------------------------------------------------------------------|
| gauge; sum, cumulative, not monotonic   | name (gauge)                                                         |
| sum, cumulative, monotonic              | name (cumulative)                                                    |
| sum, delta                              | name (delta)                                                         |
| histogram, exponential histogram        | name.count, name.sum (cumulative or delta)                           |
| summary                                 | name.count, name.sum (cumulative), name.quantile by quantile (gauge) |

The points of a message are numbered in the order in which they stand in it; a message some of whose points are late or
refused is kept once per fate, with their numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
from pyspark.sql import functions as sf

from pipelines.parameters import StatisticsParameters
from pipelines.statistics import gate, parse, rows
from pipelines.statistics.otlp_messages import (
    CUMULATIVE,
    DELTA,
    WRONG_SHAPE,
    Attributes,
    LogRecord,
    MessageError,
    MetricData,
    MetricPoint,
    Numbers,
    Resource,
    log_records,
    metric_points,
    value_text,
)
from topics import wire

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NO_RECORDED_VALUE: Final = 1
_SCOPE_ATTRIBUTE: Final = "otel.scope.name"
_QUANTILE_ATTRIBUTE: Final = "quantile"
_ROWS_PER_BATCH: Final = 20_000
_REASONS_LIMIT: Final = 5
_POINTS_HEADER_LIMIT: Final = 8_000
_LATEST_NS: Final = 2**63 - 1


class PointError(ValueError):
    """One point of a message is refused."""


class Sample(NamedTuple):
    """One row of output."""

    resource: str
    time_ns: int
    origin: str | None
    series: str | None = None
    value: float | None = None
    start_ns: int | None = None
    severity: str | None = None
    body: str | None = None
    attributes: str | None = None


# ---- DataFrame -> DataFrame ------------------------------------------------------------------------------------------

_ROW_TYPE: Final = (
    "group_key STRING, event_us BIGINT, series STRING, time_ns BIGINT, value DOUBLE, start_time_ns BIGINT, "
    f"origin STRING, severity STRING, body STRING, attributes STRING, kept {rows.KEPT_TYPE}"
)


def metric_rows(raw: DataFrame, parameters: StatisticsParameters) -> DataFrame:
    """OTLP metric messages -> common rows, one per sample."""
    read = _decoded(raw, parameters, metric_points, metric_samples)
    sample = sf.struct(
        "series",
        "time_ns",
        "value",
        sf.lit(None).cast("double").alias("total"),
        "start_time_ns",
        sf.lit(0).cast("bigint").alias("id"),
        "origin",
    )
    return _common(read, sf.when(sf.col("series").isNotNull(), sample))


def log_rows(raw: DataFrame, parameters: StatisticsParameters) -> DataFrame:
    """OTLP log messages -> common rows, one per log event; templates are masked natively as everywhere."""
    read = _decoded(raw, parameters, log_records, log_samples)
    names = (rows.GROUP_KEY, "time_ns", "severity", "body", "attributes", "origin")
    sample = parse.log_sample(*(sf.col(name) for name in names))
    return _common(read, sf.when(sf.col("severity").isNotNull(), sample))


def _common(read: DataFrame, sample: Any) -> DataFrame:
    return read.select(
        rows.GROUP_KEY, sf.timestamp_micros("event_us").alias(rows.EVENT_TIME), sample.alias(rows.SAMPLE), rows.KEPT
    )


def _decoded(
    raw: DataFrame,
    parameters: StatisticsParameters,
    points: Callable[[bytes], Sequence[Any]],
    samples: Callable[[Any, StatisticsParameters], list[Sample]],
) -> DataFrame:
    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        out = _Rows(parameters)
        for batch in batches:
            for message in batch.to_pylist():
                out.add(message, points, samples)
                if len(out.columns[0]) >= _ROWS_PER_BATCH:
                    yield out.take()
        if out.columns[0]:
            yield out.take()

    return raw.mapInArrow(decode, _ROW_TYPE)


# ---- one message -----------------------------------------------------------------------------------------------------


@dataclass
class _Kept:
    """Points of one message with one fate."""

    reasons: dict[str, None] = field(default_factory=dict)
    points: list[int] = field(default_factory=list)

    def add(self, reason: str, point: int) -> None:
        self.reasons.setdefault(reason)
        self.points.append(point)

    def text(self) -> str:
        return "; ".join(list(self.reasons)[:_REASONS_LIMIT])


class _Rows:
    """Rows on their way out, as columns."""

    def __init__(self, parameters: StatisticsParameters) -> None:
        self._parameters = parameters
        self._schema = _arrow_schema()
        self.columns: list[list[Any]] = [[] for _ in self._schema]

    def take(self) -> pa.RecordBatch:
        """Return the rows so far and start anew."""
        arrays = [pa.array(column, item.type) for column, item in zip(self.columns, self._schema, strict=True)]
        self.columns = [[] for _ in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def add(
        self,
        message: dict[str, Any],
        points: Callable[[bytes], Sequence[Any]],
        samples: Callable[[Any, StatisticsParameters], list[Sample]],
    ) -> None:
        """Add the rows of one message."""
        if message[rows.KEY] == wire.TICK_KEY:
            time_ms = message[rows.ARRIVAL_MS] + self._parameters.time.future_s * 1000
            return self._row(rows.TICK_GROUP, time_ms * 1000)
        late, rejected = _Kept(), _Kept()
        try:
            found = points(message[rows.VALUE] or b"")
        except MessageError as refusal:
            rejected.add(str(refusal), 0)
        else:
            self._points(found, samples, message[rows.ARRIVAL_MS], late, rejected)
        self._keep(message, rows.LATE, late)
        self._keep(message, rows.REJECTED, rejected)
        return None

    def _points(
        self,
        found: Sequence[Any],
        samples: Callable[[Any, StatisticsParameters], list[Sample]],
        arrival_ms: int,
        late: _Kept,
        rejected: _Kept,
    ) -> None:
        for index, point in enumerate(found):
            try:
                made = samples(point, self._parameters)
            except PointError as refusal:
                rejected.add(str(refusal), index)
                continue
            except WRONG_SHAPE:
                rejected.add("malformed data point", index)
                continue
            fate = gate.fate_of(made[0].time_ns, arrival_ms, self._parameters.time)
            if fate == rows.LATE:
                late.add(gate.LATE_REASON, index)
            elif fate == rows.REJECTED:
                rejected.add(gate.FUTURE_REASON, index)
            else:
                for sample in made:
                    self._sample(sample)

    def _sample(self, s: Sample) -> None:
        self._row(s.resource, s.time_ns // 1000, s.series, s.time_ns, s.value, s.start_ns, s.origin,
                  s.severity, s.body, s.attributes)  # fmt: skip

    def _keep(self, message: dict[str, Any], fate: str, kept: _Kept) -> None:
        if not kept.points:
            return
        topic, partition, offset = (message[name] for name in (rows.TOPIC, rows.PARTITION, rows.OFFSET))
        struct = {
            "fate": fate,
            "reason": kept.text(),
            "points": index_ranges(kept.points),
            "point_count": len(kept.points),
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "timestamp_ms": message[rows.TIMESTAMP_MS],
            "key": message[rows.KEY],
            "value": message[rows.VALUE],
            "headers": message[rows.HEADERS],
        }
        group = f"{rows.RESERVED}kept/{topic}/{partition}/{offset}"
        self._row(group, message[rows.ARRIVAL_MS] * 1000, *[None] * 8, struct)

    def _row(self, *values: Any) -> None:
        for column, value in zip(self.columns, (*values, *[None] * (len(self.columns) - len(values))), strict=True):
            column.append(value)


def _arrow_schema() -> pa.Schema:
    text, long, real = pa.string(), pa.int64(), pa.float64()
    headers = pa.list_(pa.struct([("key", text), ("value", pa.binary())]))
    kept = pa.struct(
        [("fate", text), ("reason", text), ("points", text), ("point_count", pa.int32()), ("topic", text),
         ("partition", pa.int32()), ("offset", long), ("timestamp_ms", long), ("key", pa.binary()),
         ("value", pa.binary()), ("headers", headers)]
    )  # fmt: skip
    return pa.schema(
        [("group_key", text), ("event_us", long), ("series", text), ("time_ns", long), ("value", real),
         ("start_time_ns", long), ("origin", text), ("severity", text), ("body", text), ("attributes", text),
         ("kept", kept)]
    )  # fmt: skip


def index_ranges(points: Sequence[int]) -> str:
    """Return ascending numbers as ranges, `0-3,7`; a list too long for a header ends in `...`."""
    numbers = np.asarray(points)
    breaks = np.flatnonzero(np.diff(numbers) != 1)
    firsts, lasts = numbers[np.append(0, breaks + 1)], numbers[np.append(breaks, len(numbers) - 1)]
    text = ",".join(
        str(first) if first == last else f"{first}-{last}"
        for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True)
    )
    return text if len(text) <= _POINTS_HEADER_LIMIT else f"{text[:_POINTS_HEADER_LIMIT].rpartition(',')[0]},..."


# ---- neutral points -> samples: the one place that knows what OTLP means ---------------------------------------------


def metric_samples(point: MetricPoint, parameters: StatisticsParameters) -> list[Sample]:
    """Return the samples of one data point.

    Raises:
        PointError: The point is refused.
    """
    numbers, metric = point.read(), point.metric
    if numbers.flags & _NO_RECORDED_VALUE:
        message = "no recorded value"
        raise PointError(message)
    resource, origin, rest = _identity(point.resource, parameters)
    _require_time(numbers.time_ns)
    _require_name("metric", metric.name)
    attributes = _joined(numbers.attributes, rest)
    start_ns = min(numbers.start_ns, _LATEST_NS) or None
    samples = []
    for suffix, kind, unit, value, extra in _values(metric, numbers):
        _require_number(value)
        text = _canonical(attributes | extra)
        series = rows.SEPARATOR.join((kind, unit, metric.name + suffix, text))
        samples.append(Sample(resource, numbers.time_ns, origin, series, value, start_ns))
    return samples


def _values(metric: MetricData, numbers: Numbers) -> Iterator[tuple[str, str, str, float, Attributes]]:
    """Yield (suffix of the name, kind, unit, value, further attributes) of the series a point is a sample of."""
    kind = _kind(metric)
    unit = metric.unit or "1"
    if metric.shape in {"gauge", "sum"}:
        if numbers.value is None:
            message = "value is missing"
            raise PointError(message)
        yield "", kind, unit, numbers.value, {}
        return
    yield ".count", kind, "1", float(numbers.observations or 0), {}
    if numbers.sum is not None:
        yield ".sum", kind, unit, numbers.sum, {}
    for quantile, value in numbers.quantiles:
        if not math.isnan(value):  # a summary without observations
            yield ".quantile", "gauge", unit, value, {_QUANTILE_ATTRIBUTE: value_text(quantile)}


def _kind(metric: MetricData) -> str:
    if metric.shape == "gauge":
        return "gauge"
    if metric.shape == "summary":
        return "cumulative"
    if metric.temporality == DELTA:
        return "delta"
    if metric.temporality != CUMULATIVE:
        message = "aggregation temporality is unknown"
        raise PointError(message)
    return "cumulative" if metric.monotonic else "gauge"


def log_samples(record: LogRecord, parameters: StatisticsParameters) -> list[Sample]:
    """Return one log event.

    Raises:
        PointError: The event is refused.
    """
    text = record.read()
    resource, origin, rest = _identity(record.resource, parameters)
    _require_time(text.time_ns)
    _require_name("severity", text.severity)
    attributes = _canonical(_joined(text.attributes, rest), limit=math.inf)
    return [Sample(resource, text.time_ns, origin, severity=text.severity, body=text.body, attributes=attributes)]


def _identity(resource: Resource, parameters: StatisticsParameters) -> tuple[str, str | None, Attributes]:
    """Return resource name, origin, and what else the resource says about a series."""
    attributes = resource.attributes
    name = next((item for item in parameters.resource_attributes if attributes.get(item)), None)
    if name is None:
        message = f"none of the resource attributes {', '.join(parameters.resource_attributes)} is there"
        raise PointError(message)
    _require_name("resource", attributes[name])
    told = [
        next((attributes[item] for item in names if item in attributes), None)
        for names in (parameters.service_attributes, parameters.region_attributes, parameters.site_attributes)
    ]
    origin = orjson.dumps(told).decode() if any(item is not None for item in told) else None
    rest = {item: value for item, value in attributes.items() if item != name}
    return attributes[name], origin, rest | ({_SCOPE_ATTRIBUTE: resource.scope} if resource.scope else {})


def _joined(own: Attributes, rest: Attributes) -> Attributes:
    """Join a point's attributes with its resource's; where both have a name, the resource's gets a prefix."""
    return own | {f"resource.{name}" if name in own else name: value for name, value in rest.items()}


def _canonical(attributes: Attributes, limit: float = rows.ATTRIBUTES_LIMIT) -> str:
    text = orjson.dumps(attributes, option=orjson.OPT_SORT_KEYS).decode()
    if len(text) > limit:
        message = f"attributes are longer than {rows.ATTRIBUTES_LIMIT} characters"
        raise PointError(message)
    return text


def _require_name(what: str, name: str) -> None:
    if not name or len(name) > rows.NAME_LIMIT or rows.SEPARATOR in name or rows.RESERVED in name:
        message = f"{what} is empty, longer than {rows.NAME_LIMIT} characters, or holds a control character"
        raise PointError(message)


def _require_time(time_ns: int) -> None:
    if not rows.EARLIEST_NS <= time_ns <= _LATEST_NS:
        message = "event time is missing or before the year 2000"
        raise PointError(message)


def _require_number(value: float) -> None:
    if not abs(value) <= rows.VALUE_LIMIT:
        message = "value is not a finite number below 1e150"
        raise PointError(message)
