"""What operators say: which incident it is about, what is told, and what a muted incident takes and lets through."""

from __future__ import annotations

import random
from dataclasses import replace

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pipelines.incidents.cloud import BEGIN_MS, WINDOW_MS, Run, at, by_id, cloud, pieces, run, series
from topics.records import Finding, Incident, OperatorVerdict, Opinion, Subject

CLOUD = cloud()
NAMES = {resource.name: resource for resource in CLOUD.resources}
VICTIM, OTHER = NAMES["upf-north-03"], NAMES["upf-north-04"]
GROUP = [resource for resource in CLOUD.resources if (resource.service, resource.region) == ("smf", "south")]
METRIC = "system.cpu.utilization"
FAULT = at(10, 40, VICTIM.finding(1e-9))
ID = run(CLOUD, 12, FAULT)[0].id


def said(opinion: Opinion, incident: str | None = ID, **rest: object) -> OperatorVerdict:
    return OperatorVerdict(opinion, incident, **rest)  # type: ignore[arg-type]


def merged(*events: dict[int, list[Finding]]) -> dict[int, list[Finding]]:
    windows = sorted({window for event in events for window in event})
    return {window: [finding for event in events for finding in event.get(window, [])] for window in windows}


def window_of(record: Incident) -> int:
    return (record.last_window_end_ms - BEGIN_MS) // WINDOW_MS - 1


def told(records: list[Incident]) -> list[tuple[int, str, str | None]]:
    return [(window_of(record), record.state, record.verdict) for record in records]


def test_a_confirmed_incident_says_so_at_once_and_goes_on() -> None:
    records = run(CLOUD, 60, FAULT, {20: [said("confirmed", note="fibre cut")]})
    (heard,) = [record for record in records if window_of(record) == 20]
    assert (heard.state, heard.verdict, heard.note) == ("update", "confirmed", "fibre cut")
    assert heard.explanation.endswith(". An operator: confirmed (fibre cut).")
    assert (records[-1].state, records[-1].verdict) == ("close", "confirmed")
    assert [record.revision for record in records] == list(range(1, len(records) + 1))


@pytest.mark.parametrize("opinion", ["expected", "wrong"])
def test_an_incident_judged_expected_or_wrong_is_closed_and_stays_quiet(opinion: Opinion) -> None:
    records = run(CLOUD, 60, FAULT, {20: [said(opinion)]})
    before = [entry for entry in told(run(CLOUD, 60, FAULT)) if entry[0] < 20]
    assert told(records) == [*before, (20, "close", opinion)]
    assert records[-1].end_ms == BEGIN_MS + 21 * WINDOW_MS


def test_the_mute_ends_with_the_evidence() -> None:
    again = merged(FAULT, at(60, 62, VICTIM.finding(1e-9)))
    records = run(CLOUD, 80, again, {20: [said("wrong")]})
    assert len(by_id(records)) == 2
    assert [record.verdict for record in records[-2:]] == [None, None]


def test_another_series_in_the_lead_is_an_incident_of_its_own() -> None:
    disk = VICTIM.finding(1e-9, top=[series(1e-9, metric="system.disk.io"), series(1e-6)])
    records = run(CLOUD, 60, FAULT | at(30, 30, disk), {20: [said("expected")]})
    second = list(by_id(records).values())[1]
    assert window_of(second[0]) == 30
    assert second[0].contributors[0].metric == "system.disk.io"


def test_the_same_series_beside_weaker_ones_is_the_same_evidence() -> None:
    wider = VICTIM.finding(1e-12, top=[series(1e-12), series(1e-6, metric="system.disk.io")])
    assert len(by_id(run(CLOUD, 60, merged(FAULT, at(41, 45, wider)), {20: [said("expected")]}))) == 1


def test_a_resource_beside_a_muted_one_is_an_incident_of_its_own() -> None:
    records = run(CLOUD, 60, merged(FAULT, at(30, 34, OTHER.finding(1e-9))), {20: [said("wrong")]})
    assert sorted(found[0].resources for found in by_id(records).values()) == [[VICTIM.name], [OTHER.name]]


def test_a_silence_after_a_muted_surprise_is_news_and_a_muted_silence_is_not() -> None:
    silent = VICTIM.finding(1e-12, silent=True)
    records = run(CLOUD, 80, merged(FAULT, at(41, 50, silent)), {20: [said("wrong")]})
    assert [window_of(found[0]) for found in by_id(records).values()] == [10, 41]
    silence = at(10, 50, silent)
    (first, *_) = run(CLOUD, 12, silence)
    assert len(by_id(run(CLOUD, 80, silence, {20: [said("expected", first.id)]}))) == 1


