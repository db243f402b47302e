"""What goes wrong, when, where, and what it does to signals and logs: the ground truth.

A fault is a pure function of time: `multiplier`, `spread`, `reporting` and the log rates tell what it does at any
moment. The schedule is a pure function of seed, topology and span.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

import numpy as np
import orjson

from apps.simulator import signals, topology
from apps.simulator.randomness import Floats, Ints, key_of
from apps.simulator.signals import Role
from apps.simulator.topology import Resource, Topology

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

FaultKind = Literal[
    "spike",
    "level_shift",
    "slow_leak",
    "variance_change",
    "dropout",
    "log_burst",
    "new_template",
    "service_outage",
    "new_vm",
    "planned_restart",
]
KINDS: Final[tuple[FaultKind, ...]] = get_args(FaultKind)

#: An operator wants to hear of all others; these two are ordinary work and must not page anybody.
EXPECTED_KINDS: Final[frozenset[FaultKind]] = frozenset({"new_vm", "planned_restart"})


@dataclass(frozen=True)
class Fault:
    """One fault and its truth. Times are event time; `end_ms` is None where the new state stays."""

    id: str
    kind: FaultKind
    resources: tuple[str, ...]
    service: str
    region: str
    start_ms: int
    end_ms: int | None
    must_find: bool
    description: str
    #: Names of the metrics it changes; empty where it changes logs or silences the resource.
    metrics: tuple[str, ...]

    def active(self, times_ms: Ints) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Return where the fault is on, same shape as `times_ms`."""
        started = times_ms >= self.start_ms
        return started if self.end_ms is None else started & (times_ms < self.end_ms)


# ---- what a fault does -----------------------------------------------------------------------------------------------

#: Factor on the level of a signal while the fault is on, by the role of the signal.
_FACTORS: Final[dict[FaultKind, dict[Role, float]]] = {
    "spike": {"cpu": 2.5, "latency": 7.0, "requests": 5.0, "errors": 30.0},
    "level_shift": {"memory": 1.8, "sessions": 1.9, "traffic": 2.2},
    "slow_leak": {"memory": 2.6},
    "variance_change": {},
    "service_outage": {
        "cpu": 0.3,
        "latency": 10.0,
        "requests": 0.1,
        "success": 0.1,
        "sessions": 0.2,
        "traffic": 0.05,
        "errors": 40.0,
    },
}
#: Factor on the noise of a signal while the fault is on.
_SPREADS: Final[dict[FaultKind, dict[Role, float]]] = {"variance_change": {"latency": 8.0, "cpu": 8.0}}

#: Events per minute that a fault adds to a resource's log.
BURST_PER_MINUTE: Final = 45.0
NEW_TEMPLATE_PER_MINUTE: Final = 12.0
OUTAGE_ERRORS_PER_MINUTE: Final = 20.0


def multiplier(faults: Iterable[Fault], role: Role, times_ms: Ints) -> Floats:
    """Return the factor that the faults put on the level of signals with this role, same shape as `times_ms`."""
    factor = np.ones(times_ms.shape)
    for fault in faults:
        full = _FACTORS.get(fault.kind, {}).get(role, 1.0)
        if full != 1.0:
            factor *= np.where(fault.active(times_ms), 1.0 + (full - 1.0) * _progress(fault, times_ms), 1.0)
    return factor


def spread(faults: Iterable[Fault], role: Role, times_ms: Ints) -> Floats:
    """Return the factor that the faults put on the noise of signals with this role, same shape as `times_ms`."""
    factor = np.ones(times_ms.shape)
    for fault in faults:
        full = _SPREADS.get(fault.kind, {}).get(role, 1.0)
        factor *= np.where(fault.active(times_ms), full, 1.0)
    return factor


