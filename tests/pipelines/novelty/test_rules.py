"""Suppression rules: what they are about, what they take out of the evidence, what the models are not taught."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from pipelines.novelty.directory import Directory
from pipelines.novelty.observations import gather
from pipelines.novelty.packing import Marker
from pipelines.novelty.rules import holds, lessons, matcher, within_calendar
from pipelines.novelty.run import Run
from pipelines.novelty.state import BucketState
from pipelines.parameters import NoveltyParameters
from tests.pipelines.novelty.log import (
    WINDOW_MS,
    Bucket,
    Item,
    control,
    end_of,
    events,
    fold,
    marker,
    parcel,
    record,
    rule,
    series,
    start_of,
)
from topics.controls import DAYS, Interval, Rule, RuleRemoval, Weekly
from topics.records import LOG_TEMPLATE_METRIC
from topics.registry import SCORES, SUMMARIES

HOUR_MS = 3_600_000
WINDOWS = 80
LAST = WINDOWS - 1


def noisy(window: int, level: float) -> float:
    return level + 0.01 * (window * 7 % 11 - 5)


def log(*orders: Item, jump: int = LAST) -> list[Item]:
    """Two resources with two metrics each; in one window all four jump, the queue downwards."""
    items: list[Item] = []
    for window in range(WINDOWS):
        high, low = (9.0, 1.0) if window == jump else (1.0, 5.0)
        for name in ("db-1", "web-1"):
            found = [series(window, "cpu.load", noisy(window, high)), series(window, "queue", noisy(window, low))]
            items.append(record(name, window, found))
        items += [order for order in orders if order.window_end_ms == end_of(window)]
        items.append(marker(window))
    return items


def suppressed(bucket: Bucket, window: int = LAST) -> dict[tuple[str, str], Any]:
    return {
        (score["resource"], each["metric"]): each["suppressed"]
        for score in bucket.of(SCORES)
        if score["window_end_ms"] == end_of(window)
        for each in score["series"]
        if each["suppressed"]
    }


def found(bucket: Bucket) -> dict[str, list[str]]:
    """Return the metrics of the last window's findings by resource."""
    return {
        finding["resource"]: [each["metric"] for each in finding["top"]]
        for finding in bucket.of(SUMMARIES)[-1]["findings"]
    }


EVERY = {(name, metric) for name in ("db-1", "web-1") for metric in ("cpu.load", "queue")}


def test_without_rules_everything_counts() -> None:
    bucket = fold(log())
    assert suppressed(bucket) == {}
    assert {name: sorted(metrics) for name, metrics in found(bucket).items()} == {
        "db-1": ["cpu.load", "queue"], "web-1": ["cpu.load", "queue"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ({}, EVERY),
        ({"resource": "db-*"}, {("db-1", "cpu.load"), ("db-1", "queue")}),
        ({"metric": "cpu.*"}, {("db-1", "cpu.load"), ("web-1", "cpu.load")}),
        ({"resource": "*-1", "metric": "q*e"}, {("db-1", "queue"), ("web-1", "queue")}),
        ({"resource": "db"}, set()),
        ({"service": "shop"}, {("web-1", "cpu.load"), ("web-1", "queue")}),
        ({"service": "shop", "region": "*"}, {("web-1", "cpu.load"), ("web-1", "queue")}),
        ({"region": "south"}, set()),
        ({"direction": "low"}, {("db-1", "queue"), ("web-1", "queue")}),
        ({"direction": "new"}, set()),
        ({"minimal_deviation": 6.0}, {("db-1", "queue"), ("web-1", "queue")}),
        ({"minimal_relative_deviation": 2.0}, {("db-1", "queue"), ("web-1", "queue")}),
        ({"minimal_deviation": 100.0, "minimal_relative_deviation": 0.5}, set()),
    ],
    ids=str,
)
def test_a_rule_takes_out_what_is_in_its_scope_and_meets_its_conditions(
    scope: dict[str, Any], expected: set[tuple[str, str]]
) -> None:
    bucket = fold(log(rule(5, Rule("r", **scope)), control(3, "web-1", "shop", "north")))
    assert suppressed(bucket) == dict.fromkeys(expected, "r")
    assert {(name, metric) for name, metrics in found(bucket).items() for metric in metrics} == EVERY - expected


def test_a_skipped_series_scores_nothing_and_keeps_its_p() -> None:
    plain, ruled = fold(log()), fold(log(rule(5, Rule("r", resource="db-1", metric="cpu.load"))))
    before, after = plain.of(SCORES)[-2], ruled.of(SCORES)[-2]
    assert before["resource"] == after["resource"] == "db-1"
    cpu, queue = after["series"]
    assert (cpu["score"], cpu["contribution"], queue["contribution"]) == (0.0, 0.0, 1.0)
    assert cpu["p"] == before["series"][0]["p"] < 1e-4
    assert queue["score"] == before["series"][1]["score"] > 0


