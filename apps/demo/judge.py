"""Whether the chain did what it must: every fault an incident, few incidents without a fault, and how soon."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import orjson
from scipy import stats

from apps.log_reader import LogReader
from apps.settings import Settings
from apps.simulator.faults import Fault
from apps.simulator.scoring import Report, score
from topics import registry
from topics.records import Contributor, Incident

_DAY_MS: Final = 86_400_000
#: The stated rate is an expectation; a run passes below this quantile of what chance alone makes of it.
_CHANCE: Final = 0.99


@dataclass(frozen=True)
class Latency:
    """Delay from the moment a window may close to its incident being found by a search, seconds."""

    incidents: int
    p50_s: float
    p95_s: float


@dataclass(frozen=True)
class Judgement:
    """What the demo ends with.

    Attributes:
        report: Faults and incidents compared.
        most_false: Bound on incidents without a fault.
        latency: Of what opened or changed live; None if nothing did.
        absent: Ids of incidents in the topic that a search in Elasticsearch does not find.
    """

    report: Report
    most_false: int
    latency: Latency | None
    absent: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether every must-find fault is an incident in Elasticsearch and the false ones stay within the bound."""
        return not self.report.missed and len(self.report.false) <= self.most_false and not self.absent


def false_incident_bound(per_day: float, span_ms: int) -> int:
    """Return how many false incidents a span may have when the stated rate is kept: the 99 % Poisson quantile."""
    return int(stats.poisson.ppf(_CHANCE, per_day * span_ms / _DAY_MS))


def judge(
    faults: Sequence[Fault],
    settings: Settings,
    span: tuple[int, int],
    indexed: Mapping[str, Incident],
    latency: Latency | None,
) -> Judgement:
    """Compare the incidents with the faults.

    The topic has every revision of an incident, hence when it opened; what counts is only what Elasticsearch has too.

    Args:
        faults: The truth.
        settings: Settings of the chain.
        span: Start and end of the simulation, event time in milliseconds.
        indexed: Latest incidents as found by a search, by id.
        latency: Measured while the demo ran.
    """
    revisions = incident_revisions(settings)
    counted = [incident for incident in revisions if incident.id in indexed]
    absent = dict.fromkeys(incident.id for incident in revisions if incident.id not in indexed)
    bound = false_incident_bound(settings.incidents.false_incidents_per_day, span[1] - span[0])
    return Judgement(score(faults, counted, until_ms=span[1]), bound, latency, tuple(absent))


def incident_revisions(settings: Settings) -> list[Incident]:
    """Return all records of the incidents topic, in order."""
    partition = (registry.INCIDENTS.full_name(settings.generation), 0)
    with LogReader(settings.kafka.bootstrap_servers) as reader:
        values = [record.value for record in reader.read({partition: reader.bounds(partition)[0]}) if record.value]
    return [_incident(value) for value in values]


def _incident(value: bytes) -> Incident:
    fields = orjson.loads(value)
    contributors = [Contributor(**contributor) for contributor in fields.pop("contributors")]
    return Incident(contributors=contributors, **fields)


def latency_of(
    records: Mapping[tuple[str, int], Incident],
    first_seen_ms: Mapping[tuple[str, int], int],
    settings: Settings,
    live_from_ms: int,
) -> Latency | None:
    """Return the latency of incidents whose last window lies in the live part.

    Args:
        records: Revisions of incidents by (id, revision).
        first_seen_ms: Wall clock when a search first found each.
        settings: Settings of the chain.
        live_from_ms: Event time from which the chain had caught up with the clock.
    """
    wait_ms = 1000 * (settings.time.lateness_s + settings.time.slack_s)
    delays = [
        (first_seen_ms[key] - incident.last_window_end_ms - wait_ms) / 1000
        for key, incident in records.items()
        if incident.last_window_end_ms > live_from_ms
    ]
    return _quantiles(delays)


def _quantiles(delays_s: Iterable[float]) -> Latency | None:
    delays = sorted(delays_s)
    if not delays:
        return None
    p50, p95 = np.quantile(delays, [0.5, 0.95])
    return Latency(len(delays), float(p50), float(p95))
