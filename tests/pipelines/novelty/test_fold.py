"""The pure fold: the same log gives the same records and the same state, whatever the transport did to it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.parameters import NoveltyParameters
from tests.pipelines.novelty.log import (
    Bucket,
    Item,
    control,
    counter,
    end_of,
    events,
    fold,
    marker,
    ratio,
    record,
    rule,
    series,
)
from topics.controls import Rule, RuleRemoval, Weekly
from topics.records import (
    LOG_OTHER_TEMPLATE,
    LOG_SEVERITY_METRIC,
    LOG_TEMPLATE_METRIC,
    OperatorVerdict,
    Score,
    SeriesScore,
    Statistics,
    Subject,
    Summary,
    severity_of,
)
from topics.registry import MODELS, SCORES, SUMMARIES

#: Small spans, so that a short log reaches expiry, snapshots and the series limit.
RULES = NoveltyParameters(
    expiry_s=600, series_per_resource=6, snapshot_windows=4, log_warmup_windows=3, silent_intervals=2.0, report_p=0.2
)


ORDERS = [
    Rule("a", resource="amf-*", skip_learning=True),
    Rule("b", service="core", metric="*s", direction="high", minimal_relative_deviation=0.5, skip_learning=True),
    Rule("c", weekly=[Weekly(["fri"], 130, 12)]),
    RuleRemoval("a"),
    RuleRemoval("b"),
    OperatorVerdict("expected", "i-1", [Subject("upf-1", "cpu")]),
]


def busy_log(windows: int, seed: int) -> list[list[Item]]:
    """Resources that come and go, all kinds of series, control records; one list per window, its marker last."""
    draw = random.Random(seed)
    log: list[list[Item]] = []
    for window in range(windows):
        items: list[Item] = []
        for name in ("amf-1", "smf-1", "upf-1", "upf-2"):
            if draw.random() < 0.2 or (name == "upf-2" and window > windows // 2):
                continue
            found = [
                series(window, "cpu", draw.gauss(0.5, 0.05)),
                counter(window, "packets", 100.0 * window, 100.0 * window + draw.randrange(90)),
                counter(window, "octets", 2e6 * window, 2e6 * window + draw.randrange(10**6)),
                series(window, "queued", draw.random() * (window % 5 == 4), "delta"),
                ratio(window, "drops", float(draw.randrange(3)), 100.0),
                *(
                    events(window, LOG_TEMPLATE_METRIC, draw.randrange(1, 9), template=f"t{number}")
                    for number in range(3)
                    if draw.random() < 0.5
                ),
            ]
            split = draw.randrange(1, len(found))
            place = {"service": "core"} if draw.random() < 0.5 else {}
            items += [
                record(name, window, found[:split], part=0, parts=2, **place),
                record(name, window, found[split:], part=1, parts=2, **place),
            ]
        if draw.random() < 0.3:
            items.append(control(window, draw.choice(["amf-1", "upf-1"]), f"s{draw.randrange(3)}", "north"))
        if draw.random() < 0.3:
            items.append(rule(window, draw.choice(ORDERS)))
        log.append([*items, marker(window, len(items))])
    return log


LOG = busy_log(40, seed=7)
NUMBERED = list(enumerate(item for window in LOG for item in window))
RECORDS = [pair for pair in NUMBERED if isinstance(pair[1], Statistics)]
EXPECTED = fold([item for _, item in NUMBERED], RULES)


def shuffled_before_markers(draw: random.Random) -> list[tuple[int, Item]]:
    """Reorder, repeat and delay records, as retries do; never past the marker of their window."""
    log: list[tuple[int, Item]] = []
    at = 0
    for window in LOG:
        numbered = list(zip(range(at, at + len(window)), window, strict=True))
        at += len(window)
        body = numbered[:-1] + draw.choices(numbered[:-1], k=draw.randrange(4) if len(numbered) > 1 else 0)
        draw.shuffle(body)
        any_time = [draw.choice(RECORDS)] if draw.random() < 0.3 else []
        log += [*any_time, *body, *numbered[-1:] * draw.randrange(1, 3)]
    return log


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 60))
def test_no_cut_reorder_or_repetition_changes_records_or_state(seed: int, cut: int) -> None:
    draw = random.Random(seed)
    log = shuffled_before_markers(draw)
    bucket = Bucket(RULES)
    while log:
        size = draw.randrange(1, cut + 1)
        bucket.batch(log[:size])
        log = log[size:]
    assert [(w.topic.name, w.key, w.value) for w in by_topic(bucket)] == [
        (w.topic.name, w.key, w.value) for w in by_topic(EXPECTED)
    ]
    assert bucket.stored == EXPECTED.stored


def by_topic(bucket: Bucket) -> list[Any]:
    """Runs are cut differently; the order within a topic is what readers see."""
    return sorted(bucket.written, key=lambda written: written.topic.name)


def test_windows_at_or_before_the_last_closed_one_are_ignored() -> None:
    bucket = Bucket(RULES)
    bucket.batch(NUMBERED)
    before = bucket.stored, len(bucket.written)
    bucket.batch(NUMBERED)
    assert (bucket.stored, len(bucket.written)) == before
    assert bucket.waiting == []


def test_the_log_has_rules_that_take_effect() -> None:
    named = {each["suppressed"] for score in EXPECTED.of(SCORES) for each in score["series"]}
    assert named == {None, "a", "b", "c"}


def test_only_one_bucket_passes_on_what_operators_said() -> None:
    said = OperatorVerdict("wrong", "i-1", note="a test")
    log = [rule(0, said), marker(0), marker(1)]
    for number, verdicts in ((0, [said]), (3, [])):
        bucket = Bucket(number=number)
        bucket.batch(list(enumerate(log)))
        assert [[OperatorVerdict(**each) for each in summary["verdicts"]] for summary in bucket.of(SUMMARIES)] == [
            verdicts,
            [],
        ]


def test_every_record_is_its_type_and_every_number_finite() -> None:
    for score in EXPECTED.of(SCORES):
        score["series"] = [SeriesScore(**each) for each in score["series"]]
        whole = Score(**score)
        assert whole.severity == severity_of(whole.score)
        for each in score["series"]:
            assert 1e-300 <= each.p <= 1
            assert 0 <= each.score <= 100
            assert None not in (each.actual, each.contribution, each.observations)
    for summary in EXPECTED.of(SUMMARIES):
        Summary(**summary)


def test_one_summary_per_window_says_how_many_scores_were_written() -> None:
    summaries, scores = EXPECTED.of(SUMMARIES), EXPECTED.of(SCORES)
    assert [summary["window_end_ms"] for summary in summaries] == [end_of(window) for window in range(len(LOG))]
    for summary in summaries:
        of_window = [score for score in scores if score["window_end_ms"] == summary["window_end_ms"]]
        assert summary["scores"] == len(of_window)
        assert summary["series"] == sum(len(score["series"]) for score in of_window)
        assert [score["resource"] for score in of_window] == sorted(score["resource"] for score in of_window)


def steady(windows: int, *extra: Item, value: float = 1.0) -> list[Item]:
    log: list[Item] = []
    for window in range(windows):
        wobble = 0.01 * (window * 7 % 11 - 5)
        log += [record("vm-1", window, [series(window, "cpu", value + wobble)])]
        log += [item for item in extra if item.window_end_ms == end_of(window)]
        log += [marker(window)]
    return log


def only_series(bucket: Bucket, window: int, metric: str) -> dict[str, Any]:
    (found,) = [
        each
        for score in bucket.of(SCORES)
        if score["window_end_ms"] == end_of(window)
        for each in score["series"]
        if each["metric"] == metric
    ]
    return dict(found)


def test_a_jump_is_surprising_and_what_was_usual_is_not() -> None:
    log = steady(200)
    log[-2] = record("vm-1", 199, [series(199, "cpu", 9.0)])
    bucket = fold(log)
    assert only_series(bucket, 199, "cpu")["p"] < 1e-4
    assert only_series(bucket, 199, "cpu")["direction"] == "high"
    assert only_series(bucket, 198, "cpu")["p"] > 1e-2
    (finding,) = bucket.of(SUMMARIES)[-1]["findings"]
    assert finding["resource"] == "vm-1"
    assert finding["age_windows"] == 200
    assert finding["top"][0]["metric"] == "cpu"


def test_a_counter_grows_also_between_windows_and_starts_from_zero_after_a_reset() -> None:
    bucket = fold([
        record("vm-1", 0, [counter(0, "packets", 100, 130)]), marker(0),
        record("vm-1", 1, [counter(1, "packets", 150, 190)]), marker(1),
        record("vm-1", 2, [counter(2, "packets", 5, 25)]), marker(2),
    ])  # fmt: skip
    assert [only_series(bucket, window, "packets")["actual"] for window in range(3)] == [30, 20 + 40, 5 + 20]


def test_a_later_start_time_is_a_reset_even_when_the_value_grew() -> None:
    restarted = (end_of(0) + 1) * 1_000_000
    bucket = fold([
        record("vm-1", 0, [counter(0, "packets", 100, 130)]), marker(0),
        record("vm-1", 1, [counter(1, "packets", 150, 190, start_time_ns=restarted)]), marker(1),
    ])  # fmt: skip
    assert only_series(bucket, 1, "packets")["actual"] == 150 + 40


def test_large_or_fractional_sums_are_amounts() -> None:
    bucket = fold([
        record("vm-1", 0, [counter(0, "octets", 0, 3e6), series(0, "joules", 2.5, "delta")]), marker(0),
        record("vm-1", 1, [counter(1, "octets", 6e6, 9e6), series(1, "joules", 2.5, "delta")]), marker(1),
    ])  # fmt: skip
    assert only_series(bucket, 1, "octets")["actual"] == pytest.approx(6e6 / 60)
    assert only_series(bucket, 1, "joules")["actual"] == 5.0


def test_a_ratio_counts_successes_only_when_its_trials_are_known() -> None:
    bucket = fold([record("vm-1", 0, [ratio(0, "drops", 3, 100), ratio(0, "share", 0.4, None)]), marker(0)])
    assert only_series(bucket, 0, "drops")["actual"] == 3
    assert only_series(bucket, 0, "share")["actual"] == 0.4


def test_a_log_that_falls_silent_counts_zero_while_its_resource_reports() -> None:
    log: list[Item] = []
    for window in range(120):
        found = [series(window, "cpu", 1.0)]
        if window < 118:
            found.append(events(window, LOG_SEVERITY_METRIC, 50 + window % 3, severity="info"))
        log += [record("vm-1", window, found), marker(window)]
    last = only_series(fold(log), 119, LOG_SEVERITY_METRIC)
    assert (last["actual"], last["direction"]) == (0.0, "low")
    assert last["p"] < 1e-4


def chatty(windows: int, newcomer: str, warmup: int) -> Bucket:
    log: list[Item] = []
    for window in range(windows):
        found = [events(window, LOG_TEMPLATE_METRIC, 5, template="usual")]
        if window == windows - 1:
            found.append(events(window, LOG_TEMPLATE_METRIC, 1, template=newcomer))
        log += [record("vm-1", window, found), marker(window)]
    return fold(log, NoveltyParameters(log_warmup_windows=warmup))


def newest(bucket: Bucket) -> dict[str, Any]:
    return dict(bucket.of(SCORES)[-1]["series"][-1])


def test_a_template_never_seen_before_is_news_on_a_grown_up_resource() -> None:
    new = newest(chatty(100, "kernel panic", warmup=20))
    assert new["direction"] == "new"
    assert new["p"] == pytest.approx(0.5 / 80)
    assert new["expected"] is None


def test_a_template_is_no_news_on_a_young_resource() -> None:
    assert newest(chatty(15, "kernel panic", warmup=20))["p"] == 1.0


def test_the_template_that_counts_the_rest_is_no_news() -> None:
    assert newest(chatty(100, LOG_OTHER_TEMPLATE, warmup=20))["direction"] != "new"


def test_inventory_is_applied_at_the_marker_it_is_stamped_with_and_telemetry_wins() -> None:
    log = steady(4, control(1, "vm-1", "upf", "north"), control(3, "vm-1", "amf", "south"))
    places = [(score["service"], score["region"]) for score in fold(log).of(SCORES)]
    assert places == [(None, None), ("upf", "north"), ("upf", "north"), ("amf", "south")]
    told = [record("vm-1", 0, [series(0, "cpu", 1.0)], service="smf"), control(0, "vm-1", "upf", "north"), marker(0)]
    (score,) = fold(told).of(SCORES)
    assert (score["service"], score["region"]) == ("smf", "north")


def test_of_two_control_records_in_a_window_the_later_one_holds() -> None:
    first, second = control(0, "vm-1", "upf"), control(0, "vm-1", "amf")
    body = [(1, first), (2, second), (3, record("vm-1", 0, [series(0, "cpu", 1.0)]))]
    for order in (body, body[::-1]):
        bucket = Bucket()
        bucket.batch([*order, (4, marker(0))])
        assert bucket.of(SCORES)[0]["service"] == "amf"


def test_a_known_resource_without_records_falls_silent_and_comes_back() -> None:
    log = [item for item in steady(60) if not (isinstance(item, type(record("vm-1", 0, []))) and
                                               end_of(40) <= item.window_end_ms < end_of(55))]  # fmt: skip
    bucket = fold(log)
    silent = [score["window_end_ms"] for score in bucket.of(SCORES) if score["silent"]]
    assert silent
    assert min(silent) >= end_of(41)
    assert max(silent) == end_of(54)
    summary = bucket.of(SUMMARIES)[50]
    assert (summary["resources"], summary["silent"]) == (1, 1)
    assert summary["findings"][0]["silent"]
    assert summary["groups"] == [
        {"service": None, "region": None, "resources": 1, "silent": 1, "surprising": 0}
    ]  # fmt: skip


def test_unseen_resources_and_series_leave_the_state() -> None:
    rules = NoveltyParameters(expiry_s=600, snapshot_windows=5)
    log: list[Item] = [record("gone", 0, [series(0, "cpu", 1.0)]), *steady(40)]
    assert fold(log, rules).of(SUMMARIES)[3]["resources"] == 2
    assert fold(log, rules).of(SUMMARIES)[-1]["resources"] == 1


def test_series_above_the_limit_are_refused_and_counted() -> None:
    many = [series(0, f"m{number}", 1.0) for number in range(8)]
    bucket = fold([record("vm-1", 0, many), marker(0)], NoveltyParameters(series_per_resource=5))
    (summary,) = bucket.of(SUMMARIES)
    assert (summary["refused_series"], summary["series"]) == (3, 5)


def test_snapshots_hold_every_series_of_the_resources_seen() -> None:
    bucket = fold(steady(9), NoveltyParameters(snapshot_windows=4))
    snapshots = bucket.of(MODELS)
    assert {snapshot["resource"] for snapshot in snapshots} == {"vm-1"}
    assert [each["metric"] for each in snapshots[-1]["series"]] == ["cpu"]
    assert snapshots[-1]["series"][0]["parameters"]


def test_an_empty_bucket_still_says_that_its_windows_are_complete() -> None:
    (summary,) = fold([marker(0)]).of(SUMMARIES)
    assert summary["scores"] == summary["resources"] == 0


def test_windows_are_folded_in_order_even_when_a_marker_comes_with_the_next_batch() -> None:
    log = list(enumerate(steady(3)))
    bucket = Bucket()
    bucket.batch(log[:1])
    assert bucket.written == []
    bucket.batch(log[1:])
    assert len(bucket.of(SUMMARIES)) == 3
