from __future__ import annotations

import gzip
import json
import os
from base64 import b64decode
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from pipelines.parameters import StatisticsParameters, TimeRules
from pipelines.statistics.otlp import Sample, index_ranges, log_samples, metric_samples
from pipelines.statistics.otlp_messages import MessageError, log_records, metric_points
from tests.pipelines.statistics.raw import ARRIVAL_MS, ARRIVAL_NS, SECOND_NS, parse, samples_of
from topics import registry, wire

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CAPTURED = Path(os.environ.get("KAPPA_DATA", "../shared/data")) / "otlp"
_PARAMETERS = StatisticsParameters()


def captured(name: str) -> list[tuple[bytes, int]]:
    """Messages of a real Collector with their Kafka timestamps."""
    path = _CAPTURED / f"{name}.jsonl.gz"
    if not path.exists():
        pytest.skip(f"NOT TESTED: captured OTLP messages are not in {path}; name their folder in KAPPA_DATA")
    with gzip.open(path) as lines:
        messages = [orjson.loads(line) for line in lines]
    return [
        (b64decode(m["value_base64"]) if "value_base64" in m else orjson.dumps(m["value"]), m["timestamp_ms"])
        for m in messages
    ]


def metrics_of(value: bytes) -> list[Sample]:
    return [sample for point in metric_points(value) for sample in metric_samples(point, _PARAMETERS)]


def logs_of(value: bytes) -> list[Sample]:
    return [sample for record in log_records(value) for sample in log_samples(record, _PARAMETERS)]


@pytest.mark.parametrize(("kind", "read"), [("metrics", metrics_of), ("logs", logs_of)])
def test_json_and_protobuf_of_a_real_collector_give_the_same_samples(kind: str, read: Any) -> None:
    as_json = Counter(sample for value, _ in captured(f"{kind}.json") for sample in read(value))
    as_protobuf = Counter(sample for value, _ in captured(f"{kind}.proto") for sample in read(value))
    assert set(as_json) == set(as_protobuf)
    assert len(as_json) > 1_000


def test_every_point_of_a_real_collector_is_a_sample_or_kept(spark: SparkSession) -> None:
    messages = captured("metrics.json")
    points = sum(_points_in(json.loads(value)) for value, _ in messages)
    last_ms = max(timestamp_ms for _, timestamp_ms in messages)
    # as if all had arrived with the last one: the first ones are late
    found = parse(spark, registry.OTLP_METRICS, [value for value, _ in messages], arrival_ms=last_ms)
    samples = len(samples_of(found))
    late = sum(row["kept"]["point_count"] for row in found if row["kept"])
    assert samples + late == points
    assert samples > 0 < late


def _points_in(message: Any) -> int:
    if isinstance(message, list):
        return sum(map(_points_in, message))
    if not isinstance(message, dict):
        return 0
    return len(message.get("dataPoints", [])) + sum(map(_points_in, message.values()))


# ---- what each shape of metric becomes -------------------------------------------------------------------------------

_TIME = str(ARRIVAL_NS)


def _attribute(key: str, text: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": text}}


def message(*metrics: dict[str, Any], **resource: str) -> bytes:
    names = {"host.name": "vm-1"} | {key.replace("_", "."): text for key, text in resource.items()}
    block = {
        "resource": {"attributes": [_attribute(*item) for item in names.items()]},
        "scopeMetrics": [{"scope": {"name": "s"}, "metrics": list(metrics)}],
    }
    return orjson.dumps({"resourceMetrics": [block]})


def summed(points: list[dict[str, Any]], temporality: Any = 2, monotonic: bool = True) -> dict[str, Any]:
    data = {"dataPoints": points, "aggregationTemporality": temporality, "isMonotonic": monotonic}
    return {"name": "n", "unit": "By", "sum": data}


def values(*metrics: dict[str, Any]) -> list[tuple[str, str, float | None]]:
    """(kind, metric, value) of all samples of a message."""
    parts = [[*(sample.series or "").split("\x1f"), sample.value] for sample in metrics_of(message(*metrics))]
    return [(part[0], part[2], part[4]) for part in parts]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("temporality", "monotonic", "kind"),
    [
        (2, True, "cumulative"),
        (2, False, "gauge"),
        (1, True, "delta"),
        (1, False, "delta"),
        ("AGGREGATION_TEMPORALITY_DELTA", True, "delta"),
    ],
)
def test_sums(temporality: Any, monotonic: bool, kind: str) -> None:
    assert values(summed([{"timeUnixNano": _TIME, "asInt": "5"}], temporality, monotonic)) == [(kind, "n", 5.0)]