def reporting(faults: Iterable[Fault], times_ms: Ints) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Return when a resource reports at all: not in a dropout or restart, and not before it exists."""
    reports = np.ones(times_ms.shape, dtype=np.bool_)
    for fault in faults:
        if fault.kind in ("dropout", "planned_restart"):
            reports &= ~fault.active(times_ms)
        elif fault.kind == "new_vm":
            reports &= fault.active(times_ms)
    return reports


def births_ms(faults: Iterable[Fault]) -> tuple[int, ...]:
    """Return when counters start from zero: at the end of a restart, and when a resource first appears."""
    restarts = (fault.end_ms for fault in faults if fault.kind == "planned_restart")
    newcomers = (fault.start_ms for fault in faults if fault.kind == "new_vm")
    return tuple(sorted(time for time in (*restarts, *newcomers) if time is not None))


def _progress(fault: Fault, times_ms: Ints) -> Floats:
    """Return 1, or how far a leak has come."""
    if fault.kind != "slow_leak" or fault.end_ms is None:
        return np.ones(times_ms.shape)
    return (times_ms - fault.start_ms) / (fault.end_ms - fault.start_ms)


# ---- the schedule ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Span:
    """Where faults are placed: the history after its warm-up, then the live part."""

    start_ms: int
    live_ms: int
    end_ms: int


#: Quiet time at the start, for models to learn what is normal; of a short history only this share.
WARMUP_MS: Final = 6 * HOUR_MS
WARMUP_SHARE: Final = 0.4
#: Quiet time before the live part, so that it starts from a calm screen.
_CALM_MS: Final = 45 * MINUTE_MS
_HISTORY_GAP_MS: Final = 30 * MINUTE_MS
#: One round of all kinds per this span of a long history.
_ROUND_MS: Final = 36 * HOUR_MS
#: Live faults are planned this far ahead when the end is open.
LIVE_HORIZON_MS: Final = DAY_MS

#: Minutes that a fault takes in the schedule, in the order of a round: quick ones first, for something to see early.
_HISTORY: Final[dict[FaultKind, int]] = {
    "spike": 12,
    "new_template": 15,
    "dropout": 25,
    "service_outage": 20,
    "new_vm": 60,
    "log_burst": 12,
    "level_shift": 120,
    "planned_restart": 4,
    "variance_change": 90,
    "slow_leak": 180,
}
_LIVE: Final[dict[FaultKind, int]] = {"spike": 5, "log_burst": 5, "service_outage": 8, "new_template": 6, "dropout": 10}
_LIVE_FIRST_MS: Final = 150_000
_LIVE_GAP_MS: Final = 3 * MINUTE_MS
#: After the first round a live run is left alone for longer.
_LIVE_LONG_GAP_MS: Final = 25 * MINUTE_MS
#: What a live fault needs after its end to be found: lateness, windows, the jobs.
_LIVE_TAIL_MS: Final = 2 * MINUTE_MS

Slot = tuple[FaultKind, int, int]


def schedule(topology_: Topology, seed: int, span: Span) -> tuple[Fault, ...]:
    """Place faults over the span, each on resources of its own as long as there are enough.

    Args:
        topology_: The resources that exist from the start.
        seed: Chooses the resources and shifts the times.
        span: Start of the history, start of the live part, end; equal times mean an empty part.
    """
    places = _Places(topology_, seed)
    # In order of time, so that the length of the live part changes nothing before it.
    slots = [*_history_slots(seed, span), *_live_slots(span)]
    return tuple(_fault(number, slot, places) for number, slot in enumerate(slots, start=1))


def newcomers(faults: Sequence[Fault], topology_: Topology) -> tuple[Resource, ...]:
    """Return the resources that faults make appear."""
    known = {resource.name for resource in topology_.resources}
    found: dict[str, Resource] = {}
    for fault in faults:
        if fault.kind == "new_vm" and fault.resources[0] not in known:
            grown = topology_.with_newcomers(tuple(found.values()))
            found[fault.resources[0]] = grown.newcomer(fault.service, fault.region)
    return tuple(found.values())


def _history_slots(seed: int, span: Span) -> list[Slot]:
    length_ms = span.live_ms - span.start_ms
    first_ms = span.start_ms + min(WARMUP_MS, round(length_ms * WARMUP_SHARE))
    room_ms = span.live_ms - _CALM_MS - first_ms
    kinds = _fitting(list(_HISTORY) * max(1, room_ms // _ROUND_MS), room_ms)
    if not kinds:
        return []
    gap_ms = (room_ms - sum(_HISTORY[kind] for kind in kinds) * MINUTE_MS) // len(kinds)
    slots, next_ms = [], first_ms
    for number, kind in enumerate(kinds):
        shift_ms = key_of(seed, "shift", number) % max(1, gap_ms // 3)
        start_ms = (next_ms + shift_ms) // MINUTE_MS * MINUTE_MS
        slots.append((kind, start_ms, start_ms + _HISTORY[kind] * MINUTE_MS))
        next_ms += _HISTORY[kind] * MINUTE_MS + gap_ms
    return slots


def _fitting(kinds: list[FaultKind], room_ms: int) -> list[FaultKind]:
    """Return the first kinds that fit into the room, each followed by the shortest gap."""
    fitting: list[FaultKind] = []
    for kind in kinds:
        room_ms -= _HISTORY[kind] * MINUTE_MS + _HISTORY_GAP_MS
        if room_ms < 0:
            break
        fitting.append(kind)
    return fitting


def _live_slots(span: Span) -> list[Slot]:
    slots: list[Slot] = []
    start_ms = span.live_ms + _LIVE_FIRST_MS
    for number in range(10_000):
        kind = list(_LIVE)[number % len(_LIVE)]
        end_ms = start_ms + _LIVE[kind] * MINUTE_MS
        if end_ms + _LIVE_TAIL_MS > span.end_ms:
            break
        slots.append((kind, start_ms, end_ms))
        start_ms = end_ms + (_LIVE_GAP_MS if number + 1 < len(_LIVE) else _LIVE_LONG_GAP_MS)
    return slots


class _Places:
    """Deals out resources and groups so that every fault gets a place of its own, as long as there are enough."""

    def __init__(self, topology_: Topology, seed: int) -> None:
        self._topology = topology_
        self._order = sorted(topology_.resources, key=lambda item: key_of(seed, "place", item.name))
        self._used: dict[str, int] = {}
        self._busy_groups: dict[tuple[str, str], int] = {}
        self._newcomers: list[Resource] = []

    def for_kind(self, kind: FaultKind) -> tuple[Resource, ...]:
        """Return the resources that a fault of this kind befalls."""
        if kind == "service_outage":
            return self.take_group()
        return (self.newcomer() if kind == "new_vm" else self.take(_NEEDS.get(kind, frozenset())),)

    def take_group(self) -> tuple[Resource, ...]:
        """Return a least used service in a region, the larger ones first."""
        names = [item.group for item in self._order if item.service != topology.HOST]
        best = min(
            dict.fromkeys(names), key=lambda name: (self._busy_groups.get(name, 0), -len(self._topology.group(*name)))
        )
        members = self._topology.group(*best)
        self._count(best, members)
        return members

    def take(self, roles: frozenset[Role]) -> Resource:
        """Return a least used resource that has signals of all these roles, in a least used group."""
        candidates = [item for item in self._order if roles <= signals.roles(item.service)]
        best = min(candidates, key=lambda item: (self._used.get(item.name, 0), self._busy_groups.get(item.group, 0)))
        self._count(best.group, (best,))
        return best

    def newcomer(self) -> Resource:
        """Return a resource that does not exist yet, beside a least used virtual machine."""
        beside = self.take(frozenset({"cpu", "requests"}))
        grown = self._topology.with_newcomers(tuple(self._newcomers))
        self._newcomers.append(grown.newcomer(*beside.group))
        return self._newcomers[-1]

    def _count(self, group: tuple[str, str], members: Iterable[Resource]) -> None:
        self._busy_groups[group] = self._busy_groups.get(group, 0) + 1
        for member in members:
            self._used[member.name] = self._used.get(member.name, 0) + 1


#: Signals that a resource must have for a fault of the kind to show.
_NEEDS: Final[dict[FaultKind, frozenset[Role]]] = {
    "spike": frozenset({"cpu", "latency", "requests"}),
    "level_shift": frozenset({"memory", "sessions", "traffic"}),
    "slow_leak": frozenset({"memory"}),
    "variance_change": frozenset({"latency", "cpu"}),
}

_WORDS: Final[dict[FaultKind, str]] = {
    "spike": "requests, latency and CPU of {name} jump for {minutes} min",
    "level_shift": "memory, sessions and traffic of {name} move to a higher level and stay there",
    "slow_leak": "memory of {name} grows for {minutes} min, then falls back",
    "variance_change": "latency and CPU of {name} become erratic for {minutes} min, at the same level",
    "dropout": "{name} reports nothing for {minutes} min",
    "log_burst": "{name} repeats a known error {rate:.0f} times a minute for {minutes} min",
    "new_template": "{name} logs an error never seen before for {minutes} min",
    "service_outage": "all {service} in {region} fail for {minutes} min",
    "new_vm": "{name} appears and stays",
    "planned_restart": "{name} is restarted: {minutes} min of silence, counters from zero",
}


def _fault(number: int, slot: Slot, places: _Places) -> Fault:
    kind, start_ms, end_ms = slot
    members = places.for_kind(kind)
    first = members[0]
    words = _WORDS[kind].format(
        name=first.name,
        service=first.service,
        region=first.region,
        minutes=(end_ms - start_ms) // MINUTE_MS,
        rate=BURST_PER_MINUTE,
    )
    return Fault(
        id=f"f{number:03d}-{kind}",
        kind=kind,
        resources=tuple(member.name for member in members),
        service=first.service,
        region=first.region,
        start_ms=start_ms,
        end_ms=None if kind in ("level_shift", "new_vm") else end_ms,
        must_find=kind not in EXPECTED_KINDS,
        description=words,
        metrics=signals.metrics_with(first.service, {*_FACTORS.get(kind, {}), *_SPREADS.get(kind, {})}),
    )


# ---- the truth file --------------------------------------------------------------------------------------------------


def write_truth(path: Path, faults: Iterable[Fault]) -> None:
    """Write the faults as JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(orjson.dumps(fault) + b"\n" for fault in faults))


def read_truth(path: Path) -> tuple[Fault, ...]:
    """Read what `write_truth` wrote.

    Raises:
        ValueError: A line is no fault.
    """
    return tuple(_read_lines(path))


def _read_lines(path: Path) -> Iterator[Fault]:
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            fields = orjson.loads(line)
            yield Fault(**{**fields, "resources": tuple(fields["resources"]), "metrics": tuple(fields["metrics"])})
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            message = f"{path}, line {number}: not a fault as `kappa simulate --truth` writes them ({error})"
            raise ValueError(message) from error
