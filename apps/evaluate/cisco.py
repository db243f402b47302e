"""The rules of the Cisco telemetry data's authors.

- *Temporal K*: a router alarms at the K-th of K consecutive anomalous samples. Every router is asked for every event.
- *Spatial K*: the fleet alarms in a 5 s slot in which at least K routers are anomalous; a router's state in a slot is
  that of its last sample up to the slot's end.
- An event is *detected* by an alarm between its start and end; its delay is counted from the start (temporal: on the
  event's own router; spatial: to the beginning of the slot, as the authors do).
- After the last event of a fault, up to the start of the next fault, an alarm is *false*, at most one per 300 s.
- Temporal precision and recall are means over routers of detections / (detections + false alarms) and
  detections / events. Spatial ones are means over faults, an undetected fault with a false alarm counting 0.

Source: Putina et al. (2018), "Telemetry-based stream-learning of BGP anomalies", Big-DAMA, and the authors' evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from apps.evaluate.datasets import Event, Flags
from models.interface import Floats

SLOT_S: Final = 5.0
FALSE_SPAN_S: Final = 300.0


@dataclass(frozen=True)
class Samples:
    """One router's samples: epoch seconds, rising, shape (n,); and which are anomalous, shape (n,)."""

    time_s: Floats
    anomalous: Flags


@dataclass(frozen=True)
class RouterOutcome:
    """One router under the temporal rule.

    Attributes:
        detected: Events detected.
        events: Events in all.
        false: False alarms in the quiet spans.
        early: Alarms before the first event, at most one per 300 s; the rule does not count them.
        delays_s: Of the router's own events that are detected.
    """

    detected: int
    events: int
    false: int
    early: int
    delays_s: tuple[float, ...]

    @property
    def precision(self) -> float:
        """Detections / (detections + false alarms); 0 without a detection."""
        return self.detected / max(self.detected + self.false, 1)

    @property
    def recall(self) -> float:
        """Detections / events."""
        return self.detected / max(self.events, 1)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return 2 * self.detected / max(self.detected + self.false + self.events, 1)


@dataclass(frozen=True)
class Temporal:
    """All routers under the temporal rule."""

    routers: Mapping[str, RouterOutcome]

    @property
    def precision(self) -> float:
        """Mean over routers that detect anything, as the authors count; 0 if none does."""
        found = [outcome.precision for outcome in self.routers.values() if outcome.detected]
        return float(np.mean(found)) if found else 0.0

    @property
    def recall(self) -> float:
        """Mean over routers."""
        return float(np.mean([outcome.recall for outcome in self.routers.values()]))

    @property
    def f1(self) -> float:
        """Mean over routers."""
        return float(np.mean([outcome.f1 for outcome in self.routers.values()]))

    @property
    def early(self) -> int:
        """Alarms of all routers before the first event."""
        return sum(outcome.early for outcome in self.routers.values())

    @property
    def delay_s(self) -> float:
        """Mean delay on the events' own routers; NaN without a detection."""
        return _mean([delay for outcome in self.routers.values() for delay in outcome.delays_s])


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
        return _mean([fault.delay_s for fault in self.faults if fault.delay_s is not None])

    @property
    def seen_s(self) -> float:
        """Mean time from a fault's start to the deciding sample; NaN without a detection."""
        return _mean([fault.seen_s for fault in self.faults if fault.seen_s is not None])


def _share(fault: FaultOutcome) -> float:
    return 0.0 if fault.delay_s is None else 1 / (1 + fault.false)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


@dataclass(frozen=True)
class Span:
    """A span of time, in epoch seconds."""

    start_s: float
    end_s: float


def faults(events: Sequence[Event]) -> list[list[Event]]:
    """Return the events of each fault, in order."""
    return [[event for event in events if event.fault == number] for number in sorted({e.fault for e in events})]


def quiet_spans(events: Sequence[Event], end_s: float) -> list[Span]:
    """Return per fault the span from its end to the start of the next fault or the end of the recording."""
    groups = faults(events)
    starts = [min(event.start_s for event in group) for group in groups[1:]]
    ends = [max(event.end_s for event in group) for group in groups]
    # The authors leave out a second at both ends.
    return [Span(end + 1, start - 1) for end, start in zip(ends, [*starts, end_s + 1], strict=True)]


# ---- temporal --------------------------------------------------------------------------------------------------------


def temporal(routers: Mapping[str, Samples], events: Sequence[Event], consecutive: int) -> Temporal:
    """Judge each router's alarms.

    Args:
        routers: Samples by name.
        events: The ground truth.
        consecutive: K.
    """
    end_s = max(float(samples.time_s[-1]) for samples in routers.values())
    quiet = quiet_spans(events, end_s)
    return Temporal({name: _judge_router(name, routers[name], events, quiet, consecutive) for name in sorted(routers)})


def _judge_router(
    name: str, samples: Samples, events: Sequence[Event], quiet: Sequence[Span], consecutive: int
) -> RouterOutcome:
    detected, delays = 0, []
    for event in events:
        during = (samples.time_s >= event.start_s) & (samples.time_s <= event.end_s)
        alarms = _alarms(samples.time_s[during], samples.anomalous[during], consecutive)
        detected += len(alarms) > 0
        if len(alarms) and event.router == name:
            delays.append(float(alarms[0]) - event.start_s)
    false = 0
    for span in quiet:
        during = (samples.time_s > span.start_s) & (samples.time_s <= span.end_s)
        # The authors drop the last sample before the next event.
        times, anomalous = samples.time_s[during][:-1], samples.anomalous[during][:-1]
        false += _counted(_alarms(times, anomalous, consecutive))
    before = samples.time_s < min(event.start_s for event in events)
    early = _counted(_alarms(samples.time_s[before], samples.anomalous[before], consecutive))
    return RouterOutcome(detected, len(events), false, early, tuple(delays))


def _alarms(time_s: Floats, anomalous: Flags, consecutive: int) -> Floats:
    """Return the times of the K-th samples of runs of at least K anomalous ones."""
    edges = np.diff(np.concatenate([[0], anomalous.astype(np.int8), [0]]))
    starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    return np.asarray(time_s[starts[ends - starts >= consecutive] + consecutive - 1])


def _counted(alarms_s: Floats) -> int:
    """Count alarms, at most one per 300 s."""
    count, last_s = 0, -np.inf
    for time_s in alarms_s.tolist():
        if time_s > last_s + FALSE_SPAN_S:
            count, last_s = count + 1, time_s
    return count


# ---- spatial ---------------------------------------------------------------------------------------------------------


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
        false = _counted(slots[after[alarming[after]]])
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
