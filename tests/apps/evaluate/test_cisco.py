"""The Cisco rules by hand."""

from __future__ import annotations

import numpy as np
import pytest

from apps.evaluate.cisco import Samples, quiet_spans, temporal
from apps.evaluate.cisco_fleet import durations_s, first_places, spatial
from apps.evaluate.datasets import load_cisco
from apps.evaluate.recordings import Event
from tests.apps.evaluate.corpora import DATA, needs_data

#: Two faults, the second on two routers.
EVENTS = (Event("a", 100, 200, 0), Event("b", 500, 600, 1), Event("c", 510, 600, 1))


def router(*alarms_s: float, step_s: float = 5.0, end_s: float = 1000.0) -> Samples:
    times = np.arange(0, end_s, step_s)
    return Samples(times, np.isin(times, alarms_s))


def test_quiet_spans_lie_between_faults() -> None:
    spans = [(span.start_s, span.end_s) for span in quiet_spans(EVENTS, 995.0)]
    assert spans == [(201, 499), (601, 995)]


def test_null_detector() -> None:
    quiet = {name: router() for name in "abc"}
    found = temporal(quiet, EVENTS, 1)
    assert (found.precision, found.recall, found.f1) == (0.0, 0.0, 0.0)
    together = spatial(quiet, EVENTS, 2)
    assert (together.precision, together.recall) == (0.0, 0.0)
    assert np.isnan(together.delay_s)


def test_temporal_alarm_comes_with_the_kth_consecutive_sample() -> None:
    samples = {"a": router(105, 115, 120, 125, 515, 520)}
    assert temporal(samples, EVENTS, 1).routers["a"].delays_s == (5.0,)
    outcome = temporal(samples, EVENTS, 2).routers["a"]
    assert outcome.delays_s == (20.0,)  # 115 and 120
    assert (outcome.detected, outcome.events, outcome.false) == (3, 3, 0)
    assert temporal(samples, EVENTS, 3).routers["a"].detected == 1


def test_false_alarms_in_quiet_spans_at_most_one_per_300_s() -> None:
    # 210: one; 400: within 300 s of it; 495 is the last sample before the next event and is dropped; 650 and 960.
    outcome = temporal({"a": router(105, 210, 400, 495, 650, 960)}, EVENTS, 1).routers["a"]
    assert (outcome.detected, outcome.false) == (1, 3)
    assert outcome.precision == pytest.approx(1 / 4)
    assert outcome.f1 == pytest.approx(2 * 1 / (1 + 3 + 3))


def test_alarms_before_the_first_event_are_told_apart() -> None:
    outcome = temporal({"a": router(50, 60, 95)}, EVENTS, 1)
    assert (outcome.routers["a"].false, outcome.early) == (0, 1)


def test_means_over_routers() -> None:
    found = temporal({"a": router(100, 515), "b": router(100, 515, 700), "c": router()}, EVENTS, 1)
    assert found.recall == pytest.approx(2 / 3)
    assert found.precision == pytest.approx((1 + 3 / 4) / 2)  # c detects nothing and says nothing of precision
    assert found.f1 == pytest.approx((1 + 6 / 7 + 0) / 3)
    assert found.delay_s == pytest.approx((0 + 15) / 2)  # of a in its event, of b in its own


def test_spatial_alarm_needs_routers_in_one_slot() -> None:
    samples = {"a": router(110, 120, 520), "b": router(120, 520, 530), "c": router(530)}
    assert spatial(samples, EVENTS, 1).delay_s == pytest.approx((10 + 20) / 2)
    found = spatial(samples, EVENTS, 2)
    assert [fault.delay_s for fault in found.faults] == [20.0, 20.0]
    assert spatial(samples, EVENTS, 3).recall == 0.0


def test_a_router_keeps_its_state_until_its_next_sample() -> None:
    slow = router(120, step_s=20.0)
    found = spatial({"a": router(130), "b": slow}, EVENTS, 2).faults[0]
    assert (found.delay_s, found.seen_s) == (30.0, 30.0)


def test_spatial_delay_is_counted_to_the_slot_and_to_the_sample() -> None:
    shifted = Samples(np.arange(3.0, 1000, 5), np.isin(np.arange(3.0, 1000, 5), [108, 113]))
    found = spatial({"a": shifted, "b": router(110)}, EVENTS, 2).faults[0]
    assert (found.delay_s, found.seen_s) == (10.0, 13.0)


def test_spatial_precision_is_a_mean_over_faults() -> None:
    def both(*times: float) -> dict[str, Samples]:
        return {"a": router(*times), "b": router(*times)}

    assert spatial(both(110, 510), EVENTS, 2).precision == 1.0
    assert spatial(both(110, 300, 510), EVENTS, 2).precision == pytest.approx((1 / 2 + 1) / 2)
    assert spatial(both(110, 700), EVENTS, 2).precision == pytest.approx((1 + 0) / 2)


def test_first_places() -> None:
    times = np.arange(0, 1000, 5.0)
    quiet = np.zeros(200)
    loud, louder = np.where(times == 110, 3.0, 0.0), np.where((times == 115) | (times == 550), 4.0, 0.0)
    scores = {"a": (times, loud), "b": (times, louder), "c": (times, quiet)}
    assert durations_s(EVENTS) == [100, 100]
    assert first_places(scores, EVENTS, [100, 100]) == [2, 1]
    assert first_places(scores, EVENTS, [10, None]) == [1, None]  # before b becomes louder


@needs_data("cisco_telemetry")
def test_ground_truth_of_the_data() -> None:
    fleet = load_cisco(DATA / "cisco_telemetry")
    assert len(fleet.routers) == 11
    assert [event.fault for event in fleet.events] == [0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 6]
    assert {event.router for event in fleet.events} <= {router.resource for router in fleet.routers}
