from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import fields, replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.statistics.summarise import canonical_attributes
from tests.pipelines.statistics.samples import (
    SECOND_NS,
    Sample,
    expected_statistics,
    log_event,
    metric,
    one_series,
    packed_windows_of,
    series_of,
    windows_of,
)
from topics.records import LOG_OTHER_TEMPLATE, LOG_SEVERITY_METRIC, LOG_TEMPLATE_METRIC, SeriesStatistics


def test_gauge() -> None:
    found = one_series([metric(3, 5.0), metric(1, 1.0), metric(2, 3.0)])
    assert found == {
        "metric": "m", "attributes": {}, "kind": "gauge", "unit": "1", "n": 3, "sum": 9.0, "mean": 3.0, "m2": 8.0,
        "min": 1.0, "max": 5.0, "first": 1.0, "first_time_ns": SECOND_NS, "last": 5.0, "last_time_ns": 3 * SECOND_NS,
        "increase": None, "start_time_ns": None, "total": None,
    }  # fmt: skip


def test_json_is_that_of_the_record_type() -> None:
    (window,) = windows_of([metric(at, at / 10, attributes='{"b":"2","a":"1"}') for at in (1, 2)])
    (text,) = window.series
    assert orjson.dumps(SeriesStatistics(**orjson.loads(text))) == text
    assert list(orjson.loads(text)) == [item.name for item in fields(SeriesStatistics)]


def test_equal_points_vanish_and_the_larger_value_stays() -> None:
    (window,) = windows_of([metric(1, 1.0), metric(1, 1.0), metric(1, 2.0), metric(2, 4.0)])
    assert (window.samples, window.duplicates) == (2, 2)
    assert series_of(window)[0]["sum"] == 6.0


def test_negative_zero_is_zero() -> None:
    assert windows_of([metric(1, -0.0), metric(1, 0.0)]) == windows_of([metric(1, 0.0), metric(1, -0.0)])


@pytest.mark.parametrize(
    ("values", "increase"),
    [
        ([10.0, 15.0, 18.0], 8.0),
        ([10.0, 15.0, 3.0, 4.0], 9.0),  # falls: it was reset, and has counted 3 since
        ([10.0], 0.0),
    ],
)
def test_counter_increase(values: list[float], increase: float) -> None:
    samples = [metric(at, value, kind="cumulative") for at, value in enumerate(values)]
    assert one_series(samples)["increase"] == increase


def test_counter_with_a_later_start_was_reset_though_it_did_not_fall() -> None:
    samples = [
        metric(1, 10.0, kind="cumulative", start_time_ns=5),
        metric(2, 12.0, kind="cumulative", start_time_ns=SECOND_NS + 5),
        metric(3, 13.0, kind="cumulative", start_time_ns=SECOND_NS + 5),
    ]
    found = one_series(samples)
    assert found["increase"] == 13.0  # 12 since the new start, then 1
    assert found["start_time_ns"] == SECOND_NS + 5


def test_ratio_with_known_trials_sums_successes_and_trials() -> None:
    found = one_series([metric(1, 0.5, kind="ratio", total=10.0), metric(2, 0.25, kind="ratio", total=100.0)])
    assert (found["sum"], found["total"], found["mean"]) == (30.0, 110.0, 0.375)


def test_ratio_without_trials_for_some_points_has_no_total() -> None:
    found = one_series([metric(1, 0.5, kind="ratio", total=10.0), metric(2, 0.25, kind="ratio")])
    assert (found["sum"], found["total"]) == (0.75, None)


def test_series_stand_in_the_order_of_their_names_and_attribute_order_does_not_matter() -> None:
    samples = [
        metric(1, 1.0, "b"),
        metric(1, 2.0, "a", attributes='{"y":"1", "x":"2"}'),
        metric(2, 3.0, "a", attributes='{"x":"2","y":"1"}'),
        metric(2, 3.0, "a", attributes='{"x":"1"}'),
    ]
    (window,) = windows_of(samples)
    names = [(item["metric"], item["attributes"], item["n"]) for item in series_of(window)]
    assert names == [("a", {"x": "1"}, 1), ("a", {"x": "2", "y": "1"}, 2), ("b", {}, 1)]


def test_attribute_values_become_text() -> None:
    assert canonical_attributes('{"b": 1, "a": true, "c": {"z":1,"y":null}}') == (
        '{"a":"true","b":"1","c":"{\\"y\\":null,\\"z\\":1}"}'
    )


def test_log_events_count_by_severity_and_by_template() -> None:
    samples = [
        log_event(1, "login <n>", 11),
        log_event(1, "login <n>", 11),  # the same event again
        log_event(1, "login <n>", 12),  # another one at the same time
        log_event(2, "disk full", 13, severity="ERROR"),
    ]
    (window,) = windows_of(samples)
    counts = {(item["metric"], *item["attributes"].values()): (item["n"], item["sum"]) for item in series_of(window)}
    assert counts == {
        (LOG_SEVERITY_METRIC, "INFO"): (2, 2.0),
        (LOG_SEVERITY_METRIC, "ERROR"): (1, 1.0),
        (LOG_TEMPLATE_METRIC, "login <n>"): (2, 2.0),
        (LOG_TEMPLATE_METRIC, "disk full"): (1, 1.0),
    }
    assert (window.samples, window.duplicates) == (3, 1)


