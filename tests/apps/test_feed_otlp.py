from __future__ import annotations

import base64
import gzip
import os
from collections import Counter
from pathlib import Path

import orjson
import pytest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, LogsData, ResourceLogs, ScopeLogs
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    Gauge,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
)

from apps.feed.errors import FeedError
from apps.feed.otlp import OtlpMessage, read_messages, signal_of
from topics.registry import OTLP_LOGS, OTLP_METRICS

POINT = NumberDataPoint(time_unix_nano=1, as_double=0.5)
METRIC = Metric(name="cpu", gauge=Gauge(data_points=[POINT]))
METRIC_BYTES = MetricsData(
    resource_metrics=[ResourceMetrics(scope_metrics=[ScopeMetrics(metrics=[METRIC])])]
).SerializeToString()
LOG_BYTES = LogsData(
    resource_logs=[ResourceLogs(scope_logs=[ScopeLogs(log_records=[LogRecord(time_unix_nano=1)])])]
).SerializeToString()


def line(timestamp_ms: int, value: bytes, key: bytes | None = None) -> bytes:
    key_base64 = None if key is None else base64.b64encode(key).decode()
    fields = {"timestamp_ms": timestamp_ms, "key_base64": key_base64, "value_base64": base64.b64encode(value).decode()}
    return orjson.dumps(fields) + b"\n"


@pytest.mark.parametrize(
    ("value", "signal"),
    [
        (METRIC_BYTES, "metrics"),
        (LOG_BYTES, "logs"),
        (b'{"resourceMetrics":[]}', "metrics"),
        (b' {"resourceLogs":[]}', "logs"),
        (b'{"resourceSpans":[]}', None),
        (b"{broken", None),
        (b"", None),
        (b"\xff\xff\xff", None),
    ],
)
def test_content_tells_the_signal(value: bytes, signal: str | None) -> None:
    assert signal_of(value) == signal


def test_messages_come_in_the_order_of_their_timestamps(tmp_path: Path) -> None:
    metrics, logs = tmp_path / "metrics.jsonl", tmp_path / "logs.jsonl.gz"
    metrics.write_bytes(line(20, METRIC_BYTES, b"k") + line(10, METRIC_BYTES))
    logs.write_bytes(gzip.compress(line(10, LOG_BYTES)))
    assert read_messages([metrics, logs]) == [
        OtlpMessage(10, OTLP_METRICS.name, None, METRIC_BYTES),
        OtlpMessage(10, OTLP_LOGS.name, None, LOG_BYTES),
        OtlpMessage(20, OTLP_METRICS.name, b"k", METRIC_BYTES),
    ]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"{}\n", "line 1: not a captured message"),
        (b"\n[1]\n", "line 2: not a captured message"),
        (b'{"timestamp_ms":1,"value_base64":"***"}\n', "line 1: not a captured message"),
        (line(1, b"\xff"), "neither metrics nor logs by its content; say which with --signal"),
        (b"", "nothing to feed"),
    ],
)
def test_broken_files_are_refused_with_the_line(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "captured.jsonl"
    path.write_bytes(content)
    with pytest.raises(FeedError, match=sentence):
        read_messages([path])


def test_a_forced_signal_takes_messages_of_unknown_content(tmp_path: Path) -> None:
    path = tmp_path / "captured.jsonl"
    path.write_bytes(line(1, b"\xff"))
    assert read_messages([path], "logs") == [OtlpMessage(1, OTLP_LOGS.name, None, b"\xff")]


def test_messages_of_a_real_collector_are_told_apart() -> None:
    folder = Path(os.environ.get("KAPPA_DATA", "../shared/data")) / "otlp"
    if not folder.is_dir():
        pytest.skip(f"no captured Collector messages in {folder}: set KAPPA_DATA to the folder of the data sets")
    found = read_messages(sorted(folder.glob("*.jsonl.gz")))
    assert Counter(message.topic for message in found) == {OTLP_METRICS.name: 2 * 468, OTLP_LOGS.name: 2 * 377}
