"""Faults like a port flap, injected into real telemetry: one metric of a hundred on one resource jumps briefly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from apps.evaluate.recordings import Event, Flags, Fleet, Recording
from models.interface import Floats

METRICS: Final = 100
#: Height of the jump in deviations of the metric over the whole recording, its events included; length in windows.
HEIGHT: Final = 10.0
LENGTH: Final = 3
#: Windows at the start without injection.
_WARMUP: Final = 100
#: Time after an event that stays free of injections.
_MARGIN_S: Final = 30.0
_SEED: Final = 20_180_820


@dataclass(frozen=True)
class Flap:
    """A resource into which a jump was injected: its first window."""

    recording: Recording
    window: int


@dataclass(frozen=True)
class FlapOutcome:
    """How many jumps alarmed their resource; alarms per resource-hour where there was neither event nor jump."""

    injected: int
    alarmed: int
    false_per_hour: float


def inject(fleet: Fleet, flaps: int = 66, height: float = HEIGHT) -> list[Flap]:
    """Return copies of the fleet's routers with a hundred of their metrics each, in turn, one of which jumps once.

    It is none that only ever rises: a jump of a counter of all bytes since the start would be too easy to see.

    Args:
        fleet: The routers.
        flaps: Number of copies.
        height: Of the jump, in deviations.
    """
    return [
        _injected(fleet.routers[number % len(fleet.routers)], fleet.events, number, height) for number in range(flaps)
    ]


def _injected(router: Recording, events: Sequence[Event], number: int, height: float) -> Flap:
    rng = np.random.default_rng([_SEED, number])
    chosen = _chosen(router, rng)
    window = int(rng.choice(_quiet_places(~during_events(router, events))))
    values = router.values[:, chosen].copy()
    values[window : window + LENGTH, 0] += rng.choice([-1, 1]) * height * values[:, 0].std()
    names = tuple(router.series[place] for place in chosen.tolist())
    return Flap(Recording(router.resource, router.end_ms, values, names), window)


def _chosen(router: Recording, rng: Generator) -> NDArray[np.intp]:
    """Choose metrics, moving ones first; the first one moves up and down."""
    steps = np.diff(router.values, axis=0)
    both_ways = np.flatnonzero((steps > 0).any(axis=0) & (steps < 0).any(axis=0))
    first = rng.choice(both_ways)
    moving = np.ptp(router.values, axis=0) > 0
    order = rng.permutation(router.values.shape[1])
    others = np.concatenate([order[moving[order]], order[~moving[order]]])
    return np.concatenate([[first], others[others != first][: METRICS - 1]])


def _quiet_places(quiet: Flags) -> list[int]:
    """Return where a jump and a window on both sides lie in a quiet span."""
    return [place for place in range(_WARMUP, len(quiet) - LENGTH) if quiet[place - 1 : place + LENGTH + 1].all()]


def during_events(router: Recording, events: Sequence[Event]) -> Flags:
    """Tell which windows lie in an event or shortly after one."""
    time_s = router.end_ms / 1000
    spans = [(time_s >= event.start_s) & (time_s <= event.end_s + _MARGIN_S) for event in events]
    return np.asarray(np.any(spans, axis=0))


def judge_flaps(fleet: Fleet, flaps: Sequence[Flap], resource: Sequence[Floats], level: float) -> FlapOutcome:
    """Judge the resources' alarms; one counts from the jump's first window to the one after its last.

    Args:
        fleet: Where the flaps were injected.
        flaps: As `inject` returns them.
        resource: Score of each flap's windows, shape (n,).
        level: From which on a resource alarms.
    """
    alarmed, false, hours = 0, 0, 0.0
    for flap, score in zip(flaps, resource, strict=True):
        alarm = score >= level
        own = slice(flap.window, flap.window + LENGTH + 1)
        alarmed += bool(alarm[own].any())
        clean = ~during_events(flap.recording, fleet.events)
        clean[:_WARMUP] = False
        clean[own] = False
        false += int(alarm[clean].sum())
        hours += int(clean.sum()) * float(np.median(np.diff(flap.recording.end_ms))) / 3_600_000
    return FlapOutcome(len(flaps), alarmed, false / hours)
