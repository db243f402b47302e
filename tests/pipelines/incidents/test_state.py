"""The state's bytes."""

from __future__ import annotations

import orjson
import pytest

from pipelines.incidents.state import KEPT_CLOSED, LayoutError, fleet_from_bytes, fleet_to_bytes
from pipelines.incidents.windows import summary_from_json
from tests.pipelines.incidents.cloud import Run, at, cloud

CLOUD = cloud()


def state() -> bytes:
    """Return a state with open incidents, traces and a window that waits."""
    job = Run()
    job(CLOUD.log(12, at(10, 11, *(resource.finding(1e-9) for resource in CLOUD.resources[:3]))))
    job(CLOUD.summaries(12, [CLOUD.resources[0].finding(1e-9)])[1:])
    assert job.state is not None
    return job.state


def test_closed_incidents_are_kept_and_bounded() -> None:
    job, windows = Run(), 12
    for number in range(KEPT_CLOSED + 5):
        victim = CLOUD.resources[number % len(CLOUD.resources)].finding(1e-9)
        job(
            value
            for window in range(windows)
            for value in CLOUD.summaries(number * windows + window, [victim] if window == 0 else [])
        )
    assert job.state is not None
    fleet = fleet_from_bytes(job.state)
    ids = [record.id for record in job.incidents if record.state == "close"]
    assert list(fleet.closed) == ids[-KEPT_CLOSED:]
    assert fleet_to_bytes(fleet) == job.state


def test_a_state_is_read_as_it_was_written() -> None:
    written = state()
    fleet = fleet_from_bytes(written)
    assert fleet.episodes
    assert fleet.traces
    assert fleet.windows.waiting == 1
    assert fleet_to_bytes(fleet) == written


def test_a_newer_layout_is_refused() -> None:
    newer = orjson.dumps(orjson.loads(state()) | {"version": 99})
    with pytest.raises(LayoutError, match="layout 99"):
        fleet_from_bytes(newer)


def test_a_summary_is_read_as_it_was_written() -> None:
    for value in CLOUD.summaries(0, [CLOUD.resources[0].finding(1e-9)]):
        assert orjson.dumps(summary_from_json(value)) == value
