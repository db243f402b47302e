"""Control records: what is kept for the marker, and what is rejected with which reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from pipelines.statistics import rows
from pipelines.statistics.controls import LIMIT_BYTES
from tests.pipelines.statistics.raw import parse
from topics import registry
from topics.controls import DAYS, Interval, Rule, RuleRemoval, Weekly
from topics.records import Inventory, OperatorVerdict, Subject

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FULL = Rule(
    "r-1", "db-*", "shop", "*", "disk.*", "high", 0.5, 0.2, [Interval(1, 2), Interval(5, 9)],
    [Weekly(list(DAYS), 1439, 7 * 24 * 60), Weekly(["sun"], 0, 1)], True, True, "a note",
)  # fmt: skip
GOOD = [
    Inventory("vm-1", service="upf"),
    FULL,
    Rule("r-2"),
    RuleRemoval("r-1"),
    OperatorVerdict("wrong", "i-1"),
    OperatorVerdict("expected", None, [Subject("vm-1"), Subject("vm-2", "cpu")], 5, 6, "ok"),
]


def test_every_control_record_is_kept_for_the_marker(spark: SparkSession) -> None:
    values = [*map(orjson.dumps, GOOD), b'{"type":"rule","id":"r","intervals":null,"colour":"red"}']
    found = parse(spark, registry.CONTROL, values)
    assert {row["kept"]["reason"] for row in found} == {None}
    assert {row["kept"]["fate"] for row in found} == {rows.CONTROL}
    assert len({row["group_key"] for row in found}) == len(values)


def rule(**changes: Any) -> bytes:
    return orjson.dumps({"type": "rule", "id": "r"} | changes)


def verdict(**changes: Any) -> bytes:
    return orjson.dumps({"type": "verdict", "verdict": "wrong", "incident": "i-1"} | changes)


def week(**changes: Any) -> bytes:
    return rule(weekly=[{"days": ["sun"], "start_minute": 0, "duration_minutes": 5} | changes])


INTERVAL = "an interval must have start_ms before end_ms"
WEEKLY = (
    "weekly needs days of mon, tue, wed, thu, fri, sat, sun, start_minute below 1440 and duration_minutes from 1 to "
    "10080"
)
WRONG_TYPE = "a field has the wrong type"
REASONS = [
    (b"x", "malformed JSON"),
    (b"null", "not a JSON object"),
    (b'{"type":"party","resource":"x"}', "type is unknown"),
    (b'{"resource":"x"}', "type is unknown"),
    (b'{"type":"inventory"}', "resource is missing"),
    (b'{"type":"inventory","resource":7}', "resource is not text"),
    (b'{"type":"inventory","resource":"vm-1","id":""}', None),
    (b'{"type":"rule","resource":"x"}', "id is missing"),
    (rule(id=""), "id is empty"),
    (rule(id="x" * 513), "id is longer than 512 characters"),
    (rule(note="x" * LIMIT_BYTES), f"a control record is longer than {LIMIT_BYTES} bytes"),
    (rule(metric=""), "metric is empty"),
    (rule(service=["a"]), "service is not text"),
    (rule(direction="up"), "direction is unknown"),
    (rule(minimal_deviation=-1), "minimal_deviation is not a number from 0 on"),
    (rule(minimal_deviation="5"), WRONG_TYPE),
    (b'{"type":"rule","id":"r","minimal_deviation":1e999}', "minimal_deviation is not a number from 0 on"),
    (rule(intervals=[{"start_ms": 2, "end_ms": 2}]), INTERVAL),
    (rule(intervals=[{"start_ms": 2}]), INTERVAL),
    (rule(intervals=[None]), INTERVAL),
    (rule(intervals=[{"start_ms": "a", "end_ms": 2}]), WRONG_TYPE),
    (rule(intervals={"start_ms": 1, "end_ms": 2}), WRONG_TYPE),
    (week(days=[]), WEEKLY),
    (week(days=["sunday"]), WEEKLY),
    (week(days=[None]), WEEKLY),
    (week(days=None), WEEKLY),
    (week(start_minute=1440), WEEKLY),
    (week(start_minute=None), WEEKLY),
    (week(duration_minutes=0), WEEKLY),
    (rule(skip_result=False), "a rule must skip the result or the learning"),
    (rule(skip_result="yes"), WRONG_TYPE),
    (b'{"type":"rule_removal"}', "id is missing"),
    (verdict(verdict="fine"), "verdict is none of expected, wrong, confirmed"),
    (verdict(verdict=None), "verdict is none of expected, wrong, confirmed"),
    (verdict(incident=None), "a verdict names an incident or subjects"),
    (verdict(incident=None, subjects=[]), "a verdict names an incident or subjects"),
    (verdict(subjects=[{"metric": "cpu"}]), "a subject needs a resource"),
    (verdict(subjects=[None]), "a subject needs a resource"),
    (verdict(start_ms=5, end_ms=5), "start_ms must be before end_ms"),
    (verdict(start_ms=1.5), WRONG_TYPE),
]  # fmt: skip


def test_reasons(spark: SparkSession) -> None:
    found = parse(spark, registry.CONTROL, [value for value, _ in REASONS])
    found.sort(key=lambda row: row["kept"]["offset"])
    assert [row["kept"]["reason"] for row in found] == [reason for _, reason in REASONS]
    assert [row["kept"]["fate"] == rows.CONTROL for row in found] == [reason is None for _, reason in REASONS]