def test_histograms_become_a_count_and_a_sum() -> None:
    point = {"timeUnixNano": _TIME, "count": "4", "sum": 10.5, "bucketCounts": ["1", "3"], "explicitBounds": [1]}
    found = values(
        {"name": "h", "histogram": {"dataPoints": [point], "aggregationTemporality": 2}},
        {"name": "e", "exponentialHistogram": {"dataPoints": [point], "aggregationTemporality": 1}},
        {"name": "u", "histogram": {"dataPoints": [{"timeUnixNano": _TIME, "count": 1}], "aggregationTemporality": 2}},
    )
    assert found == [
        ("cumulative", "h.count", 4.0),
        ("cumulative", "h.sum", 10.5),
        ("delta", "e.count", 4.0),
        ("delta", "e.sum", 10.5),
        ("cumulative", "u.count", 1.0),
    ]


def test_summaries_keep_their_quantiles() -> None:
    quantiles = [{"quantile": 0.5, "value": 3}, {"quantile": 0.99, "value": "NaN"}]
    point = {"timeUnixNano": _TIME, "count": "4", "sum": 10.5, "quantileValues": quantiles}
    found = values({"name": "s", "summary": {"dataPoints": [point]}})
    assert found == [("cumulative", "s.count", 4.0), ("cumulative", "s.sum", 10.5), ("gauge", "s.quantile", 3.0)]


def test_two_processes_of_a_host_are_two_series() -> None:
    point = summed([{"timeUnixNano": _TIME, "asInt": "5", "attributes": [_attribute("cpu", "0")]}])
    (first,), (second,) = (metrics_of(message(point, process_pid=pid)) for pid in ("1", "2"))
    assert first.resource == second.resource == "vm-1"
    assert first.series != second.series
    assert (first.series or "").endswith('{"cpu":"0","otel.scope.name":"s","process.pid":"1"}')


def test_protobuf_of_every_shape_equals_json() -> None:
    request = ExportMetricsServiceRequest()
    block = request.resource_metrics.add()
    name = block.resource.attributes.add(key="host.name")
    name.value.string_value = "vm-1"
    numbers = block.resource.attributes.add(key="list")
    numbers.value.array_value.values.add(int_value=1)
    numbers.value.array_value.values.add(double_value=2)
    group = block.scope_metrics.add()
    metric: Metric = group.metrics.add(name="e", unit="s")
    metric.exponential_histogram.aggregation_temporality = 1  # type: ignore[assignment]
    metric.exponential_histogram.data_points.add(time_unix_nano=ARRIVAL_NS, count=3, sum=1.5)
    quantile = group.metrics.add(name="q").summary.data_points.add(time_unix_nano=ARRIVAL_NS, count=3, sum=1.5)
    quantile.quantile_values.add(quantile=0.5, value=2.0)
    as_json = orjson.dumps(
        {"resourceMetrics": [{
            "resource": {"attributes": [
                _attribute("host.name", "vm-1"),
                {"key": "list", "value": {"arrayValue": {"values": [{"intValue": "1"}, {"doubleValue": 2}]}}},
            ]},
            "scopeMetrics": [{"metrics": [
                {"name": "e", "unit": "s", "exponentialHistogram": {"aggregationTemporality": 1, "dataPoints": [
                    {"timeUnixNano": _TIME, "count": "3", "sum": 1.5}]}},
                {"name": "q", "summary": {"dataPoints": [{"timeUnixNano": _TIME, "count": 3, "sum": 1.5,
                    "quantileValues": [{"quantile": 0.5, "value": 2.0}]}]}},
            ]}],
        }]}
    )  # fmt: skip
    assert metrics_of(request.SerializeToString()) == metrics_of(as_json)
    assert len(metrics_of(as_json)) == 5


