from __future__ import annotations

from typing import Any

import orjson

from apps.verdicts import verdict_on
from pipelines.statistics.controls import LIMIT_BYTES
from tests.topics.examples import START_MS, WINDOW_MS, contributor, incident
from topics.documents import INCIDENTS
from topics.records import OperatorVerdict, Subject


def document(**changes: Any) -> dict[str, Any]:
    row = orjson.loads(orjson.dumps(incident(2, **changes)))
    return INCIDENTS.source(row)


def test_a_verdict_names_the_series_of_the_incident_and_the_same_metrics_of_its_other_resources() -> None:
    found = document(contributors=[contributor(), contributor(metric="net.errors"), contributor()])
    assert verdict_on(found, "expected", "release 7") == OperatorVerdict(
        "expected",
        "i-1",
        [
            Subject("vm-0001", "system.cpu.utilization"),
            Subject("vm-0001", "net.errors"),
            Subject("vm-0002", "system.cpu.utilization"),
            Subject("vm-0002", "net.errors"),
        ],
        START_MS,
        None,
        "release 7",
    )


def test_a_silent_incident_is_about_whole_resources() -> None:
    found = document(contributors=[], resources=["vm-0001"], end_ms=START_MS + WINDOW_MS)
    verdict = verdict_on(found, "wrong", None)
    assert verdict.subjects == [Subject("vm-0001")]
    assert verdict.end_ms == START_MS + WINDOW_MS


def test_a_verdict_on_a_large_outage_fits_into_a_control_record() -> None:
    found = document(
        resources=[f"{'x' * 200}-{number:04d}" for number in range(500)],
        contributors=[contributor(metric=f"metric.{number}") for number in range(10)],
    )
    verdict = verdict_on(found, "expected", "n" * 1000)
    assert len(orjson.dumps(verdict)) <= LIMIT_BYTES
    assert verdict.subjects[0] == Subject("vm-0001", "metric.0")
    assert len(verdict.subjects) > 100
