"""Matching incidents with the ground truth of the Cisco telemetry data: pure functions.

An event is one line of the ground truth: a router, a start and an end. Lines of type `multiple` are parts of the fault
of the line before: one fault, several routers. An event is *found* by the first incident that names its router and
begins in [start - one window, end + grace]. An incident that finds no event is *false*.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from topics.records import Incident


@dataclass(frozen=True)
class Event:
    """One line of the ground truth; `routers` are all routers of its fault."""

    router: str
    start_ms: int
    end_ms: int
    routers: frozenset[str]


@dataclass(frozen=True)
class Verdict:
    """What became of one event.

    Attributes:
        event: The event.
        incident: The incident that found it, or None.
        named_first: Whether the incident names a router of the event's fault before all others.
    """

    event: Event
    incident: Incident | None
    named_first: bool


@dataclass(frozen=True)
class Judgement:
    """All events in the order of the ground truth, and the incidents that belong to none."""

    verdicts: tuple[Verdict, ...]
    false: tuple[Incident, ...]

    @property
    def found(self) -> int:
        """Number of events found."""
        return sum(verdict.incident is not None for verdict in self.verdicts)


def read_ground_truth(path: Path) -> list[Event]:
    """Return the events of a ground truth file (columns Node, Start, End in epoch seconds, Type single or multiple)."""
    with path.open() as lines:
        rows = list(csv.DictReader(lines))
    faults: list[list[dict[str, str]]] = []
    for row in rows:
        if row["Type"] == "multiple" and faults:
            faults[-1].append(row)
        else:
            faults.append([row])
    return [
        Event(row["Node"], 1000 * int(row["Start"]), 1000 * int(row["End"]), frozenset(item["Node"] for item in fault))
        for fault in faults
        for row in fault
    ]


def largest_grace_ms(events: Sequence[Event], window_ms: int) -> int:
    """Return the longest grace with which no incident of the next fault can pass for one of the fault before."""
    gaps = [
        later.start_ms - window_ms - earlier.end_ms
        for earlier in events
        for later in events
        if later.start_ms > earlier.end_ms
    ]
    return max(0, min(gaps, default=2**63) - 1)


def judge(events: Sequence[Event], incidents: Sequence[Incident], window_ms: int, grace_ms: int) -> Judgement:
    """Match incidents with events.

    Args:
        events: The ground truth.
        incidents: The latest record of each incident.
        window_ms: Length of a window: an incident begins with its first window, which may begin before the event.
        grace_ms: How long after an event's end an incident may begin.
    """
    ordered = sorted(incidents, key=lambda incident: (incident.start_ms, incident.id))
    finders = [[incident for incident in ordered if _finds(incident, event, window_ms, grace_ms)] for event in events]
    useful = {incident.id for found in finders for incident in found}
    verdicts = (_verdict(event, found[0] if found else None) for event, found in zip(events, finders, strict=True))
    return Judgement(tuple(verdicts), tuple(incident for incident in ordered if incident.id not in useful))


def _finds(incident: Incident, event: Event, window_ms: int, grace_ms: int) -> bool:
    begins_with_it = event.start_ms - window_ms <= incident.start_ms <= event.end_ms + grace_ms
    return begins_with_it and event.router in incident.resources


def _verdict(event: Event, incident: Incident | None) -> Verdict:
    return Verdict(event, incident, incident is not None and incident.resources[0] in event.routers)
