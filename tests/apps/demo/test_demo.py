"""The demo's parts that decide: what an incident in Elasticsearch says, its cause, latency, the bound, the screen."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from rich.console import Console

from apps.demo.judge import Judgement, Latency, false_incident_bound, latency_of
from apps.demo.view import Screen, Simulation, cause, incident_line, show_judgement
from apps.demo.watch import committed_offsets, incident_of
from apps.settings import Settings
from apps.simulator.faults import Fault
from apps.simulator.scoring import score
from pipelines.parameters import TimeRules
from topics import documents
from topics.records import Contributor, Incident

MINUTE_MS = 60_000
START_MS = 1_790_812_800_000

FAULT = Fault(
    id="f001-spike",
    kind="spike",
    resources=("vm-1",),
    service="upf",
    region="north",
    start_ms=START_MS,
    end_ms=START_MS + 5 * MINUTE_MS,
    must_find=True,
    description="requests of vm-1 jump for 5 min",
    metrics=("requests",),
)
INCIDENT = Incident(
    id="i1",
    state="open",
    revision=1,
    scope="resource",
    severity="critical",
    score=90.0,
    p=1e-9,
    start_ms=START_MS,
    end_ms=None,
    last_window_end_ms=START_MS + MINUTE_MS,
    windows=1,
    service="upf",
    region="north",
    resources=["vm-1"],
    contributors=[
        Contributor("vm-1", "requests", {"cell": "7"}, "1", START_MS + MINUTE_MS, 9.0, 2.0, 1.0, 3.0, "high", 90.0)
    ],
    explanation="requests of vm-1 are 9, expected 2",
)


def test_document_of_an_incident_reads_back_as_that_incident() -> None:
    document = documents.INCIDENTS.source(orjson.loads(orjson.dumps(INCIDENT)))
    assert incident_of(document) == INCIDENT


def test_cause_is_the_fault_on_the_same_resource_at_the_same_time() -> None:
    elsewhere = replace(FAULT, id="f002", resources=("vm-2",), service="smf")
    later = replace(FAULT, id="f003", start_ms=START_MS + 60 * MINUTE_MS, end_ms=START_MS + 65 * MINUTE_MS)
    assert cause(INCIDENT, [elsewhere, later, FAULT]) == FAULT
    assert cause(INCIDENT, [elsewhere, later]) is None


def test_latency_counts_from_the_moment_the_window_may_close_and_only_live() -> None:
    settings = Settings(time=TimeRules(window_s=60, lateness_s=10, future_s=5, slack_s=1))
    update = replace(INCIDENT, revision=2, last_window_end_ms=START_MS + 2 * MINUTE_MS)
    history = replace(INCIDENT, id="old", last_window_end_ms=START_MS - MINUTE_MS)
    records = {(item.id, item.revision): item for item in (INCIDENT, update, history)}
    seen_ms = {
        ("i1", 1): START_MS + MINUTE_MS + 11_000 + 2_000,
        ("i1", 2): START_MS + 2 * MINUTE_MS + 11_000 + 4_000,
        ("old", 1): START_MS + 60 * MINUTE_MS,
    }
    latency = latency_of(records, seen_ms, settings, live_from_ms=START_MS)
    assert latency == Latency(incidents=2, p50_s=3.0, p95_s=pytest.approx(3.9))
    assert latency_of(records, seen_ms, settings, live_from_ms=START_MS + 60 * MINUTE_MS) is None


@pytest.mark.parametrize(("per_day", "days", "bound"), [(1.0, 2.0, 6), (1.0, 1.0, 4), (0.5, 2.0, 4), (0.0, 5.0, 0)])
def test_bound_is_what_chance_makes_of_the_stated_rate(per_day: float, days: float, bound: int) -> None:
    assert false_incident_bound(per_day, round(days * 86_400_000)) == bound


def test_judgement_fails_for_a_missed_fault_too_many_false_ones_and_unsearchable_incidents() -> None:
    stranger = replace(INCIDENT, id="i2", resources=["vm-9"], service="smf")
    good = Judgement(score([FAULT], [INCIDENT]), most_false=0, latency=None, absent=())
    assert good.passed
    assert not replace(good, report=score([FAULT], [])).passed
    assert not replace(good, report=score([FAULT], [INCIDENT, stranger])).passed
    assert replace(good, report=score([FAULT], [INCIDENT, stranger]), most_false=1).passed
    assert not replace(good, absent=("i1",)).passed


def test_verdict_names_faults_incidents_and_bound() -> None:
    console = Console(file=io.StringIO(), width=160)
    judgement = Judgement(score([FAULT], [INCIDENT]), most_false=3, latency=Latency(2, 1.5, 2.5), absent=())
    show_judgement(console, judgement, first_incident_s=42.0)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "faults found: 1 of 1" in shown
    assert "incidents without a fault: 0 (bound: 3)" in shown
    assert "p50 1.5 s, p95 2.5 s" in shown
    assert "first incident on screen: 42 s" in shown
    assert shown.rstrip().endswith("passed")


def test_screen_shows_incidents_beside_their_faults_from_the_first_moment() -> None:
    screen = Screen([FAULT], Simulation(START_MS, START_MS), started_s=0.0)
    console = Console(file=io.StringIO(), width=160)
    console.print(screen.render(40))
    screen.incidents.append(INCIDENT)
    console.print(screen.render(40))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "starting" in shown
    assert "requests of vm-1 are 9, expected 2" in shown
    assert "spike: requests of vm-1 jump for 5 min" in shown
    assert "spike" in incident_line(INCIDENT, [FAULT], 1.0)
    assert "no injected fault" in incident_line(replace(INCIDENT, resources=["vm-9"], service="smf"), [FAULT], 1.0)


def test_committed_offsets_are_those_of_the_last_finished_batch(tmp_path: Path) -> None:
    assert committed_offsets(tmp_path) is None
    (tmp_path / "commits").mkdir()
    (tmp_path / "offsets").mkdir()
    for batch, end in ((9, 100), (10, 200), (11, 300)):
        source = f'{{"telemetry.logs":{{"0":{end},"1":5}}}}'
        (tmp_path / "offsets" / str(batch)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{source}\n{{"other":{{"0":7}}}}')
    for finished in ("9", "10", ".10.crc"):
        (tmp_path / "commits" / finished).write_text("v1\n{}")
    assert committed_offsets(tmp_path) == {("telemetry.logs", 0): 200, ("telemetry.logs", 1): 5, ("other", 0): 7}