# ---- through Spark ---------------------------------------------------------------------------------------------------


def test_one_message_may_be_partly_late_partly_refused_partly_sound(spark: SparkSession) -> None:
    def point(offset_s: float, **value: Any) -> dict[str, Any]:
        return {"timeUnixNano": str(ARRIVAL_NS + round(offset_s * SECOND_NS)), **value}

    points = [
        point(0, asInt="1"),
        point(-30, asInt="1"),
        point(-31, asInt="1"),
        point(-32, asInt="1"),
        point(10, asInt="1"),
        point(11, asInt="1"),
        point(0, asDouble="NaN"),
        point(0, flags=1),
        point(0, asInt={"no": "number"}),
        point(0),
    ]
    value = message(summed(points), service_name="upf", cloud_region="north")
    found = parse(spark, registry.OTLP_METRICS, [value], time=TimeRules(lateness_s=30, future_s=10))
    kept = {row["kept"]["fate"]: row["kept"] for row in found if row["kept"]}
    samples = samples_of(found)
    assert len(samples) == 3
    assert {sample["origin"] for sample in samples} == {'["upf","north",null]'}
    assert (kept["late"]["points"], kept["late"]["point_count"]) == ("2-3", 2)
    assert (kept["rejected"]["points"], kept["rejected"]["point_count"]) == ("5-9", 5)
    assert kept["late"]["value"] == kept["rejected"]["value"] == value
    assert "no recorded value" in kept["rejected"]["reason"]


@pytest.mark.parametrize("topic", [registry.OTLP_METRICS, registry.OTLP_LOGS])
def test_what_is_no_otlp_is_rejected_whole(spark: SparkSession, topic: registry.Topic) -> None:
    broken = [
        b"", b"{", b"{}", b"[]", b"\xff\xff", b"\x00" * 50, b"null", b'{"resourceMetrics":5,"resourceLogs":5}',
        b'{"resourceMetrics":[5],"resourceLogs":["x"]}', b'{"resourceMetrics":[],"resourceLogs":[]}',
        b'{"resourceMetrics":[{"scopeMetrics":{"a":1}}],"resourceLogs":[{"scopeLogs":[[]]}]}', b'{"a":"\xff"}',
    ]  # fmt: skip
    found = parse(spark, topic, broken)
    assert [row["kept"]["fate"] for row in found] == ["rejected"] * len(broken)
    assert [row["kept"]["value"] for row in found] == broken


def test_ticks_pass(spark: SparkSession) -> None:
    (tick,) = parse(spark, registry.OTLP_LOGS, [b""], key=wire.TICK_KEY, time=TimeRules(future_s=10))
    assert tick["event_time"].timestamp() * 1000 == ARRIVAL_MS + 10_000
    assert tick["sample"] is tick["packed"] is tick["kept"] is None


def test_log_bodies_are_masked(spark: SparkSession) -> None:
    value, _ = captured("logs.json")[0]
    found = parse(spark, registry.OTLP_LOGS, [value], arrival_ms=1_795_230_152_496)
    templates = {row["sample"]["series"].split("\x1f")[3] for row in found}
    prefix = "<n>-<n>-<n>T<n>:<n>:<n>.<n>Z"
    assert templates <= {
        f"{prefix} INFO session <n> established with peer <addr> in <n> ms",
        f"{prefix} WARN heartbeat from <hex> delayed <n> ms",
    }
    assert len({row["sample"]["id"] for row in found}) == len(found)


def test_index_ranges() -> None:
    assert index_ranges([0, 1, 2, 5, 7, 8]) == "0-2,5,7-8"
    assert len(index_ranges(list(range(0, 100_000, 2)))) < 8_100


def test_message_errors_say_what_is_wrong() -> None:
    with pytest.raises(MessageError, match="malformed JSON"):
        metric_points(b"{")
    with pytest.raises(MessageError, match="not an OTLP metrics message"):
        metric_points(b'{"resourceLogs":[]}')
