"""The whole stream: list in, list out."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import orjson
import pytest

from apps.simulator.disorder import DisorderRates
from apps.simulator.faults import DAY_MS, HOUR_MS, MINUTE_MS, Fault
from apps.simulator.stream import Arrival, Plan, Stream, simulate
from pipelines.parameters import TimeRules
from topics import registry
from topics.records import Inventory, LogEvent, MetricPoint

START_MS = 20_410 * DAY_MS
ORDERLY = DisorderRates(0.0, 0.0, 0.0, 0.0, 0.0)
SHORT = Plan(START_MS, 2 * HOUR_MS, seed=5, resources=15, interval_s=60)
#: Long enough for one fault of every kind.
LONG = Plan(START_MS, 26 * HOUR_MS, seed=5, resources=15, interval_s=60, rates=ORDERLY)


@cache
def records(plan: Plan) -> list[Arrival]:
    return list(simulate(plan))


# ---- determinism


def test_the_same_seed_gives_the_same_bytes_another_seed_others() -> None:
    assert list(simulate(SHORT)) == records(SHORT)
    assert {item.value for item in simulate(replace(SHORT, seed=6))} != {item.value for item in records(SHORT)}


@pytest.mark.parametrize("block_steps", [1, 7, 60, 1000])
def test_blocks_of_generation_change_nothing(block_steps: int) -> None:
    assert list(simulate(SHORT, block_steps)) == records(SHORT)


def test_taking_the_stream_in_pieces_changes_nothing() -> None:
    stream = Stream(SHORT)
    cuts = [START_MS, START_MS + 1, START_MS + 61_234, START_MS + 61_234, START_MS + HOUR_MS, START_MS + 3 * HOUR_MS]
    pieces = [item for cut in cuts for item in stream.until(cut)]

    assert pieces + list(stream.until(None)) == records(SHORT)


def test_an_open_end_has_the_same_beginning() -> None:
    endless = Stream(replace(SHORT, live_ms=None, with_faults=False))
    ended = list(Stream(replace(SHORT, with_faults=False)).until(START_MS + HOUR_MS))

    assert list(endless.until(START_MS + HOUR_MS)) == ended


def test_what_has_not_arrived_is_not_given() -> None:
    assert all(item.arrival_ms < START_MS + HOUR_MS for item in Stream(SHORT).until(START_MS + HOUR_MS))


def test_a_plan_without_end_is_refused_as_a_whole() -> None:
    with pytest.raises(ValueError, match="without end"):
        simulate(replace(SHORT, live_ms=None))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"start_ms": START_MS + 1}, "multiple of the interval"),
        ({"interval_s": 0}, "at least 1"),
        ({"history_ms": -1}, "negative"),
    ],
)
def test_plans_that_make_no_sense_are_refused(change: dict[str, int], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        replace(SHORT, **change)  # type: ignore[arg-type]


# ---- records


def test_sound_records_are_the_records_of_the_topics() -> None:
    kinds = {registry.METRICS.name: MetricPoint, registry.LOGS.name: LogEvent, registry.CONTROL.name: Inventory}
    for item in records(SHORT):
        if item.label != "malformed":
            record = kinds[item.topic](**orjson.loads(item.value))
            assert orjson.loads(orjson.dumps(record)) == orjson.loads(item.value)
            assert list(orjson.loads(item.value)) == list(orjson.loads(orjson.dumps(record)))
            assert record.resource.encode() == item.key


def test_every_resource_is_introduced_before_it_reports() -> None:
    introduced = set()
    for item in records(LONG):
        if item.label == "inventory":
            introduced.add(item.key)
        assert item.key in introduced


def test_a_resource_has_about_ten_series_and_logs() -> None:
    series = defaultdict(set)
    for item in sound(SHORT, registry.METRICS.name):
        series[item["resource"]].add((item["metric"], str(item["attributes"])))

    assert len(series) == SHORT.resources
    assert all(10 <= len(names) <= 12 for names in series.values())
    assert {item["resource"] for item in sound(SHORT, registry.LOGS.name)} == set(series)


# ---- disorder


def test_arrival_never_decreases() -> None:
    times = [item.arrival_ms for item in records(SHORT)]

    assert times == sorted(times)


def test_labels_are_the_truth_about_disorder() -> None:
    plan = replace(SHORT, rates=DisorderRates(0.1, 0.02, 0.01, 0.01, 0.01))
    rules, counts = plan.rules, Counter()
    for item in records(plan):
        counts[item.label] += 1
        if item.label in ("inventory", "malformed"):
            continue
        lag_ms = item.arrival_ms - orjson.loads(item.value)["time_ns"] // 1_000_000
        assert (lag_ms > rules.lateness_s * 1000) == (item.label == "late")
        assert (lag_ms < -rules.future_s * 1000) == (item.label == "future")

    values = Counter(item.value for item in records(plan) if item.label not in ("malformed", "future"))
    assert sum(count - 1 for count in values.values()) == counts["duplicate"] > 100
    assert min(counts[label] for label in ("late", "future", "malformed")) > 50


def test_disorder_changes_no_value() -> None:
    orderly = {item.value for item in records(replace(SHORT, rates=ORDERLY))}

    assert {item.value for item in records(SHORT) if item.label not in ("malformed", "future")} == orderly


# ---- signals


def test_counters_grow_except_at_a_restart() -> None:
    restart = fault_of(LONG, "planned_restart")
    resets = defaultdict(list)
    for name, points in by_series(LONG, "cumulative").items():
        for before, after in pairwise(points):
            if after["start_time_ns"] == before["start_time_ns"]:
                assert after["value"] >= before["value"]
            else:
                assert after["value"] < before["value"]
                resets[name[0]].append(after["start_time_ns"] // 1_000_000)

    assert set(resets) == set(restart.resources)
    assert set(resets[restart.resources[0]]) == {restart.end_ms}


def test_counters_of_a_new_machine_start_from_zero() -> None:
    newcomer = fault_of(LONG, "new_vm")
    own = {name: points for name, points in by_series(LONG, "cumulative").items() if name[0] in newcomer.resources}

    assert own
    for (_, metric, attributes), points in own.items():
        older = by_series(LONG)[f"{newcomer.resources[0][:-2]}01", metric, attributes]
        assert points[0]["start_time_ns"] == newcomer.start_ms * 1_000_000
        assert points[0]["value"] < older[0]["value"] or points[0]["value"] <= 5


def test_ratios_are_shares_of_the_attempts_beside_them() -> None:
    attempts = {
        (item["resource"], item["metric"], item["time_ns"]): item["value"]
        for item in sound(SHORT, registry.METRICS.name)
    }
    ratios = [item for item in sound(SHORT, registry.METRICS.name) if item["metric"] == "pfcp.success.ratio"]

    assert ratios
    for item in ratios:
        assert item["total"] == attempts[item["resource"], "pfcp.requests", item["time_ns"]]
        assert (item["value"] * item["total"]) == pytest.approx(round(item["value"] * item["total"]))
        assert 0 <= item["value"] <= 1


def test_load_has_a_day_and_is_shared_within_a_service() -> None:
    quiet = replace(LONG, history_ms=2 * DAY_MS, with_faults=False, interval_s=900, resources=30)
    upf = [values_of(quiet, f"north-upf-0{number}", "upf.sessions.active") for number in (1, 2)]
    smoothed = [np.convolve(values, np.ones(4) / 4, "valid") for values in upf]

    assert smoothed[0].max() > 1.5 * smoothed[0].min()
    assert np.corrcoef(smoothed[0], smoothed[1])[0, 1] > 0.95
    assert np.corrcoef(smoothed[0][:92], smoothed[0][96:188])[0, 1] > 0.9


# ---- faults, beside the same cloud without them


@cache
def sound(plan: Plan, topic: str) -> list[dict[str, Any]]:
    return [orjson.loads(i.value) for i in records(plan) if i.topic == topic and i.label in ("point", "log")]


@cache
def by_series(plan: Plan, kind: str | None = None) -> dict[tuple[str, str, str], list[dict[str, Any]]]:
    series = defaultdict(list)
    for item in sound(plan, registry.METRICS.name):
        if kind is None or item["kind"] == kind:
            series[item["resource"], item["metric"], str(item["attributes"])].append(item)
    return {name: sorted(points, key=lambda item: item["time_ns"]) for name, points in series.items()}


def values_of(plan: Plan, resource: str, metric: str, attributes: str = "{}") -> np.ndarray[Any, Any]:
    return np.array([item["value"] for item in by_series(plan)[resource, metric, attributes]])


def fault_of(plan: Plan, kind: str) -> Fault:
    return next(fault for fault in plan.faults() if fault.kind == kind)


def inside(fault: Fault, item: dict[str, Any]) -> bool:
    time_ms = item["time_ns"] // 1_000_000
    return fault.start_ms <= time_ms and (fault.end_ms is None or time_ms < fault.end_ms)


def ratios_during(kind: str, metric_part: str) -> list[float]:
    """Return value with the fault over value without it, point by point, while the fault is on."""
    fault = fault_of(LONG, kind)
    without = replace(LONG, with_faults=False)
    pairs = []
    for name, points in by_series(LONG).items():
        if name[0] in fault.resources and metric_part in name[1] and points[0]["kind"] != "cumulative":
            plain = {item["time_ns"]: item["value"] for item in by_series(without)[name]}
            pairs += [
                item["value"] / plain[item["time_ns"]]
                for item in points
                if inside(fault, item) and plain[item["time_ns"]]
            ]
    assert pairs, f"{kind} touched no {metric_part}"
    return pairs


def test_the_plan_holds_every_kind() -> None:
    assert len({fault.kind for fault in LONG.faults()}) == 10


def test_outside_faults_nothing_changes() -> None:
    without = by_series(replace(LONG, with_faults=False))
    faults = LONG.faults()
    for name, points in by_series(LONG).items():
        own = [fault for fault in faults if name[0] in fault.resources]
        if points[0]["kind"] == "cumulative" or any(fault.kind == "new_vm" for fault in own):
            continue
        plain = {item["time_ns"]: item for item in without[name]}
        assert all(plain[item["time_ns"]] == item for item in points if not any(inside(fault, item) for fault in own))


def test_a_spike_multiplies_latency_and_requests() -> None:
    assert np.median(ratios_during("spike", "latency")) > 5
    assert np.median(ratios_during("spike", "cpu")) > 1.8


def test_a_level_shift_stays() -> None:
    ratios = ratios_during("level_shift", "system.memory.usage")

    assert np.median(ratios) == pytest.approx(1.8, rel=0.02)
    assert len(ratios) >= 60


def test_a_leak_grows() -> None:
    ratios = ratios_during("slow_leak", "system.memory.usage")

    assert ratios[0] < 1.1
    assert ratios[-1] > 2.3
    assert (np.diff(ratios[::10]) > 0).all()


def test_a_variance_change_keeps_the_level_and_widens_the_noise() -> None:
    logarithms = np.log(ratios_during("variance_change", "latency"))

    assert abs(np.median(logarithms)) < 0.4
    assert logarithms.std() > 0.4


@pytest.mark.parametrize("kind", ["dropout", "planned_restart"])
def test_silence_is_complete_and_ends(kind: str) -> None:
    fault = fault_of(LONG, kind)
    times = [item["time_ns"] // 1_000_000 for topic in (registry.METRICS.name, registry.LOGS.name)
             for item in sound(LONG, topic) if item["resource"] == fault.resources[0]]  # fmt: skip

    assert fault.end_ms is not None
    assert not [time for time in times if fault.start_ms <= time < fault.end_ms]
    assert [time for time in times if fault.end_ms <= time < fault.end_ms + 2 * MINUTE_MS]


def test_a_new_machine_reports_from_its_first_moment_only() -> None:
    fault = fault_of(LONG, "new_vm")
    times = [
        item["time_ns"] // 1_000_000
        for item in sound(LONG, registry.METRICS.name)
        if item["resource"] == fault.resources[0]
    ]

    assert fault.start_ms <= min(times) < fault.start_ms + 2 * MINUTE_MS
    assert fault.resources[0] not in {name[0] for name in by_series(replace(LONG, with_faults=False))}


@pytest.mark.parametrize(("kind", "per_minute"), [("log_burst", 45), ("service_outage", 20), ("new_template", 12)])
def test_log_faults_add_errors(kind: str, per_minute: float) -> None:
    fault = fault_of(LONG, kind)
    errors = [
        item
        for item in sound(LONG, registry.LOGS.name)
        if item["resource"] in fault.resources and item["severity"] == "ERROR" and inside(fault, item)
    ]

    assert fault.end_ms is not None
    minutes = (fault.end_ms - fault.start_ms) / MINUTE_MS
    assert len(errors) == pytest.approx(per_minute * minutes * len(fault.resources), rel=0.25)


def test_a_new_template_was_never_seen_before_or_elsewhere() -> None:
    fault = fault_of(LONG, "new_template")
    seen = [item for item in sound(LONG, registry.LOGS.name) if item["body"].startswith("certificate chain")]

    assert seen
    assert all(item["resource"] == fault.resources[0] and inside(fault, item) for item in seen)


def test_an_outage_takes_the_whole_service_down() -> None:
    assert np.median(ratios_during("service_outage", "ratio")) < 0.25
    assert np.median(ratios_during("service_outage", "latency")) > 7


def test_time_rules_move_what_is_late() -> None:
    strict = replace(SHORT, rules=TimeRules(lateness_s=5))

    assert (
        max(i.arrival_ms - orjson.loads(i.value)["time_ns"] // 1_000_000 for i in records(strict) if i.label == "point")
        <= 5_000
    )
