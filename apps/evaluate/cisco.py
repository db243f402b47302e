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

from apps.evaluate.recordings import Event, Flags
from models.interface import Floats

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
        return mean([delay for outcome in self.routers.values() for delay in outcome.delays_s])


def mean(values: Sequence[float]) -> float:
    """Return the mean, NaN of nothing."""
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
        false += counted(_alarms(times, anomalous, consecutive))
    before = samples.time_s < min(event.start_s for event in events)
    early = counted(_alarms(samples.time_s[before], samples.anomalous[before], consecutive))
    return RouterOutcome(detected, len(events), false, early, tuple(delays))


def _alarms(time_s: Floats, anomalous: Flags, consecutive: int) -> Floats:
    """Return the times of the K-th samples of runs of at least K anomalous ones."""
    edges = np.diff(np.concatenate([[0], anomalous.astype(np.int8), [0]]))
    starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    return np.asarray(time_s[starts[ends - starts >= consecutive] + consecutive - 1])


def counted(alarms_s: Floats) -> int:
    """Count alarms, at most one per 300 s."""
    count, last_s = 0, -np.inf
    for time_s in alarms_s.tolist():
        if time_s > last_s + FALSE_SPAN_S:
            count, last_s = count + 1, time_s
    return count
