"""Captured messages of an OpenTelemetry Collector's Kafka exporter, one JSON object per line, back into the log.

A line holds `timestamp_ms` (becomes the arrival), `key_base64` (or null) and the message: `value`, a JSON object
(otlp_json), or `value_base64`, bytes (otlp_proto). Metrics and logs are told apart by content.
"""

from __future__ import annotations

import base64
import binascii
import gzip
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from gzip import GzipFile
from io import BufferedReader
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import orjson
from google.protobuf.message import DecodeError
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from apps.feed.errors import FeedError
from apps.feed.guard import raw_partitions, reached, require_history, require_later
from apps.feed.run import Progress, Silent
from apps.feed.writer import HistoryWriter, TickGrid
from apps.settings import Settings
from topics.registry import OTLP_LOGS, OTLP_METRICS, Topic

Signal = Literal["metrics", "logs"]

_TOPIC: Final[dict[Signal, Topic]] = {"metrics": OTLP_METRICS, "logs": OTLP_LOGS}


@dataclass(frozen=True)
class OtlpMessage:
    """One message as the exporter wrote it."""

    arrival_ms: int
    topic: str
    key: bytes | None
    value: bytes


@dataclass(frozen=True)
class OtlpResult:
    """What was sent."""

    messages: dict[str, int]
    ticks: int
    first_arrival_ms: int
    last_arrival_ms: int


def feed_otlp(
    settings: Settings,
    paths: Sequence[Path],
    signal: Signal | None = None,
    *,
    flush: bool = True,
    progress: Progress | None = None,
) -> OtlpResult:
    """Send captured messages in the order of their timestamps; all files together must fit into memory.

    Args:
        settings: Settings of the running chain.
        paths: Files of JSON lines, plain or gzip.
        signal: What the messages are; None finds it by content.
        flush: Whether to move the clock on at the end until every window is closed.
        progress: Hears how far the feed is.

    Raises:
        FeedError: The chain, the log or the files do not allow it.
        BrokerUnreachableError: No broker answers at the start.
    """
    progress = progress or Silent()
    require_history(settings)
    partitions = raw_partitions(settings)
    messages = read_messages(paths, signal)
    require_later(messages[0].arrival_ms, reached(settings, partitions))
    grid = TickGrid(settings.time)
    writer = HistoryWriter(settings.kafka.bootstrap_servers, partitions, grid, progress.waiting)
    for topic, group in groupby(messages, lambda message: message.topic):
        _write(writer, topic, list(group), progress)
    if flush:
        writer.close_windows()
    writer.flush()
    counts = Counter(message.topic for message in messages)
    return OtlpResult(dict(counts), writer.ticks, messages[0].arrival_ms, writer.last_ms or messages[-1].arrival_ms)


def _write(writer: HistoryWriter, topic: str, messages: Sequence[OtlpMessage], progress: Progress) -> None:
    arrivals = np.array([message.arrival_ms for message in messages], dtype=np.int64)
    writer.write(topic, [message.key for message in messages], [message.value for message in messages], arrivals)
    progress.sent(len(messages), messages[-1].arrival_ms)


def read_messages(paths: Sequence[Path], signal: Signal | None = None) -> list[OtlpMessage]:
    """Return the messages of all files in the order of arrival; equal arrivals in the order of files and lines.

    Raises:
        FeedError: A file is missing, a line is broken, or nothing is in the files.
    """
    messages = [message for path in paths for message in _messages(path, signal)]
    if not messages:
        message = "nothing to feed: there is no message in the files"
        raise FeedError(message)
    return sorted(messages, key=lambda message: message.arrival_ms)


def _messages(path: Path, signal: Signal | None) -> Iterator[OtlpMessage]:
    try:
        with _open(path) as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield _message(path, number, line, signal)
    except (OSError, EOFError) as unreadable:
        message = f"{path} cannot be read: {unreadable}"
        raise FeedError(message) from unreadable


def _open(path: Path) -> GzipFile | BufferedReader:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def _message(path: Path, number: int, line: bytes, signal: Signal | None) -> OtlpMessage:
    try:
        fields = orjson.loads(line)
        key, value = fields.get("key_base64"), _value(fields)
        arrival_ms = int(fields["timestamp_ms"])
        key = None if key is None else base64.b64decode(key, validate=True)
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error) as broken:
        message = (
            f"{path}, line {number}: not a captured message ({type(broken).__name__}: {broken}); a line holds "
            "timestamp_ms, key_base64, and value or value_base64"
        )
        raise FeedError(message) from broken
    found = signal or signal_of(value)
    if found is None:
        message = f"{path}, line {number}: neither metrics nor logs by its content; say which with --signal"
        raise FeedError(message)
    return OtlpMessage(arrival_ms, _TOPIC[found].name, key, value)


def _value(fields: dict[str, Any]) -> bytes:
    if "value_base64" in fields:
        return base64.b64decode(fields["value_base64"], validate=True)
    value = fields["value"]
    return value.encode() if isinstance(value, str) else orjson.dumps(value)


def signal_of(value: bytes) -> Signal | None:
    """Return what an OTLP message holds, JSON or protobuf; None when its content does not tell."""
    if value.lstrip()[:1] == b"{":
        return _json_signal(value)
    # Both signals share their outer shape; they differ inside, where a metric has a name and a log record has times.
    if any(metric.name for metric in _metrics(value)):
        return "metrics"
    return "logs" if any(_is_log(record) for record in _log_records(value)) else None


def _json_signal(value: bytes) -> Signal | None:
    try:
        fields = orjson.loads(value)
    except ValueError:
        return None
    return "metrics" if "resourceMetrics" in fields else "logs" if "resourceLogs" in fields else None


def _metrics(value: bytes) -> Iterable[Any]:
    try:
        data = MetricsData.FromString(value)
    except DecodeError:
        return ()
    return (
        metric for resource in data.resource_metrics for scope in resource.scope_metrics for metric in scope.metrics
    )


def _log_records(value: bytes) -> Iterable[Any]:
    try:
        data = LogsData.FromString(value)
    except DecodeError:
        return ()
    return (record for resource in data.resource_logs for scope in resource.scope_logs for record in scope.log_records)


def _is_log(record: Any) -> bool:
    return bool(record.time_unix_nano or record.observed_time_unix_nano or record.HasField("body"))
