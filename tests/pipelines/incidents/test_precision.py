"""Incidents at a wanted precision instead of a stated number of false ones."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import orjson
import pytest
from scipy import stats

from pipelines.parameters import IncidentParameters
from tests.pipelines.incidents.cloud import BEGIN_MS, WINDOW_MS, Cloud, Resource, Run, cloud, pieces
from topics.records import Finding, Incident

FAULT_WINDOWS = 10
PARAMETERS = IncidentParameters(buckets=1, target_precision=0.9)
FLEET = cloud(services=("upf", "smf", "amf"), regions=("north", "south"), each=10, parameters=PARAMETERS)


def noisy_log(fleet: Cloud, windows: int, faults: dict[int, str], shift: float) -> list[bytes]:
    """Return summaries of calibrated p; a fault shifts one resource for ten windows."""
    draw = np.random.default_rng(20261121)
    log: list[bytes] = []
    for window in range(windows):
        z = draw.standard_normal(len(fleet.resources))
        for start, name in faults.items():
            if start <= window < start + FAULT_WINDOWS:
                z[[resource.name for resource in fleet.resources].index(name)] += shift
        p = 2 * stats.norm.sf(np.abs(z))
        findings: list[Finding] = [fleet.resources[at].finding(float(p[at])) for at in np.flatnonzero(p < 0.01)]
        log += fleet.summaries(window, findings)
    return log


@pytest.mark.parametrize("every", [60, 240])
def test_most_incidents_are_true_and_most_faults_are_found(every: int) -> None:
    draw, windows = random.Random(1), 4 * 1440
    faults = {start: draw.choice(FLEET.resources).name for start in range(90, windows - 20, every)}
    records = Run(PARAMETERS)(noisy_log(FLEET, windows, faults, shift=6.0))
    opened = [(record.resources, window_of(record)) for record in records if record.state == "open"]
    hits = [
        [start for start, name in faults.items() if name in names and start <= window < start + FAULT_WINDOWS]
        for names, window in opened
    ]
    assert hits.count([]) <= 0.2 * len(hits)
    assert len({start for starts in hits for start in starts}) >= 0.9 * len(faults)


def window_of(record: Incident) -> int:
    return (record.last_window_end_ms - BEGIN_MS) // WINDOW_MS - 1


def test_cuts_do_not_change_the_levels() -> None:
    faults = dict.fromkeys((20, 60, 61), "upf-north-03")
    log = noisy_log(FLEET, 120, faults, shift=6.0)
    whole, again = Run(PARAMETERS), Run(PARAMETERS)
    whole(log)
    for piece in pieces(log, [1, 7, 23, 24, 61, 90]):
        again(piece)
    assert list(map(orjson.dumps, again.incidents)) == list(map(orjson.dumps, whole.incidents))
    assert again.state == whole.state
    assert whole.incidents


def test_discoveries_raise_the_levels_and_a_fixed_rate_does_not_move() -> None:
    weak = {40: "upf-north-03"}
    strong = {36: "upf-north-01", 37: "smf-north-01", 38: "amf-north-01", 39: "smf-south-01"} | weak
    for parameters, helped in ((PARAMETERS, True), (replace(PARAMETERS, target_precision=None), False)):
        found = []
        for faults in (weak, strong):
            job = Run(parameters)
            job(FLEET.log(40, {start: [_named(name).finding(1e-12)] for start, name in faults.items() if start < 40}))
            records = job(FLEET.summaries(40, [_named("upf-north-03").finding(3e-5)]))
            found.append(any(record.resources == ["upf-north-03"] for record in records))
        assert found == [False, helped]


def _named(name: str) -> Resource:
    return next(resource for resource in FLEET.resources if resource.name == name)