def test_rare_templates_count_as_one() -> None:
    events = [log_event(at, template, at) for at, template in enumerate("aaabbccdef")]
    (window,) = windows_of(events, templates_per_window=3)
    counts = {
        item["attributes"]["template"]: item["n"] for item in series_of(window) if item["metric"] == LOG_TEMPLATE_METRIC
    }
    assert counts == {"a": 3, "b": 2, "c": 2, LOG_OTHER_TEMPLATE: 3}


def test_samples_beyond_the_cap_are_counted_as_excess() -> None:
    samples = [metric(at, float(at), name) for at in range(10) for name in "ab"]
    few, many = windows_of(samples, [metric(1, 1.0)], samples_per_window=6)
    assert (few.samples, few.excess) == (6, 14)
    assert [item["n"] for item in series_of(few)] == [3, 3]
    assert (many.samples, many.excess) == (1, 0)


def test_origin_is_that_of_the_latest_point_that_tells_it() -> None:
    old, new = '["upf","north",null]', '["upf","south",null]'
    samples = [metric(2, 1.0, "b", origin=new), metric(1, 1.0, origin=old), metric(3, 1.0)]
    told, untold = windows_of(samples, [metric(1, 1.0)])
    assert told.origin == ("upf", "south", None)
    assert untold.origin == (None, None, None)


def test_a_group_without_samples_has_no_series() -> None:
    empty, full = windows_of([], [metric(1, 1.0)])
    assert (empty.series, empty.samples) == ([], 0)
    assert len(full.series) == 1


def test_no_groups_at_all() -> None:
    assert windows_of() == []


# ---- properties ------------------------------------------------------------------------------------------------------

_values = st.one_of(st.integers(-5, 5).map(float), st.floats(-1e12, 1e12))
_samples = st.lists(
    st.builds(
        metric,
        st.integers(0, 20),
        _values,
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from(["gauge", "delta", "cumulative"]),
        st.sampled_from(['{"x":"1","y":"2"}', '{"y":"2","x":"1"}', "{}"]),
        start_time_ns=st.one_of(st.none(), st.integers(0, 3)),
    ),
    min_size=1,
    max_size=40,
)
_events = st.lists(
    st.builds(log_event, st.integers(0, 5), st.sampled_from("stuvw"), st.integers(1, 8), st.sampled_from(["I", "E"])),
    max_size=20,
)


@given(_samples, _events, st.randoms(use_true_random=False), st.integers(3, 30))
def test_a_window_is_a_function_of_the_set_of_its_points(
    samples: list[Sample], events: list[Sample], order: random.Random, cap: int
) -> None:
    settings = {"samples_per_window": cap, "templates_per_window": 2}
    points = samples + events
    again = points + order.sample(points, order.randint(0, len(points)))
    order.shuffle(again)
    (first,), (second,) = windows_of(points, **settings), windows_of(again, **settings)
    assert second == replace(first, duplicates=second.duplicates)
    assert second.duplicates == len(again) - second.samples - second.excess


@given(st.lists(_samples, min_size=1, max_size=6))
def test_windows_summarised_together_are_those_summarised_alone(lists: list[list[Sample]]) -> None:
    assert windows_of(*lists) == [windows_of(samples)[0] for samples in lists]


@given(_samples, st.integers(1, 10), st.sampled_from([None, '["upf",null,null]']))
def test_packed_samples_give_the_same_window_however_they_are_packed(
    samples: list[Sample], size: int, origin: str | None
) -> None:
    told = [replace(sample, origin=origin) for sample in samples]
    packs = [told[at : at + size] for at in range(0, len(told), size)]
    one, other = packed_windows_of(packs, packs[:1])
    assert [one] == windows_of(told)
    assert [other] == windows_of(packs[0])


@given(_samples)
def test_statistics_are_those_of_the_definitions(samples: list[Sample]) -> None:
    by_series: dict[tuple[str, str, str], list[Sample]] = defaultdict(list)
    for sample in samples:
        kind, _, name, attributes = sample.series.split("\x1f")
        by_series[name, canonical_attributes(attributes), kind].append(replace(sample, start_time_ns=None))
    (window,) = windows_of([replace(sample, start_time_ns=None) for sample in samples])
    assert len(window.series) == len(by_series)
    for found, ((name, attributes, kind), points) in zip(series_of(window), sorted(by_series.items()), strict=True):
        expected = expected_statistics(points, kind)
        assert (found["metric"], found["attributes"]) == (name, orjson.loads(attributes))
        assert found["n"] == expected["n"]
        scale = max(abs(expected["min"]), abs(expected["max"]), 1.0)
        for statistic, value in expected.items():
            tolerance = 1e-9 * scale * (scale if statistic == "m2" else 1.0)
            assert found[statistic] == (value if value is None else pytest.approx(value, rel=1e-9, abs=tolerance))
