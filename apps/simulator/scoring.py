"""Comparing incidents with the faults that were injected: found, how soon, and what was raised without a cause.

An incident belongs to a fault when both touch the same resources at the same time. A fault counts until `GRACE_MS`
after its end, for its way back to normal is as surprising as its beginning; one that stays counts for `SETTLE_MS`,
the time in which the new state must have become the new normal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from apps.simulator.faults import Fault
from topics.records import Incident, Severity

GRACE_MS: Final = 15 * 60_000
SETTLE_MS: Final = 6 * 3600_000
#: A window that begins just before the fault may hold its first points.
_EARLY_MS: Final = 5 * 60_000
#: What wakes somebody up.
_PAGING: Final[frozenset[Severity]] = frozenset({"major", "critical"})


@dataclass(frozen=True)
class Verdict:
    """One fault and what was said about it.

    Attributes:
        fault: The fault.
        incidents: Ids of the incidents that belong to it, the first one first.
        delay_ms: From the start of the fault to the end of the window in which the first incident opened; None: not
            found.
        paged: Whether one of the incidents is major or critical.
    """

    fault: Fault
    incidents: tuple[str, ...]
    delay_ms: int | None
    paged: bool

    @property
    def found(self) -> bool:
        """Return whether an incident belongs to the fault."""
        return bool(self.incidents)

    @property
    def good(self) -> bool:
        """Return whether the chain did right: faults found, ordinary work not paged."""
        return self.found if self.fault.must_find else not self.paged


@dataclass(frozen=True)
class Report:
    """All faults judged, and the incidents that belong to none; of equal verdicts the order is that of the faults."""

    verdicts: tuple[Verdict, ...]
    false: tuple[Incident, ...]

    @property
    def missed(self) -> tuple[Fault, ...]:
        """Return the faults that had to be found and were not."""
        return tuple(item.fault for item in self.verdicts if item.fault.must_find and not item.found)

    @property
    def wrongly_paged(self) -> tuple[Fault, ...]:
        """Return the ordinary work that somebody was woken up for."""
        return tuple(item.fault for item in self.verdicts if not item.good and not item.fault.must_find)

    @property
    def false_pages(self) -> tuple[Incident, ...]:
        """Return the incidents without a cause that would wake somebody up."""
        return tuple(item for item in self.false if item.severity in _PAGING)

    def passed(self, most_false: int) -> bool:
        """Return whether every fault was found and no more than `most_false` incidents have no cause."""
        return not self.missed and not self.wrongly_paged and len(self.false) <= most_false


def score(
    faults: Sequence[Fault], incidents: Iterable[Incident], until_ms: int | None = None, grace_ms: int = GRACE_MS
) -> Report:
    """Judge incidents against faults.

    Args:
        faults: The truth.
        incidents: Records of incidents, all revisions or the latest ones, in any order.
        until_ms: Event time up to which the incidents are known; faults that start later are left out. None: all.
        grace_ms: How long after its end a fault still explains incidents.
    """
    revisions = _revisions(incidents)
    judged = [fault for fault in faults if until_ms is None or fault.start_ms < until_ms]
    verdicts = tuple(_verdict(fault, revisions, grace_ms) for fault in judged)
    latest = [records[-1] for records in revisions]
    false = tuple(item for item in latest if not any(explains(fault, item, grace_ms) for fault in judged))
    return Report(verdicts, false)


def explains(fault: Fault, incident: Incident, grace_ms: int = GRACE_MS) -> bool:
    """Return whether the fault is a cause of the incident: they touch the same resources at the same time."""
    last_ms = incident.last_window_end_ms if incident.end_ms is None else incident.end_ms
    overlaps = incident.start_ms < _explained_until_ms(fault, grace_ms) and last_ms > fault.start_ms
    return overlaps and _same_place(fault, incident)


def _explained_until_ms(fault: Fault, grace_ms: int) -> int:
    return fault.start_ms + SETTLE_MS if fault.end_ms is None else fault.end_ms + grace_ms


def _same_place(fault: Fault, incident: Incident) -> bool:
    if set(fault.resources) & set(incident.resources):
        return True
    if len(fault.resources) == 1 or incident.scope == "resource":
        return False
    return incident.service in (None, fault.service) and incident.region in (None, fault.region)


def _verdict(fault: Fault, revisions: Sequence[Sequence[Incident]], grace_ms: int) -> Verdict:
    """Judge one fault. An incident that was open before the fault proves nothing unless it shows the fault itself."""
    explained = [records for records in revisions if explains(fault, records[-1], grace_ms)]
    noticed = [(at_ms, records[-1]) for records in explained if (at_ms := _noticed_ms(fault, records)) is not None]
    noticed.sort(key=lambda item: (item[0], item[1].id))
    return Verdict(
        fault=fault,
        incidents=tuple(incident.id for _, incident in noticed),
        delay_ms=noticed[0][0] - fault.start_ms if noticed else None,
        paged=any(incident.severity in _PAGING for _, incident in noticed),
    )


def _noticed_ms(fault: Fault, records: Sequence[Incident]) -> int | None:
    """Return the event time at which the incident spoke of the fault; None: it never did."""
    first, latest = records[0], records[-1]
    if latest.start_ms >= fault.start_ms - _EARLY_MS:
        opened_ms = first.last_window_end_ms if first.state == "open" else latest.start_ms
        return max(opened_ms, fault.start_ms)
    shown = [
        contributor.window_end_ms
        for incident in records
        for contributor in incident.contributors
        if contributor.resource in fault.resources
        and fault.start_ms < contributor.window_end_ms
        and (fault.end_ms is None or contributor.window_end_ms <= fault.end_ms + GRACE_MS)
    ]
    return min(shown, default=None)


def _revisions(incidents: Iterable[Incident]) -> list[list[Incident]]:
    """Return the records of each incident in order of revision, the incidents in order of start and id."""
    by_id: dict[str, list[Incident]] = {}
    for incident in incidents:
        by_id.setdefault(incident.id, []).append(incident)
    groups = [sorted(records, key=lambda item: item.revision) for records in by_id.values()]
    return sorted(groups, key=lambda records: (records[-1].start_ms, records[-1].id))
