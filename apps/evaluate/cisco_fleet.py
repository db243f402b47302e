"""The spatial rule of the Cisco data's authors, stated in `apps.evaluate.cisco`, and which router stands first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from apps.evaluate.cisco import Samples, counted, faults, mean, quiet_spans
from apps.evaluate.recordings import Event
from models.interface import Floats

SLOT_S: Final = 5.0


@dataclass(frozen=True)
class FaultOutcome:
    """One fault under the spatial rule.

    Attributes:
        delay_s: From its start to the slot that alarms; None when none does.
        seen_s: From its start to the sample with which the slot came to alarm; None likewise.
        false: False alarms after it.
    """

    delay_s: float | None
    seen_s: float | None
    false: int


@dataclass(frozen=True)
class Spatial:
    """All faults under the spatial rule."""

    faults: tuple[FaultOutcome, ...]

    @property
    def precision(self) -> float:
        """Mean over faults that are detected or followed by a false alarm; 0 if there is none."""
        shares = [_share(fault) for fault in self.faults if fault.delay_s is not None or fault.false]
        return float(np.mean(shares)) if shares else 0.0

    @property
    def recall(self) -> float:
        """Share of faults detected."""
        return float(np.mean([fault.delay_s is not None for fault in self.faults]))

    @property
    def delay_s(self) -> float:
        """Mean delay by the authors' rule; NaN without a detection."""
        return mean([fault.delay_s for fault in self.faults if fault.delay_s is not None])

    @property
    def seen_s(self) -> float:
        """Mean time from a fault's start to the deciding sample; NaN without a detection."""
        return mean([fault.seen_s for fault in self.faults if fault.seen_s is not None])


def _share(fault: FaultOutcome) -> float:
    return 0.0 if fault.delay_s is None else 1 / (1 + fault.false)


def spatial(routers: Mapping[str, Samples], events: Sequence[Event], together: int) -> Spatial:
    """Judge the fleet's alarms.

    Args:
        routers: Samples by name.
        events: The ground truth.
        together: K.
    """
    slots, states, seen_s = _slots([routers[name] for name in sorted(routers)])
    alarming = states.sum(axis=0) >= together
    outcomes = []
    for group, span in zip(faults(events), quiet_spans(events, float(slots[-1])), strict=True):
        start_s, end_s = min(event.start_s for event in group), max(event.end_s for event in group)
        during = alarming & (slots >= start_s) & (slots <= end_s)
        hit = int(np.argmax(during)) if during.any() else None
        after = np.flatnonzero((slots > span.start_s) & (slots <= span.end_s))[:-1]
        false = counted(slots[after[alarming[after]]])
        if hit is None:
            outcomes.append(FaultOutcome(None, None, false))
        else:
            deciding = float(np.sort(seen_s[states[:, hit], hit])[together - 1])
            outcomes.append(FaultOutcome(float(slots[hit]) - start_s, deciding - start_s, false))
    return Spatial(tuple(outcomes))


def _slots(routers: Sequence[Samples]) -> tuple[Floats, NDArray[np.bool_], Floats]:
    """Return the slots' beginnings, each router's state in them, and the times of the samples that say so."""
    first = max(float(samples.time_s[0]) for samples in routers)
    last = max(float(samples.time_s[-1]) for samples in routers)
    slots = SLOT_S * np.arange(np.floor(first / SLOT_S), np.floor(last / SLOT_S) + 1)
    states, times = np.zeros((len(routers), len(slots)), np.bool_), np.zeros((len(routers), len(slots)))
    for place, samples in enumerate(routers):
        latest = np.searchsorted(samples.time_s, slots + SLOT_S, side="left") - 1
        states[place] = samples.anomalous[latest]
        times[place] = samples.time_s[latest]
    return slots, states, times


def first_places(
    scores: Mapping[str, tuple[Floats, Floats]], events: Sequence[Event], until_s: Sequence[float | None]
) -> list[int | None]:
    """Return per fault the best place of its routers among all, by their highest score since its start; 1 is first.

    Args:
        scores: By router: times in epoch seconds and scores, both of shape (n,).
        events: The ground truth.
        until_s: Per fault, seconds from its start to the last sample looked at; None gives None.
    """
    places: list[int | None] = []
    for group, span_s in zip(faults(events), until_s, strict=True):
        if span_s is None:
            places.append(None)
            continue
        start_s = min(event.start_s for event in group)
        peaks = {name: _peak(times, values, start_s, span_s) for name, (times, values) in scores.items()}
        own = max(peaks[event.router] for event in group)
        places.append(1 + sum(peak > own for peak in peaks.values()))
    return places


def durations_s(events: Sequence[Event]) -> list[float]:
    """Return the length of each fault, from its first start to its last end."""
    return [max(event.end_s for event in group) - min(event.start_s for event in group) for group in faults(events)]


def _peak(time_s: Floats, score: Floats, start_s: float, span_s: float) -> float:
    during = (time_s >= start_s) & (time_s <= start_s + span_s)
    return float(score[during].max(initial=-np.inf))
