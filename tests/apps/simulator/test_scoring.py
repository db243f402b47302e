from __future__ import annotations

from dataclasses import replace

import pytest

from apps.simulator.faults import HOUR_MS, MINUTE_MS, Fault
from apps.simulator.scoring import GRACE_MS, SETTLE_MS, score
from topics.records import Contributor, Incident

T = 20_000 * 24 * HOUR_MS

SPIKE = Fault("f1", "spike", ("vm-1",), "upf", "north", T, T + 10 * MINUTE_MS, True, "", ())
OUTAGE = Fault("f2", "service_outage", ("amf-1", "amf-2", "amf-3"), "amf", "south", T, T + 10 * MINUTE_MS, True, "", ())
SHIFT = replace(SPIKE, id="f3", kind="level_shift", end_ms=None)
RESTART = replace(SPIKE, id="f4", kind="planned_restart", must_find=False)

INCIDENT = Incident(
    id="i1", state="close", revision=3, scope="resource", severity="major", score=80.0, p=1e-9,
    start_ms=T + MINUTE_MS, end_ms=T + 5 * MINUTE_MS, last_window_end_ms=T + 10 * MINUTE_MS, windows=4,
    service="upf", region="north", resources=["vm-1"], contributors=[], explanation="",
)  # fmt: skip


def after(minutes: float) -> int:
    return T + round(minutes * MINUTE_MS)


def contributor(resource: str, window_end_ms: int) -> Contributor:
    return Contributor(resource, "cpu", {}, "1", window_end_ms, 0.9, 0.4, 0.3, 0.5, "high", 90.0)


def test_an_incident_at_the_same_time_and_place_finds_the_fault() -> None:
    report = score([SPIKE], [INCIDENT])

    assert report.verdicts[0].found
    assert report.verdicts[0].incidents == ("i1",)
    assert not report.missed
    assert not report.false
    assert report.passed(most_false=0)


def test_the_delay_ends_with_the_window_in_which_the_incident_opened() -> None:
    opened = replace(INCIDENT, state="open", revision=1, end_ms=None, last_window_end_ms=after(3))

    assert score([SPIKE], [INCIDENT, opened]).verdicts[0].delay_ms == 3 * MINUTE_MS


def test_of_several_incidents_the_first_one_counts() -> None:
    opened = replace(INCIDENT, state="open", revision=1, end_ms=None, last_window_end_ms=after(6))
    sooner = replace(opened, id="i2", last_window_end_ms=after(2))
    verdict = score([SPIKE], [opened, sooner]).verdicts[0]

    assert verdict.incidents == ("i2", "i1")
    assert verdict.delay_ms == 2 * MINUTE_MS


@pytest.mark.parametrize(
    "elsewhere",
    [
        replace(INCIDENT, resources=["vm-2"]),
        replace(INCIDENT, start_ms=T - HOUR_MS, end_ms=T - MINUTE_MS),
        replace(INCIDENT, start_ms=T + 10 * MINUTE_MS + GRACE_MS, end_ms=T + HOUR_MS),
        # A wide incident that does not name the one resource says nothing about it.
        replace(INCIDENT, scope="service", resources=["vm-2", "vm-3"]),
    ],
)
def test_an_incident_at_another_time_or_place_is_false_and_the_fault_missed(elsewhere: Incident) -> None:
    report = score([SPIKE], [elsewhere])

    assert report.missed == (SPIKE,)
    assert report.false == (elsewhere,)
    assert not report.passed(most_false=5)


def test_the_way_back_to_normal_belongs_to_the_fault() -> None:
    back = replace(INCIDENT, start_ms=after(10) + GRACE_MS - 1, end_ms=after(60))

    assert not score([SPIKE], [back]).false


def test_a_lasting_change_explains_incidents_until_it_must_have_become_normal() -> None:
    assert not score([SHIFT], [replace(INCIDENT, start_ms=T + SETTLE_MS - 1, end_ms=T + 2 * SETTLE_MS)]).false
    assert score([SHIFT], [replace(INCIDENT, start_ms=T + SETTLE_MS, end_ms=T + 2 * SETTLE_MS)]).false


@pytest.mark.parametrize(
    "wide",
    [
        replace(INCIDENT, resources=["amf-2"], service="amf", region="south"),
        replace(INCIDENT, scope="service", resources=[], service="amf", region="south"),
        replace(INCIDENT, scope="region", resources=[], service=None, region="south"),
        replace(INCIDENT, scope="cloud", resources=[], service=None, region=None),
    ],
)
def test_an_outage_is_found_by_one_of_its_resources_or_by_its_group(wide: Incident) -> None:
    assert score([OUTAGE], [wide]).verdicts[0].found


def test_an_outage_is_not_found_by_another_group() -> None:
    other = replace(INCIDENT, scope="service", resources=["amf-9"], service="amf", region="north")

    assert score([OUTAGE], [other]).missed == (OUTAGE,)


def test_an_incident_that_was_open_before_proves_nothing_but_is_not_false() -> None:
    old = replace(INCIDENT, start_ms=T - HOUR_MS, end_ms=after(5))
    report = score([SPIKE], [old])

    assert report.missed == (SPIKE,)
    assert not report.false


def test_an_incident_that_was_open_before_counts_when_it_shows_the_fault() -> None:
    old = replace(INCIDENT, start_ms=T - HOUR_MS, end_ms=after(5), contributors=[contributor("vm-1", after(4))])
    other = replace(old, contributors=[contributor("vm-2", after(4)), contributor("vm-1", T - MINUTE_MS)])

    assert score([SPIKE], [old]).verdicts[0].delay_ms == 4 * MINUTE_MS
    assert score([SPIKE], [other]).missed == (SPIKE,)


def test_ordinary_work_may_be_noticed_but_must_not_page() -> None:
    quiet = score([RESTART], [replace(INCIDENT, severity="minor")])
    loud = score([RESTART], [INCIDENT])

    assert quiet.passed(most_false=0)
    assert score([RESTART], []).passed(most_false=0)
    assert loud.wrongly_paged == (RESTART,)
    assert not loud.passed(most_false=0)
    assert not loud.false


def test_the_latest_revision_is_the_truth() -> None:
    grown = replace(INCIDENT, revision=4, resources=["vm-9", "vm-1"])
    early = replace(INCIDENT, state="open", revision=1, resources=["vm-9"], end_ms=None, last_window_end_ms=after(2))

    assert score([SPIKE], [grown, early]).verdicts[0].found


def test_faults_beyond_what_is_known_are_left_out() -> None:
    later = replace(SPIKE, id="f9", start_ms=T + HOUR_MS, end_ms=T + 2 * HOUR_MS)

    assert [item.fault for item in score([SPIKE, later], [INCIDENT], until_ms=T + HOUR_MS).verdicts] == [SPIKE]


def test_false_incidents_are_counted_against_the_bound() -> None:
    false = [replace(INCIDENT, id=f"x{number}", resources=["vm-7"], severity="minor") for number in range(3)]
    report = score([SPIKE], [INCIDENT, *false])

    assert len(report.false) == 3
    assert not report.false_pages
    assert report.passed(most_false=3)
    assert not report.passed(most_false=2)