def test_a_muted_outage_neither_grows_nor_hides_the_next_one() -> None:
    outage = at(10, 40, *(resource.finding(1e-9) for resource in GROUP[:4]))
    (first, *_) = run(CLOUD, 12, outage)
    assert first.scope == "service"
    late = at(11, 40, *(resource.finding(1e-9) for resource in GROUP[4:]))
    records = run(CLOUD, 60, merged(outage, late), {11: [said("expected", first.id)]})
    muted, second = by_id(records).values()
    assert [record.state for record in muted] == ["open", "close"]
    assert (second[0].scope, sorted(second[0].resources)) == ("service", [resource.name for resource in GROUP[4:]])


def test_a_verdict_can_be_taken_back() -> None:
    records = run(CLOUD, 60, FAULT, {20: [said("wrong")], 25: [said("confirmed")]})
    heard = [entry for entry in told(records) if entry[0] >= 20]
    assert heard[:2] == [(20, "close", "wrong"), (25, "update", "confirmed")]
    assert heard[-1] == (45, "close", "confirmed")
    assert "wrong" not in records[-1].explanation


def test_of_two_verdicts_in_a_window_the_later_one_holds() -> None:
    records = run(CLOUD, 60, FAULT, {20: [said("wrong"), said("confirmed")]})
    assert [entry for entry in told(records) if entry[0] == 20] == [(20, "update", "confirmed")]


def test_a_closed_incident_is_told_again_with_the_verdict() -> None:
    records = run(CLOUD, 80, FAULT, {60: [said("expected", note="a test")], 70: [said("confirmed")]})
    *_, closed, first, second = records
    assert closed.verdict is None
    assert first == replace(
        closed,
        revision=closed.revision + 1,
        verdict="expected",
        note="a test",
        explanation=f"{closed.explanation} An operator: expected (a test).",
    )
    assert (second.revision, second.verdict, second.note) == (closed.revision + 2, "confirmed", None)
    assert second.explanation == f"{closed.explanation} An operator: confirmed."


def test_a_verdict_in_the_window_in_which_the_incident_ends() -> None:
    records = run(CLOUD, 60, FAULT, {45: [said("wrong")]})
    assert told(records)[-1] == (45, "close", "wrong")
    assert [entry[1] for entry in told(records)].count("close") == 1


def span(first: int, last: int) -> dict[str, int]:
    return {"start_ms": BEGIN_MS + first * WINDOW_MS, "end_ms": BEGIN_MS + (last + 1) * WINDOW_MS}


@pytest.mark.parametrize(
    ("verdict", "found"),
    [
        (said("wrong", None, subjects=[Subject(VICTIM.name)]), True),
        (said("wrong", None, subjects=[Subject(VICTIM.name, METRIC)], **span(15, 16)), True),
        (said("wrong", "0123", subjects=[Subject(VICTIM.name)], **span(5, 10)), True),
        (said("wrong", None, subjects=[Subject(VICTIM.name, "system.disk.io")]), False),
        (said("wrong", None, subjects=[Subject(OTHER.name)]), False),
        (said("wrong", None, subjects=[Subject(VICTIM.name)], **span(2, 8)), False),
        (said("wrong", "0123"), False),
    ],
)
def test_a_verdict_without_a_known_id_goes_by_resource_metric_and_span(verdict: OperatorVerdict, found: bool) -> None:
    for window in (20, 60):  # open, closed
        job = Run()
        records = job(CLOUD.log(80, FAULT, {window: [verdict]}))
        assert any(record.verdict == "wrong" for record in records) is found
        assert job.outcomes[0].unmatched == (not found)


def test_one_resource_does_not_speak_for_a_group() -> None:
    outage = at(10, 40, *(resource.finding(1e-9) for resource in GROUP[:4]))
    for number, found in ((1, False), (2, True)):
        verdict = said("wrong", None, subjects=[Subject(resource.name) for resource in GROUP[:number]])
        records = run(CLOUD, 60, outage, {20: [verdict]})
        assert any(record.verdict for record in records) is found


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32), cuts=st.lists(st.integers(1, 320), max_size=6))
def test_cuts_do_not_change_what_verdicts_do(seed: int, cuts: list[int]) -> None:
    draw = random.Random(seed)
    victims = [VICTIM, OTHER, *GROUP[:4]]
    events = merged(
        *(at(first, first + draw.randrange(12), victim.finding(1e-9)) for victim in victims
          for first in draw.sample(range(70), 2))
    )  # fmt: skip
    opened = [record for record in run(CLOUD, 80, events) if record.state == "open"]
    verdicts = {
        window: [said(draw.choice(["expected", "wrong", "confirmed"]), draw.choice(opened).id)]
        for window in draw.sample(range(80), 8)
    }
    log = CLOUD.log(80, events, verdicts)
    whole, again = Run(), Run()
    whole(log)
    for piece in pieces(log, cuts):
        again(piece)
    assert list(map(orjson.dumps, again.incidents)) == list(map(orjson.dumps, whole.incidents))
    assert again.state == whole.state
    assert any(record.verdict for record in whole.incidents)
    for records in by_id(whole.incidents).values():
        assert [record.revision for record in records] == list(range(1, len(records) + 1))
