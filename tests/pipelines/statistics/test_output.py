from __future__ import annotations

from dataclasses import asdict
from typing import Any

import orjson
import pytest

from pipelines.parameters import StatisticsParameters, TimeRules
from pipelines.statistics.output import control_value, kept_headers, markers, record_values
from pipelines.statistics.sources import Backlog, shares
from pipelines.statistics.summarise import Window
from topics import wire
from topics.controls import ControlRecord, Rule, RuleRemoval, Weekly
from topics.records import Inventory
from topics.registry import STATISTICS_MESSAGE_LIMIT_BYTES

_MINUTE_MS = 60_000
_PARAMETERS = StatisticsParameters(time=TimeRules(window_s=60))


def window(series: list[bytes]) -> Window:
    return Window(series, 10, 1, 2, ("upf", None, "north"))


def test_a_record() -> None:
    (value,) = record_values("vm-1", 0, _MINUTE_MS, window([b'{"n":1}', b'{"n":2}']))
    assert orjson.loads(value) == {
        "resource": "vm-1", "window_start_ms": 0, "window_end_ms": _MINUTE_MS, "part": 0, "parts": 1, "service": "upf",
        "region": None, "site": "north", "samples": 10, "duplicates": 1, "excess": 2, "series": [{"n": 1}, {"n": 2}],
    }  # fmt: skip


def test_a_record_over_the_message_limit_comes_in_numbered_parts() -> None:
    series = [orjson.dumps({"n": number, "x": "x" * 10_000}) for number in range(250)]
    values = record_values("vm-1", 0, _MINUTE_MS, window(series))
    parts = [orjson.loads(value) for value in values]
    assert all(len(value) < STATISTICS_MESSAGE_LIMIT_BYTES for value in values)
    assert [(part["part"], part["parts"]) for part in parts] == [(0, 3), (1, 3), (2, 3)]
    assert [item["n"] for part in parts for item in part["series"]] == list(range(250))


def written(partition: int, end_ms: int, records: int, *controls: tuple[int, str]) -> Any:
    return {
        "partition": partition,
        "window_end_ms": end_ms,
        "counts": {"records": records} if records else {},
        "controls": [
            {"topic": "t", "partition": 0, "offset": offset, "value": orjson.dumps(Inventory(resource))}
            for offset, resource in controls
        ],
    }


def test_markers_close_windows_in_order_in_every_partition_after_their_control_records() -> None:
    lines = [written(1, 2 * _MINUTE_MS, 4), written(1, _MINUTE_MS, 3, (9, "b")), written(0, _MINUTE_MS, 0, (2, "a"))]
    found = [
        (key, partition, orjson.loads(value)["window_end_ms"] // _MINUTE_MS, orjson.loads(value))
        for key, value, partition in markers(lines, _PARAMETERS, 2)
    ]
    first = [(wire.CONTROL_KEY, 1), (wire.CONTROL_KEY, 1), (wire.MARKER_KEY, 1)]
    for partition in (0, 1):
        own = [item for item in found if item[1] == partition]
        assert [(key, window_end) for key, _, window_end, _ in own] == [*first, (wire.MARKER_KEY, 2)]
        assert [item[3]["control"]["resource"] for item in own[:2]] == ["a", "b"]  # as in the log
    counts = {(partition, end): value["records"] for key, partition, end, value in found if key == wire.MARKER_KEY}
    assert counts == {(0, 1): 0, (1, 1): 3, (0, 2): 0, (1, 2): 4}


def test_a_control_record_is_stamped_with_the_window_of_its_arrival() -> None:
    for control in (Inventory("vm-1"), Rule("r", weekly=[Weekly(["sun"], 0, 5)]), RuleRemoval("r")):
        raw = orjson.dumps(asdict(control) | {"colour": "red"})
        assert control_value(raw, _MINUTE_MS) == orjson.dumps(ControlRecord(_MINUTE_MS, control))


def test_kept_headers_keep_the_messages_own_as_far_as_there_is_room() -> None:
    place = {"reason": "r", "points": "0", "topic": "t", "partition": 1, "offset": 2, "timestamp_ms": 3}
    small = kept_headers({**place, "headers": [{"key": "own", "value": b"1"}, {"key": "none", "value": None}]})
    assert (small["own"], small["none"], small[wire.SOURCE_OFFSET_HEADER]) == (b"1", b"", b"2")
    large = kept_headers({**place, "headers": [{"key": "own", "value": b"x" * 100_000}]})
    assert set(large) == set(small) - {"own", "none"}


@pytest.mark.parametrize("batch_points", [100_000, 500_000])
def test_readers_advance_by_the_same_span_of_arrival_time(batch_points: int) -> None:
    hour_ms = 3_600_000
    busy, half = Backlog(0, 1_000_000, hour_ms), Backlog(500_000, 1_000_000, hour_ms)
    packed = Backlog(0, 100_000, hour_ms, points_per_record=10.0)
    spans = [
        share / ((b.end - b.start) / b.span_ms)
        for b, share in zip((busy, half, packed), shares([busy, half, packed], batch_points), strict=True)
    ]
    assert max(spans) / min(spans) < 1.01
    points = sum(
        share * b.points_per_record
        for b, share in zip((busy, half, packed), shares([busy, half, packed], batch_points), strict=True)
    )
    assert points == pytest.approx(batch_points, rel=0.05)


def test_a_reader_without_backlog_may_read() -> None:
    assert min(shares([Backlog(5, 5), Backlog(0, 1_000_000, 1_000)], 500_000)) >= 1_000
    assert min(shares([Backlog(5, 5)], 500_000)) >= 1_000