def test_a_resource_without_any_evidence_left_is_unremarkable() -> None:
    bucket = fold(log(rule(5, Rule("r"))))
    assert found(bucket) == {}
    assert {(score["p"], score["score"]) for score in bucket.of(SCORES)[-2:]} == {(1.0, 0.0)}


def test_a_rule_holds_from_the_window_it_is_stamped_with_until_it_is_removed_or_replaced() -> None:
    bucket = fold(
        log(
            rule(10, Rule("r", metric="queue")),
            rule(20, RuleRemoval("r")),
            rule(30, Rule("r", resource="db-1")),
            rule(40, Rule("r", resource="web-1")),
            rule(50, RuleRemoval("other")),
        )
    )
    assert [len(suppressed(bucket, window)) for window in (9, 10, 19, 20, 29, 30)] == [0, 2, 2, 0, 0, 2]
    assert {name for name, _ in suppressed(bucket, 39)} == {"db-1"}
    assert {name for name, _ in suppressed(bucket)} == {"web-1"}


def test_of_several_rules_the_first_by_id_is_named() -> None:
    rules = [Rule("b", resource="db-*"), Rule("a", metric="queue"), Rule("c")]
    names = suppressed(fold(log(*(rule(5, each) for each in rules))))
    assert names == {
        ("db-1", "queue"): "a", ("web-1", "queue"): "a", ("db-1", "cpu.load"): "b", ("web-1", "cpu.load"): "c",
    }  # fmt: skip


def test_a_calendar_covers_the_windows_that_overlap_it() -> None:
    spell = Interval(start_of(20) + 1, end_of(22) + 1)
    bucket = fold(log(rule(5, Rule("r", intervals=[spell]))))
    assert [window for window in range(WINDOWS) if suppressed(bucket, window)] == [20, 21, 22, 23]


def test_a_rule_only_for_learning_takes_out_nothing() -> None:
    assert suppressed(fold(log(rule(5, Rule("r", skip_result=False, skip_learning=True))))) == {}


def silent_log(*orders: Item) -> Bucket:
    items: list[Item] = []
    for window in range(60):
        items += [record("vm-1", window, [series(window, "cpu", noisy(window, 1.0))])] if window < 50 else []
        items += [order for order in orders if order.window_end_ms == end_of(window)]
        items.append(marker(window))
    return fold(items, NoveltyParameters(silent_intervals=2.0))


@pytest.mark.parametrize(
    ("conditions", "silent"),
    [
        ({}, False),
        ({"direction": "silent"}, False),
        ({"resource": "vm-*", "intervals": [Interval(start_of(40), end_of(70))]}, False),
        ({"intervals": [Interval(start_of(10), end_of(40))]}, True),
        ({"resource": "db-*"}, True),
        ({"metric": "cpu"}, True),
        ({"direction": "low"}, True),
        ({"minimal_deviation": 3.0}, True),
        ({"skip_result": False, "skip_learning": True}, True),
    ],
    ids=str,
)
def test_a_silence_is_skipped_by_a_rule_about_whole_resources(conditions: dict[str, Any], silent: bool) -> None:
    bucket = silent_log(rule(5, Rule("r", **conditions)))
    assert bool(bucket.of(SUMMARIES)[-1]["findings"]) is silent
    assert any(score["silent"] for score in bucket.of(SCORES)) is silent


def test_a_rule_about_new_things_keeps_new_templates_quiet() -> None:
    items: list[Item] = [rule(3, Rule("r", direction="new"))]
    for window in range(100):
        templates = ["usual", "panic"] if window == 99 else ["usual"]
        found = [events(window, LOG_TEMPLATE_METRIC, 5, template=template) for template in templates]
        items += [record("vm-1", window, found), marker(window)]
    last = fold(items, NoveltyParameters(log_warmup_windows=20)).of(SCORES)[-1]["series"]
    assert [each["suppressed"] for each in last] == [None, "r"]


# ---- conditions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        (None, None, True), (None, "x", True), ("*", "x", True), ("*", None, False), ("a*", "ab", True),
        ("a*", "ba", False), ("*a", "ba", True), ("a*c", "abc", True), ("a*c", "ac", True), ("a.c", "abc", False),
        ("a[b]", "ab", False), ("a?", "ab", False), ("A", "a", False), ("a*", "a\nb", True), ("**", "", True),
    ],
)  # fmt: skip
def test_patterns(pattern: str | None, name: str | None, matches: bool) -> None:
    assert matcher(pattern)(name) is matches


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("start", "inside"),
    [
        ("2025-11-22T21:58", False),  # a Saturday
        ("2025-11-22T21:59:01", True),
        ("2025-11-22T22:00", True),
        ("2025-11-23T01:59", True),
        ("2025-11-23T02:00", False),
        ("2025-11-23T22:00", False),
        ("2025-11-29T23:00", True),
    ],
)
def test_a_weekly_stretch_recurs_and_reaches_into_the_next_day(start: str, inside: bool) -> None:
    rule = Rule("r", weekly=[Weekly(["sat"], 22 * 60, 4 * 60)])
    begin = np.array([at(start)])
    assert within_calendar(rule, begin, begin + WINDOW_MS).tolist() == [inside]


