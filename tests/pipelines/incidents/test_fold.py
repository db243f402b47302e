"""Summaries in, incidents out: what opens, what joins, what closes, and what is told about it."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pipelines.incidents.windows import BucketCountError
from pipelines.parameters import IncidentParameters
from tests.pipelines.incidents.cloud import (
    BEGIN_MS,
    PARAMETERS,
    WINDOW_MS,
    Cloud,
    Resource,
    Run,
    at,
    by_id,
    cloud,
    pieces,
    run,
    series,
)
from topics.records import Finding, Incident

CLOUD = cloud()
NAMES = {resource.name: resource for resource in CLOUD.resources}
VICTIM = NAMES["upf-north-03"]


def merged(*events: dict[int, list[Finding]]) -> dict[int, list[Finding]]:
    windows = sorted({window for event in events for window in event})
    return {window: [finding for event in events for finding in event.get(window, [])] for window in windows}


def group(service: str | None = None, region: str | None = None) -> list[Resource]:
    return [
        resource
        for resource in CLOUD.resources
        if service in (None, resource.service) and region in (None, resource.region)
    ]


def states(records: list[Incident]) -> list[str]:
    return [record.state for record in records]


# ---- episodes --------------------------------------------------------------------------------------------------------


def test_nothing_surprising_is_no_incident() -> None:
    assert run(CLOUD, 50, {}) == []


def test_a_spike_is_one_incident_that_closes_by_itself() -> None:
    records = run(CLOUD, 40, at(10, 10, VICTIM.finding(1e-9)))
    assert states(records) == ["open", "close"]
    opened, closed = records
    assert opened.resources == ["upf-north-03"]
    assert (opened.scope, opened.service, opened.region) == ("resource", "upf", "north")
    assert opened.start_ms == BEGIN_MS + 10 * WINDOW_MS
    assert opened.last_window_end_ms == BEGIN_MS + 11 * WINDOW_MS, "opened in its own window"
    assert (closed.end_ms, closed.windows) == (BEGIN_MS + 11 * WINDOW_MS, 1)
    assert closed.last_window_end_ms == closed.end_ms + PARAMETERS.close_after_windows * WINDOW_MS
    assert (opened.id, opened.revision, closed.revision) == (closed.id, 1, 2)


def test_a_level_shift_is_one_incident_with_few_records() -> None:
    records = run(CLOUD, 300, at(10, 249, VICTIM.finding(1e-9)))
    assert len(by_id(records)) == 1
    assert states(records)[0] == "open"
    assert states(records)[-1] == "close"
    assert records[-1].windows == 240
    assert len(records) < 10, "one every update_windows, not one per window"


def test_weak_surprise_needs_confirmation() -> None:
    once = run(CLOUD, 40, at(10, 10, VICTIM.finding(3e-4)))
    twice = run(CLOUD, 40, merged(at(10, 10, VICTIM.finding(3e-4)), at(12, 12, VICTIM.finding(3e-4))))
    assert once == []
    assert states(twice) == ["open", "close"]
    assert twice[0].start_ms == BEGIN_MS + 10 * WINDOW_MS, "it began with the first of the two windows"


def test_weaker_evidence_holds_an_incident_open_but_does_not_open_one() -> None:
    tail = at(11, 60, VICTIM.finding(2e-3))
    assert run(CLOUD, 80, tail) == []
    records = run(CLOUD, 80, merged(at(10, 10, VICTIM.finding(1e-9)), tail))
    assert len(by_id(records)) == 1
    assert records[-1].end_ms == BEGIN_MS + 61 * WINDOW_MS


def test_two_unrelated_faults_are_two_incidents() -> None:
    other = NAMES["cell-south-01"]
    records = run(CLOUD, 60, merged(at(10, 14, VICTIM.finding(1e-9)), at(12, 16, other.finding(1e-9))))
    assert sorted(record.resources for record in records if record.state == "open") == [[other.name], [VICTIM.name]]
    assert states(records).count("close") == 2


def test_young_resources_open_nothing_unless_silent() -> None:
    young = VICTIM.finding(1e-12, age_windows=PARAMETERS.warmup_windows - 1)
    assert run(CLOUD, 40, at(10, 20, young)) == []
    known = replace(young, age_windows=PARAMETERS.warmup_windows)
    assert states(run(CLOUD, 40, at(10, 20, known)))[0] == "open"
    silent = VICTIM.finding(1e-3, silent=True, age_windows=10)
    assert states(run(CLOUD, 40, at(10, 20, silent)))[0] == "open"


def test_a_new_service_of_young_resources_is_no_incident() -> None:
    young = [resource.finding(1e-12, age_windows=3) for resource in group("upf")]
    assert run(CLOUD, 40, at(10, 20, *young)) == []


def test_a_planned_restart_pages_nobody() -> None:
    silence = at(10, 13, VICTIM.finding(1e-12, silent=True))
    back = at(14, 14, VICTIM.finding(1e-30))
    records = run(CLOUD, 60, merged(silence, back))
    assert len(by_id(records)) == 1
    assert {record.severity for record in records} <= {"warning", "minor"}
    assert records[-1].state == "close"


def test_a_lasting_fault_becomes_more_severe_and_is_told_at_once() -> None:
    records = run(CLOUD, 60, at(10, 40, VICTIM.finding(1e-30)))
    assert [record.severity for record in records[:2]] == ["minor", "critical"]
    raised = records[1]
    assert raised.last_window_end_ms - raised.start_ms == PARAMETERS.brief_s * 1000


# ---- groups ----------------------------------------------------------------------------------------------------------


def test_a_service_outage_is_one_incident_of_the_service() -> None:
    outage = [resource.finding(1e-9) for resource in group("upf", "north")]
    records = run(CLOUD, 60, at(10, 20, *outage))
    assert len(by_id(records)) == 1
    opened = records[0]
    assert (opened.scope, opened.service, opened.region) == ("service", "upf", "north")
    assert sorted(opened.resources) == [resource.name for resource in group("upf", "north")]
    assert opened.severity == "critical"


def test_a_service_outage_is_found_from_weak_surprise_of_many() -> None:
    weak = [resource.finding(8e-3) for resource in group("upf", "north")]
    records = run(CLOUD, 60, at(10, 10, *weak))
    assert [(record.state, record.scope) for record in records] == [("open", "service"), ("close", "service")]


def test_an_outage_that_spreads_keeps_the_id_of_its_first_resource() -> None:
    first, *rest = group("upf", "north")
    events = merged(at(10, 30, first.finding(1e-9)), at(12, 30, *(resource.finding(1e-9) for resource in rest)))
    records = run(CLOUD, 60, events)
    assert len(by_id(records)) == 1
    assert [(record.state, record.scope) for record in records[:2]] == [("open", "resource"), ("update", "service")]
    assert records[0].resources == [first.name]
    assert len(records[1].resources) == 8


def test_incidents_that_turn_out_to_be_one_are_closed_into_the_first() -> None:
    members = group("upf", "north")
    events = merged(*(at(10 + place, 30, member.finding(1e-9)) for place, member in enumerate(members[:4])))
    found = by_id(run(CLOUD, 60, events))
    first, *absorbed = found.values()
    assert first[-1].scope == "service"
    assert len(first[-1].resources) == 4
    assert len(absorbed) == 1, "the third one makes it a group"
    assert states(absorbed[0]) == ["open", "close"]
    assert first[0].id in absorbed[0][-1].explanation
    assert len({record.start_ms for record in first}) == 1, "readers find an incident by its start"


def test_late_members_of_an_outage_join_it() -> None:
    members = group("upf", "north")
    events = merged(at(10, 30, *(member.finding(1e-9) for member in members[:5])), at(12, 30, members[6].finding(1e-9)))
    records = run(CLOUD, 60, events)
    assert len(by_id(records)) == 1
    assert members[6].name in records[-1].resources


def test_a_fault_long_after_an_outage_began_is_an_incident_of_its_own() -> None:
    members = group("upf", "north")
    events = merged(at(10, 60, *(member.finding(1e-9) for member in members[:5])), at(40, 45, members[6].finding(1e-9)))
    assert len(by_id(run(CLOUD, 90, events))) == 2


@pytest.mark.parametrize(
    ("service", "region", "scope"),
    [("upf", None, "service"), (None, "north", "region"), (None, None, "cloud"), ("upf", "north", "service")],
)
def test_the_scope_is_the_smallest_place_that_explains_it(service: str | None, region: str | None, scope: str) -> None:
    outage = [resource.finding(1e-9) for resource in group(service, region)]
    records = run(CLOUD, 40, at(10, 15, *outage))
    assert len(by_id(records)) == 1
    assert (records[0].scope, records[0].service, records[0].region) == (scope, service, region)


def test_a_resource_fault_beside_an_outage_is_an_incident_of_its_own() -> None:
    outage = [resource.finding(1e-9) for resource in group("upf", "north")]
    events = merged(at(10, 15, *outage), at(10, 15, NAMES["cell-south-01"].finding(1e-9)))
    opened = [record for record in run(CLOUD, 40, events) if record.state == "open"]
    assert sorted(record.scope for record in opened) == ["resource", "service"]


def test_resources_of_unknown_place_roll_up_to_the_cloud() -> None:
    routers = Cloud(tuple(Resource(f"router-{number}", None, None) for number in range(11)))
    many = run(routers, 40, at(10, 15, *(router.finding(1e-9) for router in routers.resources[:6])))
    assert [record.scope for record in many[:1]] == ["cloud"]
    assert len(by_id(many)) == 1
    one = run(routers, 40, at(10, 15, routers.resources[0].finding(1e-9)))
    assert one[0].scope == "resource"


def test_the_strongest_resource_is_named_first() -> None:
    members = group("upf", "north")
    events = at(10, 15, *(member.finding(1e-30 if member is members[4] else 1e-8) for member in members))
    records = run(CLOUD, 40, events)
    assert {record.resources[0] for record in records} == {members[4].name}


# ---- the alarm rate --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("false_per_day", [1.0, 20.0])
def test_noise_causes_about_as_many_incidents_as_the_user_allows(false_per_day: float) -> None:
    """60 resources, 7 days of calibrated p: what is opened is false, and there must be about as much as stated."""
    parameters = IncidentParameters(buckets=1, false_incidents_per_day=false_per_day)
    fleet = cloud(services=("upf", "smf", "amf"), regions=("north", "south"), each=10, parameters=parameters)
    generator = np.random.default_rng(20261121)
    job, days, opened = Run(parameters), 7, 0
    for window in range(days * 1440):
        p = generator.uniform(size=len(fleet.resources))
        findings = [
            fleet.resources[place].finding(float(p[place])) for place in np.flatnonzero(p < parameters.report_p)
        ]
        opened += sum(record.state == "open" for record in job(fleet.summaries(window, findings)))
    assert 0.4 * days * false_per_day <= opened <= 1.3 * days * false_per_day


def test_surprise_that_lasts_by_chance_is_no_confirmation() -> None:
    """Calibrated p of resources whose windows are alike (correlation 0.7): "2 of 3" must not break the stated rate."""
    fleet = cloud(services=("upf", "smf", "amf"), each=10, parameters=IncidentParameters(buckets=1))
    generator = np.random.default_rng(7)
    job, opened, z = Run(fleet.parameters), 0, generator.normal(size=len(fleet.resources))
    for window in range(3 * 1440):
        z = 0.7 * z + np.sqrt(1 - 0.7**2) * generator.normal(size=len(z))
        p = 2 * stats.norm.sf(np.abs(z))
        findings = [fleet.resources[place].finding(float(p[place])) for place in np.flatnonzero(p < 0.01)]
        opened += sum(record.state == "open" for record in job(fleet.summaries(window, findings)))
    assert opened <= 3 * fleet.parameters.false_incidents_per_day + 3


# ---- the same log, the same bytes ------------------------------------------------------------------------------------


def _random_log(seed: int, windows: int) -> list[bytes]:
    generator = random.Random(seed)
    events: dict[int, list[Finding]] = {}
    for _ in range(6):
        begin = generator.randrange(windows)
        members = (
            generator.sample(CLOUD.resources, 2)
            + group(generator.choice(["upf", "amf"]), "north")[: generator.randrange(8)]
        )
        for member in members:
            p = 10.0 ** generator.uniform(-20, -2)
            onset = begin + generator.randrange(3)
            for window in range(onset, onset + generator.randrange(1, 12)):
                found = events.setdefault(window, [])
                if all(item.resource != member.name for item in found):
                    found.append(member.finding(p, silent=generator.random() < 0.1))
    return CLOUD.log(windows, events)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 5), st.lists(st.integers(0, 240), max_size=8), st.randoms(use_true_random=False))
def test_cuts_order_of_buckets_and_repetitions_do_not_change_the_records(
    seed: int, cuts: list[int], shuffled: random.Random
) -> None:
    log = _random_log(seed, 60)
    expected = Run()
    expected(log)
    buckets = [log[bucket :: PARAMETERS.buckets] for bucket in range(PARAMETERS.buckets)]
    mixed: list[bytes] = []
    while any(buckets):
        own = shuffled.choice([bucket for bucket in buckets if bucket])
        mixed.append(own.pop(0))
        if shuffled.random() < 0.2:  # a retry writes again what was written before
            mixed += mixed[-shuffled.randrange(1, 6) :]
    again = Run()
    for piece in pieces(mixed, cuts):
        again(piece)
    assert list(map(orjson.dumps, again.incidents)) == list(map(orjson.dumps, expected.incidents))
    assert again.state == expected.state
    assert expected.incidents, "the log has faults"


def test_a_window_waits_for_the_last_bucket() -> None:
    job = Run()
    job(CLOUD.log(10, {}))
    late, *others = CLOUD.summaries(10, [VICTIM.finding(1e-9)])
    assert job(others) == ()
    assert job(CLOUD.summaries(11)) == ()
    assert job.outcomes[-1].waiting == 2
    assert [record.state for record in job([late])] == ["open"]
    assert (job.outcomes[-1].completed, job.outcomes[-1].waiting) == (2, 0)


def test_windows_judged_before_are_ignored() -> None:
    job = Run()
    log = CLOUD.log(20, at(10, 10, VICTIM.finding(1e-9)))
    first = job(log)
    assert first
    assert job(log) == ()
    assert job.outcomes[-1].ignored == len(log)


def test_windows_before_all_buckets_began_are_passed_over() -> None:
    job = Run()
    partial = [value for window in range(3) for value in CLOUD.summaries(window, [VICTIM.finding(1e-9)])[:2]]
    job(partial)
    assert (job.outcomes[-1].completed, job.outcomes[-1].waiting) == (0, 3)
    assert states(list(job(CLOUD.summaries(3, [VICTIM.finding(1e-9)])))) == ["open"]
    assert (job.outcomes[-1].completed, job.outcomes[-1].waiting) == (1, 0)


def test_another_number_of_buckets_is_refused() -> None:
    with pytest.raises(BucketCountError, match="new generation"):
        Run(replace(PARAMETERS, buckets=8))(CLOUD.summaries(0))


def test_time_without_windows_counts_as_quiet() -> None:
    log = CLOUD.log(12, at(10, 10, VICTIM.finding(1e-9))) + CLOUD.summaries(500)
    records = Run()(log)
    assert states(list(records)) == ["open", "close"]


# ---- bounded records -------------------------------------------------------------------------------------------------


def test_changing_contributors_do_not_make_a_record_per_window() -> None:
    events = {
        window: [VICTIM.finding(1e-9, top=[series(10.0 ** -(9 + window / 10), metric=f"metric.{window}")])]
        for window in range(10, 210)
    }
    records = run(CLOUD, 230, events)
    assert len(by_id(records)) == 1
    assert len(records) < 20


def test_an_outage_of_a_large_cloud_fits_into_a_message() -> None:
    large = cloud(services=("upf", "smf"), each=600)
    records = run(large, 12, at(10, 11, *(resource.finding(1e-9) for resource in large.resources)))
    assert (records[0].scope, len(by_id(records))) == ("cloud", 1)
    assert "2,400 of 2,400 resources" in records[0].explanation
    assert len(orjson.dumps(records[0])) < 100_000
