"""Reading OTLP messages: JSON and protobuf to the same neutral points, in the order in which they stand.

What a whole message lacks raises `MessageError`; what a single point lacks is found when the point is read.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import orjson
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

Attributes = dict[str, str]

DELTA: Final = 1
CUMULATIVE: Final = 2
_TEMPORALITIES: Final = {"AGGREGATION_TEMPORALITY_DELTA": DELTA, "AGGREGATION_TEMPORALITY_CUMULATIVE": CUMULATIVE}
_SEVERITIES: Final = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
_UNSPECIFIED_SEVERITY: Final = "UNSPECIFIED"

#: What reading a message of another shape may raise.
WRONG_SHAPE: Final = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)


class MessageError(ValueError):
    """A whole message cannot be read."""


class Resource(NamedTuple):
    """Who a group of points belongs to."""

    attributes: Attributes
    scope: str


class MetricData(NamedTuple):
    """What the points of one metric share."""

    name: str
    unit: str
    shape: str
    temporality: int
    monotonic: bool


class Numbers(NamedTuple):
    """The numbers of one data point; which are there depends on the shape of its metric."""

    attributes: Attributes
    time_ns: int
    start_ns: int
    flags: int
    value: float | None = None
    observations: int | None = None
    sum: float | None = None
    quantiles: Sequence[tuple[float, float]] = ()


class MetricPoint(NamedTuple):
    """One data point as it was received."""

    resource: Resource
    metric: MetricData
    read: Callable[[], Numbers]


class LogText(NamedTuple):
    """The content of one log record."""

    time_ns: int
    severity: str
    body: str
    attributes: Attributes


class LogRecord(NamedTuple):
    """One log record as it was received."""

    resource: Resource
    read: Callable[[], LogText]


def metric_points(value: bytes) -> list[MetricPoint]:
    """Return all data points of a metrics message.

    Raises:
        MessageError: It is no OTLP metrics message.
    """
    return _read(value, "metrics", _json_points, _protobuf_points)


def log_records(value: bytes) -> list[LogRecord]:
    """Return all records of a logs message.

    Raises:
        MessageError: It is no OTLP logs message.
    """
    return _read(value, "logs", _json_records, _protobuf_records)


def _read(
    value: bytes,
    what: str,
    from_json: Callable[[Any], Iterator[Any]],
    from_protobuf: Callable[[bytes], Iterator[Any]],
) -> list[Any]:
    is_json = value.lstrip()[:1] == b"{"
    try:
        found = list(from_json(orjson.loads(value)) if is_json else from_protobuf(value))
    except orjson.JSONDecodeError:
        message = "malformed JSON"
    except DecodeError:
        message = "malformed protobuf"
    except WRONG_SHAPE:
        message = f"not an OTLP {what} message"
    else:
        message = f"holds no {what}"
        if found:
            return found
    raise MessageError(message)


def value_text(value: Any) -> str:
    """Return an attribute value as text."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _severity(text: str, number: int) -> str:
    if text:
        return text
    return _SEVERITIES[(number - 1) // 4] if 1 <= number <= 4 * len(_SEVERITIES) else _UNSPECIFIED_SEVERITY


# ---- JSON: 64-bit integers are strings, enumerations are numbers or names, bytes are base64 --------------------------


def _json_points(message: Any) -> Iterator[MetricPoint]:
    for block in message["resourceMetrics"]:
        attributes = _json_attributes(_object(block.get("resource") or {}))
        for group in block.get("scopeMetrics") or []:
            resource = Resource(attributes, _json_scope(group))
            for metric in group.get("metrics") or []:
                yield from _json_metric(resource, metric)


def _json_metric(resource: Resource, metric: dict[str, Any]) -> Iterator[MetricPoint]:
    for key, (shape, read) in _JSON_SHAPES.items():
        if key not in metric:
            continue
        data = metric[key]
        temporality = data.get("aggregationTemporality", 0)
        shared = MetricData(
            name=_string(metric.get("name", "")),
            unit=_string(metric.get("unit", "")),
            shape=shape,
            temporality=_TEMPORALITIES.get(temporality, temporality),
            monotonic=shape == "histogram" or data.get("isMonotonic") is True,
        )
        for point in data.get("dataPoints") or []:
            yield MetricPoint(resource, shared, partial(read, point))


def _json_common(point: dict[str, Any]) -> tuple[Attributes, int, int, int]:
    times = (_integer(point.get(name, 0)) for name in ("timeUnixNano", "startTimeUnixNano", "flags"))
    return _json_attributes(point), *times  # type: ignore[return-value]


def _json_number(point: dict[str, Any]) -> Numbers:
    value = _number(point["asDouble"]) if "asDouble" in point else None
    if "asInt" in point:
        value = float(_integer(point["asInt"]))
    return Numbers(*_json_common(point), value=value)


def _json_histogram(point: dict[str, Any]) -> Numbers:
    total = _number(point["sum"]) if point.get("sum") is not None else None
    return Numbers(*_json_common(point), observations=_integer(point.get("count", 0)), sum=total)


def _json_summary(point: dict[str, Any]) -> Numbers:
    quantiles = [
        (_number(item.get("quantile", 0.0)), _number(item.get("value", 0.0)))
        for item in point.get("quantileValues") or []
    ]
    count, total = _integer(point.get("count", 0)), _number(point.get("sum", 0.0))
    return Numbers(*_json_common(point), observations=count, sum=total, quantiles=quantiles)


_JSON_SHAPES: Final[dict[str, tuple[str, Callable[[Any], Numbers]]]] = {
    "gauge": ("gauge", _json_number),
    "sum": ("sum", _json_number),
    "histogram": ("histogram", _json_histogram),
    "exponentialHistogram": ("histogram", _json_histogram),
    "summary": ("summary", _json_summary),
}


def _json_records(message: Any) -> Iterator[LogRecord]:
    for block in message["resourceLogs"]:
        attributes = _json_attributes(_object(block.get("resource") or {}))
        for group in block.get("scopeLogs") or []:
            resource = Resource(attributes, _json_scope(group))
            for record in group.get("logRecords") or []:
                yield LogRecord(resource, partial(_json_log, record))


def _json_log(record: dict[str, Any]) -> LogText:
    time_ns = _integer(record.get("timeUnixNano", 0)) or _integer(record.get("observedTimeUnixNano", 0))
    severity = _severity(_string(record.get("severityText", "")), _integer(record.get("severityNumber", 0)))
    return LogText(time_ns, severity, value_text(_json_value(record.get("body") or {})), _json_attributes(record))


def _json_scope(group: dict[str, Any]) -> str:
    return _string((group.get("scope") or {}).get("name", ""))


def _json_attributes(holder: dict[str, Any]) -> Attributes:
    return {
        _string(item["key"]): value_text(_json_value(item.get("value") or {}))
        for item in holder.get("attributes") or []
    }


def _json_value(value: dict[str, Any]) -> Any:
    """Return an AnyValue as plain JSON."""
    if not value:
        return ""
    kind, content = next(iter(value.items()))
    return _JSON_VALUES[kind](content)


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(value)
    return value


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError(value)
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError(value)
    return float(value)


_JSON_VALUES: Final[dict[str, Callable[[Any], Any]]] = {
    "stringValue": _string,
    "boolValue": bool,
    "intValue": _integer,
    "doubleValue": _number,
    "bytesValue": _string,
    "arrayValue": lambda content: [_json_value(item) for item in content.get("values") or []],
    "kvlistValue": lambda content: {
        _string(item["key"]): _json_value(item.get("value") or {}) for item in content.get("values") or []
    },
}


# ---- protobuf --------------------------------------------------------------------------------------------------------


def _protobuf_points(value: bytes) -> Iterator[MetricPoint]:
    message = ExportMetricsServiceRequest.FromString(value)
    for block in message.resource_metrics:
        attributes = _attributes(block.resource)
        for group in block.scope_metrics:
            resource = Resource(attributes, group.scope.name)
            for metric in group.metrics:
                yield from _protobuf_metric(resource, metric)


def _protobuf_metric(resource: Resource, metric: Any) -> Iterator[MetricPoint]:
    key = metric.WhichOneof("data")
    if key is None:
        return
    shape, read = _PROTOBUF_SHAPES[key]
    data = getattr(metric, key)
    temporality = getattr(data, "aggregation_temporality", 0)
    monotonic = shape == "histogram" or getattr(data, "is_monotonic", False)
    shared = MetricData(metric.name, metric.unit, shape, temporality, monotonic)
    for point in data.data_points:
        yield MetricPoint(resource, shared, partial(read, point))


def _common(point: Any) -> tuple[Attributes, int, int, int]:
    return _attributes(point), point.time_unix_nano, point.start_time_unix_nano, point.flags


def _protobuf_number(point: Any) -> Numbers:
    key = point.WhichOneof("value")
    return Numbers(*_common(point), value=None if key is None else float(getattr(point, key)))


def _protobuf_histogram(point: Any) -> Numbers:
    total = point.sum if point.HasField("sum") else None
    return Numbers(*_common(point), observations=point.count, sum=total)


def _protobuf_summary(point: Any) -> Numbers:
    quantiles = [(item.quantile, item.value) for item in point.quantile_values]
    return Numbers(*_common(point), observations=point.count, sum=point.sum, quantiles=quantiles)


_PROTOBUF_SHAPES: Final[dict[str, tuple[str, Callable[[Any], Numbers]]]] = {
    "gauge": ("gauge", _protobuf_number),
    "sum": ("sum", _protobuf_number),
    "histogram": ("histogram", _protobuf_histogram),
    "exponential_histogram": ("histogram", _protobuf_histogram),
    "summary": ("summary", _protobuf_summary),
}


def _protobuf_records(value: bytes) -> Iterator[LogRecord]:
    message = ExportLogsServiceRequest.FromString(value)
    for block in message.resource_logs:
        attributes = _attributes(block.resource)
        for group in block.scope_logs:
            resource = Resource(attributes, group.scope.name)
            for record in group.log_records:
                yield LogRecord(resource, partial(_protobuf_log, record))


def _protobuf_log(record: Any) -> LogText:
    time_ns = record.time_unix_nano or record.observed_time_unix_nano
    severity = _severity(record.severity_text, record.severity_number)
    return LogText(time_ns, severity, value_text(_value(record.body)), _attributes(record))


def _attributes(holder: Any) -> Attributes:
    return {item.key: value_text(_value(item.value)) for item in holder.attributes}


def _value(value: Any) -> Any:
    """Return an AnyValue as plain JSON."""
    kind = value.WhichOneof("value")
    if kind is None:
        return ""
    content = getattr(value, kind)
    if kind == "array_value":
        return [_value(item) for item in content.values]
    if kind == "kvlist_value":
        return {item.key: _value(item.value) for item in content.values}
    return b64encode(content).decode() if kind == "bytes_value" else content
