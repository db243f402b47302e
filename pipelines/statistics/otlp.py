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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
from pyspark.sql import functions as sf

from pipelines.parameters import StatisticsParameters
from pipelines.statistics import gate, parse, rows
from pipelines.statistics.metrics import packed_rows
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
from pipelines.statistics.pack import KEPT, NONE, SCHEMA_TYPE, Columns, Packer
from pipelines.statistics.worker import without_cycle_search
from topics import wire

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NO_RECORDED_VALUE: Final = 1
_SCOPE_ATTRIBUTE: Final = "otel.scope.name"
_QUANTILE_ATTRIBUTE: Final = "quantile"
_SAMPLES_PER_ROUND: Final = 50_000
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

_LOG_TYPE: Final = (
    f"{rows.GROUP_KEY} STRING, event_us BIGINT, time_ns BIGINT, origin STRING, severity STRING, body STRING, "
    f"attributes STRING, {rows.KEPT} {rows.KEPT_TYPE}"
)


def metric_rows(raw: DataFrame, parameters: StatisticsParameters) -> DataFrame:
    """OTLP metric messages -> common rows, one per resource and window of a task."""

    @without_cycle_search
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = MetricReader(parameters)
        for batch in batches:
            yield from reader.read(batch)

    return packed_rows(gate.with_headers_as_text(raw, parameters.time).mapInArrow(read, SCHEMA_TYPE))


def log_rows(raw: DataFrame, parameters: StatisticsParameters) -> DataFrame:
    """OTLP log messages -> common rows, one per log event; templates are masked natively as everywhere."""

    @without_cycle_search
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = LogReader(parameters)
        for batch in batches:
            yield from reader.read(batch)

    names = (rows.GROUP_KEY, "time_ns", "severity", "body", "attributes", "origin")
    sample = parse.log_sample(*(sf.col(name) for name in names))
    return (
        gate.with_headers_as_text(raw, parameters.time)
        .mapInArrow(read, _LOG_TYPE)
        .select(
            rows.GROUP_KEY,
            sf.timestamp_micros("event_us").alias(rows.EVENT_TIME),
            sf.when(sf.col("severity").isNotNull(), sample).alias(rows.SAMPLE),
            sf.lit(None).cast(rows.PACKED_TYPE).alias(rows.PACKED),
            rows.KEPT,
        )
    )


# ---- messages --------------------------------------------------------------------------------------------------------


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


class _Reader:
    """Reads OTLP messages: gates every point, keeps messages of which points are late or refused."""

    def __init__(self, parameters: StatisticsParameters) -> None:
        self.packer = Packer(parameters.time)
        self.samples: list[Sample] = []
        self._parameters = parameters

    def points(self, value: bytes) -> Sequence[Any]:
        """Return the points of a message."""
        raise NotImplementedError

    def samples_of(self, point: Any) -> list[Sample]:
        """Return the samples of a point."""
        raise NotImplementedError

    def take(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of what was read so far."""
        raise NotImplementedError

    def read(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Read one batch of raw messages; yield its rows."""
        ticks = []
        for message in batch.to_pylist():
            if message[rows.KEY] == wire.TICK_KEY:
                ticks.append(message[rows.ARRIVAL_MS])
            else:
                self._message(message)
            if len(self.samples) >= _SAMPLES_PER_ROUND:
                yield from self.take()
        self.packer.tick(np.array(ticks, dtype=np.int64))
        yield from self.take()

    def _message(self, message: dict[str, Any]) -> None:
        late, rejected = _Kept(), _Kept()
        try:
            found = self.points(message[rows.VALUE] or b"")
        except MessageError as refusal:
            rejected.add(str(refusal), 0)
        else:
            for index, point in enumerate(found):
                self._point(index, point, message[rows.ARRIVAL_MS], late, rejected)
        for fate, kept in ((rows.LATE, late), (rows.REJECTED, rejected)):
            if kept.points:
                self.packer.keep(message, fate, kept.text(), index_ranges(kept.points), len(kept.points))

    def _point(self, index: int, point: Any, arrival_ms: int, late: _Kept, rejected: _Kept) -> None:
        try:
            samples = self.samples_of(point)
        except PointError as refusal:
            return rejected.add(str(refusal), index)
        except WRONG_SHAPE:
            return rejected.add("malformed data point", index)
        fate = gate.fate_of(samples[0].time_ns, arrival_ms, self._parameters.time)
        if fate == rows.LATE:
            return late.add(gate.LATE_REASON, index)
        if fate == rows.REJECTED:
            return rejected.add(gate.FUTURE_REASON, index)
        self.samples += samples
        return None


class MetricReader(_Reader):
    """OTLP metrics -> packed rows."""

    def points(self, value: bytes) -> Sequence[MetricPoint]:
        """Return the data points of a message."""
        return metric_points(value)

    def samples_of(self, point: MetricPoint) -> list[Sample]:
        """Return the samples of a data point."""
        return metric_samples(point, self._parameters)

    def take(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of what was read so far."""
        packer, samples = self.packer, self.samples
        codes = [(packer.resources[s.resource], packer.series[s.series], packer.origins[s.origin]) for s in samples]
        resource, series, origin = np.array(codes, dtype=np.int64).reshape(-1, 3).T
        packer.add(
            Columns(
                resource=resource,
                series=series,
                origin=origin,
                time_ns=np.array([s.time_ns for s in samples], dtype=np.int64),
                value=np.array([s.value for s in samples], dtype=np.float64),
                total=np.full(len(samples), np.nan),
                start_ns=np.array([NONE if s.start_ns is None else s.start_ns for s in samples], dtype=np.int64),
            )
        )
        self.samples = []
        yield from packer.take()


class LogReader(_Reader):
    """OTLP logs -> one row per event."""

    def points(self, value: bytes) -> Sequence[LogRecord]:
        """Return the log records of a message."""
        return log_records(value)

    def samples_of(self, point: LogRecord) -> list[Sample]:
        """Return the event of a log record."""
        return log_samples(point, self._parameters)

    def take(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of what was read so far."""
        schema = pa.schema(
            [(rows.GROUP_KEY, pa.string()), ("event_us", pa.int64()), ("time_ns", pa.int64()), ("origin", pa.string()),
             ("severity", pa.string()), ("body", pa.string()), ("attributes", pa.string()), (rows.KEPT, KEPT)]
        )  # fmt: skip
        for batch in self.packer.take():  # ticks and kept messages
            yield pa.RecordBatch.from_pylist(batch.select([rows.GROUP_KEY, "event_us", rows.KEPT]).to_pylist(), schema)
        lines = [
            (s.resource, s.time_ns // 1000, s.time_ns, s.origin, s.severity, s.body, s.attributes, None)
            for s in self.samples
        ]
        columns = zip(*lines, strict=True) if lines else [[] for _ in schema]
        self.samples = []
        yield pa.RecordBatch.from_arrays(
            [pa.array(column, item.type) for column, item in zip(columns, schema, strict=True)], schema=schema
        )


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
