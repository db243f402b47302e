from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import orjson

from pipelines.parameters import TimeRules
from pipelines.statistics import gate, rows
from pipelines.statistics.pack import NONE
from tests.pipelines.statistics.raw import ARRIVAL_MS, ARRIVAL_NS, SECOND_NS, fates, parse, samples_of
from topics import registry, wire
from topics.records import Inventory, LogEvent, MetricPoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RULES = TimeRules(lateness_s=30, future_s=10)
_EDGES = {
    -30 * SECOND_NS: rows.ON_TIME,
    -30 * SECOND_NS - 1: rows.LATE,
    0: rows.ON_TIME,
    10 * SECOND_NS: rows.ON_TIME,
    10 * SECOND_NS + 1: rows.REJECTED,
}


def point(**changes: Any) -> bytes:
    return orjson.dumps(asdict(MetricPoint("vm-1", "m", ARRIVAL_NS, 0.5)) | changes)


def test_the_gate_is_exact_to_the_nanosecond(spark: SparkSession) -> None:
    values = [point(time_ns=ARRIVAL_NS + offset) for offset in _EDGES]
    assert fates(parse(spark, registry.METRICS, values, _RULES), len(values)) == list(_EDGES.values())
    assert [gate.fate_of(ARRIVAL_NS + offset, ARRIVAL_MS, _RULES) for offset in _EDGES] == list(_EDGES.values())


def test_history_topics_carry_arrival_in_a_header(spark: SparkSession) -> None:
    history = TimeRules(arrival="history")
    arrived = {"arrival_ms": ARRIVAL_MS + 3_600_000}  # the broker got it an hour later
    header = {wire.ARRIVAL_HEADER: str(ARRIVAL_MS).encode()}
    nonsense = {wire.ARRIVAL_HEADER: b"-5e"}
    for time, headers, fate in (
        (history, header, rows.ON_TIME),
        (history, None, rows.LATE),
        (history, nonsense, rows.LATE),
        (_RULES, header, rows.LATE),
    ):
        found = parse(spark, registry.METRICS, [point()], time, headers=headers, **arrived)
        assert fates(found, 1) == [fate], (time.arrival, headers)
        if fate != rows.ON_TIME:
            assert found[0]["kept"]["headers"] == [{"key": k, "value": v} for k, v in (headers or {}).items()]


def test_a_kept_message_of_a_history_topic_has_its_arrival_header(spark: SparkSession) -> None:
    header = {wire.ARRIVAL_HEADER: str(ARRIVAL_MS).encode()}
    for topic in registry.RAW_TOPICS:
        (row,) = parse(spark, topic, [b"x"], TimeRules(arrival="history"), headers=header)
        assert row["kept"]["headers"] == [{"key": k, "value": v} for k, v in header.items()]


def test_a_sample(spark: SparkSession) -> None:
    (row,) = parse(
        spark, registry.METRICS, [point(kind="ratio", total=8, attributes={"b": "1"}, time_ns=ARRIVAL_NS + 7)]
    )
    assert row["event_time"].timestamp() * 1000 == ARRIVAL_MS
    assert samples_of([row]) == [{
        "resource": "vm-1", "series": 'ratio\x1f1\x1fm\x1f{"b":"1"}', "origin": None, "time_ns": ARRIVAL_NS + 7,
        "value": 0.5, "total": 8.0, "start_ns": NONE,
    }]  # fmt: skip


def test_a_kept_message_has_its_bytes_reason_and_place(spark: SparkSession) -> None:
    (row,) = parse(spark, registry.METRICS, [b"{\xff"], key=b"k", headers={"h": b"1"})
    kept = row["kept"]
    assert (kept["fate"], kept["reason"], kept["points"]) == ("rejected", "malformed JSON", "0")
    assert (kept["value"], kept["key"], kept["headers"]) == (b"{\xff", b"k", [{"key": "h", "value": b"1"}])
    assert (kept["topic"], kept["partition"], kept["offset"]) == (registry.METRICS.name, 0, 0)
    assert row["event_time"].timestamp() * 1000 == ARRIVAL_MS  # never late for the watermark