def test_every_day_of_the_week_is_the_one_it_is_called() -> None:
    for number, day in enumerate(DAYS):
        start = np.array([at("2025-11-17T12:00") + number * 24 * HOUR_MS + k * 168 * HOUR_MS for k in (-2000, 0, 52)])
        whole_day = Rule("r", weekly=[Weekly([day], 0, 24 * 60)])
        assert within_calendar(whole_day, start, start + WINDOW_MS).all()
        others = Rule("r", weekly=[Weekly([other for other in DAYS if other != day], 0, 24 * 60)])
        assert not within_calendar(others, start, start + WINDOW_MS).any()


def test_a_stretch_over_the_end_of_the_week_and_one_that_begins_within_a_long_window() -> None:
    sunday_night = Rule("r", weekly=[Weekly(["sun"], 23 * 60, 120)])
    start = np.array([at("2025-11-24T00:30"), at("2025-11-24T01:00"), at("2025-11-23T22:30")])
    assert within_calendar(sunday_night, start, start + HOUR_MS).tolist() == [True, False, True]


def test_deviations_are_below_the_minimal_one_and_unknown_without_an_expectation() -> None:
    actual, expected = np.array([12.0, 11.0, 9.0, 0.0, 1.0]), np.array([10.0, 10.0, 10.0, 0.0, np.nan])
    direction = np.array(["high", "high", "low", "high", "new"])
    for conditions, met in (
        ({"minimal_deviation": 2.0}, [False, True, True, True, False]),
        ({"minimal_relative_deviation": 0.1}, [False, False, False, False, False]),
        ({"minimal_relative_deviation": 0.11}, [False, True, True, False, False]),
        ({"minimal_deviation": 2.0, "direction": "high"}, [False, True, False, True, False]),
        ({"direction": "new"}, [False, False, False, False, True]),
    ):
        assert holds(Rule("r", **conditions), actual, expected, direction).tolist() == met, conditions


# ---- learning --------------------------------------------------------------------------------------------------------


def run_of(items: list[Item], state: BucketState) -> Run:
    """Return the run of a log's windows, its records found and named."""
    parameters = NoveltyParameters()
    windows = [Marker(item.window_end_ms, item.window_start_ms) for item in items if type(item) is type(marker(0))]
    table = gather([parcel(enumerate(items))], 0, windows[-1].end_ms)
    return Run(state, table, windows, Directory(state, 2_000).attend(table, windows), parameters)


def not_taught(*rules: Rule) -> list[tuple[int, str]]:
    """Return window and metric of the values the models are not taught."""
    state = BucketState()
    items: list[Item] = [rule(2, each) for each in rules]
    for window in range(6):
        found = [series(window, "cpu", 1.0), series(window, "queue", 2.0)]
        items += [record("db-1", window, found), marker(window)]
    run = run_of(items, state)
    state.grow_models()
    seen = run.seen()
    told = run.told(seen, np.full(len(state.series), 99))
    blocks = run.blocks(told, lessons(run.rules, told))
    return [
        (window, run.attendance.names[row][0])
        for window, block in enumerate(blocks)
        if block.learn is not None
        for row in block.rows[~block.learn].tolist()
    ]


def test_the_models_are_not_taught_what_a_rule_excludes() -> None:
    window_3 = [Interval(start_of(3), end_of(3))]
    assert not_taught() == []
    assert not_taught(Rule("r", metric="cpu")) == []
    assert not_taught(Rule("r", metric="cpu", intervals=window_3, skip_learning=True)) == [(3, "cpu")]
    assert not_taught(Rule("r", skip_result=False, skip_learning=True, intervals=window_3)) == [
        (3, "cpu"), (3, "queue"),
    ]  # fmt: skip
    assert not_taught(Rule("a", metric="cpu", skip_learning=True)) == [(window, "cpu") for window in range(2, 6)]


def test_a_value_is_judged_beforehand_where_the_rule_depends_on_it() -> None:
    """Of a rule that never holds nothing may remain, although every value was judged twice."""
    never = Rule("r", minimal_deviation=0.0, skip_result=False, skip_learning=True)
    plain, ruled = fold(log()), fold(log(rule(5, never), rule(LAST, RuleRemoval("r"))))
    assert [score["series"] for score in ruled.of(SCORES)] == [score["series"] for score in plain.of(SCORES)]
    assert ruled.stored == plain.stored


def test_what_is_decided_beforehand_goes_by_direction_and_deviation() -> None:
    state = BucketState()
    items = log(rule(5, Rule("r", direction="low", minimal_deviation=4.5, skip_learning=True)))
    run = run_of(items, state)
    state.grow_models()
    told = run.told(run.seen(), np.full(len(state.series), 999))
    taught = lessons(run.rules, told)
    blocks = run.blocks(told, taught)
    for block in blocks[:-1]:
        run._score([block])
    decided = run._decided(blocks[-1], sum(len(block.rows) for block in blocks[:-1]), taught)
    assert decided.learn is not None
    assert decided.learn.tolist() == [True, False, True, False]
