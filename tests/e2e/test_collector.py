"""Messages of a real OpenTelemetry Collector, as its Kafka exporter wrote them, through the real statistics job.

Every data point of the capture is accounted for, and `otlp_json` and `otlp_proto` give the same statistics.
"""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from apps.feed.otlp import feed_otlp
from apps.log_reader import LogReader
from apps.settings import Settings
from apps.topics_admin import ensure_topics
from pipelines.parameters import TimeRules
from tests.support import JobRunner, free_job_ports, running_broker
from topics import registry, wire
from topics.records import LOG_SEVERITY_METRIC, LOG_TEMPLATE_METRIC

CAPTURE: Final = Path(os.environ.get("KAPPA_DATA", "../shared/data")) / "otlp"

pytestmark = [
    pytest.mark.stack,
    pytest.mark.skipif(
        not CAPTURE.is_dir(), reason=f"no captured Collector messages in {CAPTURE}: set KAPPA_DATA to the data folder"
    ),
]

RULES: Final = TimeRules(window_s=15, lateness_s=30, future_s=10, slack_s=2, arrival="history")
#: Where each shape of metric keeps its data points.
SHAPES: Final = ("gauge", "sum", "histogram", "exponentialHistogram", "summary")


def messages(name: str) -> Iterator[Any]:
    with gzip.open(CAPTURE / f"{name}.json.jsonl.gz") as lines:
        yield from (orjson.loads(line)["value"] for line in lines)


def points_sent() -> int:
    """Count the data points of the capture, straight from its JSON."""
    return sum(
        len(metric[shape]["dataPoints"])
        for message in messages("metrics")
        for resource in message["resourceMetrics"]
        for scope in resource["scopeMetrics"]
        for metric in scope["metrics"]
        for shape in SHAPES
        if shape in metric
    )


def events_sent() -> int:
    """Count the log records of the capture, straight from its JSON."""
    return sum(
        len(scope["logRecords"])
        for message in messages("logs")
        for resource in message["resourceLogs"]
        for scope in resource["scopeLogs"]
    )


def records(settings: Settings, topic: registry.Topic) -> list[tuple[bytes | None, bytes, dict[str, bytes]]]:
    starts = {(topic.full_name(settings.generation), partition): 0 for partition in range(2)}
    with LogReader(settings.kafka.bootstrap_servers) as reader:
        return [(item.key, item.value or b"", dict(item.headers)) for item in reader.read(starts)]


def last_marker_ms(settings: Settings) -> int:
    found = records(settings, registry.STATISTICS)
    return max((orjson.loads(value)["window_end_ms"] for key, value, _ in found if key == wire.MARKER_KEY), default=0)


def run_statistics(folder: Path, encoding: str) -> Iterator[Settings]:
    """Feed one encoding of the capture through the statistics job until its windows are closed."""
    with running_broker(folder / "broker") as bootstrap_servers:
        settings = Settings(
            data_dir=folder, ports=free_job_ports(), kafka={"bootstrap_servers": bootstrap_servers}, time=RULES
        )
        ensure_topics(settings)
        result = feed_otlp(settings, [CAPTURE / f"{name}.{encoding}.jsonl.gz" for name in ("metrics", "logs")])
        closed_ms = result.last_arrival_ms - 1000 * (RULES.lateness_s + RULES.slack_s + RULES.window_s)
        job = JobRunner(folder)("statistics", settings)
        try:
            give_up = time.monotonic() + 240
            while last_marker_ms(settings) < closed_ms:
                assert job.process.poll() is None, job.log_text[-4000:]
                assert time.monotonic() < give_up, job.log_text[-4000:]
                time.sleep(1)
            yield settings
        finally:
            job.kill()


@pytest.fixture(scope="module")
def as_json(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    yield from run_statistics(tmp_path_factory.mktemp("json"), "json")


@pytest.fixture(scope="module")
def as_protobuf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    yield from run_statistics(tmp_path_factory.mktemp("proto"), "proto")


def statistics_values(settings: Settings) -> set[bytes]:
    return {value for key, value, _ in records(settings, registry.STATISTICS) if key != wire.MARKER_KEY}


def kept_points(settings: Settings, topic: registry.Topic) -> int:
    """Count the points that a kept message was kept for: its indices stand in a header."""
    return sum(len(orjson.loads(b"[%s]" % headers[wire.POINTS_HEADER])) for _, _, headers in records(settings, topic))


def test_every_data_point_is_accounted_for(as_json: Settings) -> None:
    windows = [orjson.loads(value) for value in statistics_values(as_json)]
    series = [item for window in windows for item in window["series"]]
    logs = (LOG_SEVERITY_METRIC, LOG_TEMPLATE_METRIC)
    points = sum(item["n"] for item in series if item["metric"] not in logs)
    events = sum(item["n"] for item in series if item["metric"] == LOG_SEVERITY_METRIC)
    duplicates = sum(window["duplicates"] for window in windows)
    kept = kept_points(as_json, registry.LATE) + kept_points(as_json, registry.REJECTED)
    assert points + events + duplicates + kept == points_sent() + events_sent()
    assert duplicates + kept < 0.02 * (points_sent() + events_sent())


def test_resources_are_named_and_placed_by_their_attributes(as_json: Settings) -> None:
    windows = [orjson.loads(value) for value in statistics_values(as_json)]
    assert {(window["resource"], window["service"], window["region"]) for window in windows} == {
        ("vm-0001", "upf", "north"),
        ("vm-0002", "smf", "north"),
        ("vm-0003", "amf", "south"),
    }


def test_json_and_protobuf_give_the_same_statistics(as_json: Settings, as_protobuf: Settings) -> None:
    values = statistics_values(as_json)
    assert values
    assert values == statistics_values(as_protobuf)