_REASONS = [
    (b"{", "malformed JSON"),
    (point() + point(), "malformed JSON"),
    (point() + b"," + point(), "malformed JSON"),
    (point(value="5"), "value is not a number"),
    (point(resource=5), "resource is not text"),
    (point(resource=None), "resource is missing"),
    (point(metric=""), "metric is empty"),
    (point(metric="x" * 513), "metric is longer than 512 characters"),
    (point(time_ns=ARRIVAL_MS), "time_ns is before the year 2000: not nanoseconds?"),
    (point(kind="rate"), "kind is unknown"),
    (point(kind="ratio", value=2), "a ratio must lie in [0, 1]"),
    (point(attributes=[1]), "attributes are no object"),
    (point(attributes="{}"), "attributes are no object"),
    (point(value=1e151), "value is not a finite number below 1e150"),
    (point(time_ns=ARRIVAL_NS + 11 * SECOND_NS), gate.FUTURE_REASON),
    (point(time_ns=ARRIVAL_NS - 31 * SECOND_NS), gate.LATE_REASON),
    (b"null", "not a JSON object"),
    (b"", "empty message"),
]


def test_reasons(spark: SparkSession) -> None:
    found = parse(spark, registry.METRICS, [value for value, _ in _REASONS], _RULES)
    found.sort(key=lambda row: row["kept"]["offset"])
    assert [row["kept"]["reason"] for row in found] == [reason for _, reason in _REASONS]


_TEMPLATES = {
    "user 5 from 10.0.0.1:8080": "user <n> from <addr>:<n>",
    "id 123e4567-e89b-12d3-a456-426614174000 ok": "id <uuid> ok",
    "at 0xDEADBEEF and 5f2c9a81bb": "at <hex> and <hex>",
    "from fe80::1ff:fe23:4567:890a to 00:1b:44:11:3a:b7": "from <addr> to <addr>",
    "12:34:56 took 12.5ms": "<n>:<n>:<n> took <n>.<n>ms",
    "deadline feedface": "deadline feedface",
}


def test_templates(spark: SparkSession) -> None:
    events = [orjson.dumps(LogEvent("vm-1", ARRIVAL_NS, "INFO", body)) for body in _TEMPLATES]
    found = [row["sample"]["series"] for row in parse(spark, registry.LOGS, events)]
    assert found == [f"log\x1f1\x1fINFO\x1f{template}" for template in _TEMPLATES.values()]


def test_log_events_have_an_identity(spark: SparkSession) -> None:
    event = LogEvent("vm-1", ARRIVAL_NS, "INFO", "session 1")
    other = LogEvent("vm-1", ARRIVAL_NS, "INFO", "session 2")
    found = parse(spark, registry.LOGS, [orjson.dumps(item) for item in (event, event, other)])
    first, again, second = (row["sample"]["id"] for row in found)
    assert first == again != second


def test_control_records_are_kept_for_the_marker(spark: SparkSession) -> None:
    values = [orjson.dumps(Inventory("vm-1", service="upf")), b'{"type":"party","resource":"x"}', b"x"]
    found = parse(spark, registry.CONTROL, values)
    assert [row["kept"]["fate"] for row in found] == ["control", "rejected", "rejected"]
    assert len({row["group_key"] for row in found}) == 3


def test_ticks_run_ahead_of_arrival(spark: SparkSession) -> None:
    for topic in registry.RAW_TOPICS:
        (tick,) = parse(spark, topic, [b""], _RULES, key=wire.TICK_KEY)
        assert tick["event_time"].timestamp() * 1000 == ARRIVAL_MS + 10_000
        assert tick["group_key"] == rows.TICK_GROUP
        assert tick["sample"] is tick["packed"] is tick["kept"] is None
