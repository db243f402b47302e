from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.simulator.faults import (
    DAY_MS,
    EXPECTED_KINDS,
    HOUR_MS,
    KINDS,
    MINUTE_MS,
    WARMUP_MS,
    Span,
    newcomers,
    read_truth,
    schedule,
    write_truth,
)
from apps.simulator.topology import build

START_MS = 20_000 * DAY_MS


def span(history_ms: int, live_ms: int) -> Span:
    return Span(START_MS, START_MS + history_ms, START_MS + history_ms + live_ms)


def test_two_days_hold_one_fault_of_every_kind_each_in_its_own_place() -> None:
    faults = schedule(build(45), 1, span(2 * DAY_MS, 0))
    places = [name for fault in faults for name in fault.resources]

    assert sorted(fault.kind for fault in faults) == sorted(KINDS)
    assert len(places) == len(set(places))
    assert len({(fault.service, fault.region) for fault in faults}) == len(faults)


@given(seed=st.integers(0, 2**32), history_h=st.integers(0, 24 * 10), live_min=st.integers(0, 600))
def test_faults_follow_each_other_within_their_span(seed: int, history_h: int, live_min: int) -> None:
    where = span(history_h * HOUR_MS, live_min * MINUTE_MS)
    faults = schedule(build(45), seed, where)

    assert all(fault.start_ms >= where.start_ms + min(WARMUP_MS, 0.39 * history_h * HOUR_MS) for fault in faults)
    assert all(fault.start_ms < (fault.end_ms or where.end_ms) <= where.end_ms for fault in faults)
    assert all((one.end_ms or one.start_ms) < other.start_ms for one, other in pairwise(faults))
    assert all(fault.must_find == (fault.kind not in EXPECTED_KINDS) for fault in faults)


def test_the_live_part_starts_calm_and_soon_shows_something() -> None:
    where = span(2 * DAY_MS, HOUR_MS)
    faults = schedule(build(45), 1, where)
    before = [fault.end_ms or fault.start_ms for fault in faults if fault.start_ms < where.live_ms]
    live = [fault for fault in faults if fault.start_ms >= where.live_ms]

    assert max(before) <= where.live_ms - 30 * MINUTE_MS
    assert [fault.kind for fault in live[:3]] == ["spike", "log_burst", "service_outage"]
    assert live[0].start_ms <= where.live_ms + 3 * MINUTE_MS


def test_a_longer_live_part_changes_nothing_before_it() -> None:
    short, long = (schedule(build(45), 1, span(2 * DAY_MS, live_ms)) for live_ms in (HOUR_MS, DAY_MS))

    assert long[: len(short)] == short
    assert len(long) > len(short) > len(KINDS)


def test_an_outage_hits_all_of_a_service_in_a_region() -> None:
    topology = build(45)
    outage = next(fault for fault in schedule(topology, 3, span(2 * DAY_MS, 0)) if fault.kind == "service_outage")

    assert outage.resources == tuple(item.name for item in topology.group(outage.service, outage.region))


def test_a_new_machine_is_not_among_those_that_exist() -> None:
    topology = build(45)
    faults = schedule(topology, 1, span(6 * DAY_MS, 0))
    appearing = newcomers(faults, topology)

    assert len(appearing) == sum(fault.kind == "new_vm" for fault in faults) > 1
    assert not {item.name for item in appearing} & {item.name for item in topology.resources}


def test_the_same_seed_gives_the_same_faults_another_seed_others() -> None:
    assert schedule(build(45), 1, span(DAY_MS, 0)) == schedule(build(45), 1, span(DAY_MS, 0))
    assert schedule(build(45), 1, span(DAY_MS, 0)) != schedule(build(45), 2, span(DAY_MS, 0))


def test_truth_survives_the_file(tmp_path: Path) -> None:
    faults = schedule(build(45), 1, span(2 * DAY_MS, HOUR_MS))
    write_truth(tmp_path / "truth.jsonl", faults)

    assert read_truth(tmp_path / "truth.jsonl") == faults


def test_a_file_that_holds_no_truth_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "truth.jsonl").write_text('{"id": 1}\n')

    with pytest.raises(ValueError, match="line 1: not a fault"):
        read_truth(tmp_path / "truth.jsonl")
