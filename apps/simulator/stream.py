"""The whole cloud as one stream of records in order of arrival.

Records are generated in blocks of event time and handed out by arrival time. Nothing depends on how time is cut: the
same plan gives the same records in the same order, whatever the blocks and whenever they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress, islice, repeat
from typing import Final, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from apps.simulator import disorder, faults, logs, signals, topology
from apps.simulator.disorder import ADDING, FATES, LATE, DisorderRates, Journey, Label
from apps.simulator.faults import Fault
from apps.simulator.randomness import Floats, Ints, key_of, uniform
from apps.simulator.signals import Influence, Signal, Steps
from apps.simulator.topology import Resource, Topology
from pipelines.parameters import TimeRules
from topics import records, registry

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Plan:
    """What to simulate. Equal plans give equal bytes.

    Attributes:
        start_ms: Event time of the first report, a multiple of `interval_s`.
        history_ms: How much of it lies before the live part.
        live_ms: Length of the live part; None: no end.
        seed: Chooses everything that is random.
        resources: How many resources there are from the start.
        interval_s: Time between two reports of a series.
        with_faults: Whether anything goes wrong.
        rules: What late and future mean to the reader.
        rates: Disorder in arrival.
    """

    start_ms: int
    history_ms: int
    live_ms: int | None = 0
    seed: int = 1
    resources: int = 45
    interval_s: int = 60
    with_faults: bool = True
    rules: TimeRules = field(default_factory=TimeRules)
    rates: DisorderRates = field(default_factory=DisorderRates)

    def __post_init__(self) -> None:
        """Refuse plans that make no sense."""
        if self.interval_s < 1 or self.history_ms < 0 or (self.live_ms or 0) < 0:
            message = "interval_s must be at least 1; history and live must not be negative"
            raise ValueError(message)
        if self.start_ms % (self.interval_s * 1000):
            message = f"start_ms ({self.start_ms}) must be a multiple of the interval of {self.interval_s} s"
            raise ValueError(message)

    @property
    def live_from_ms(self) -> int:
        """Return the event time at which the live part starts."""
        return self.start_ms + self.history_ms

    @property
    def end_ms(self) -> int | None:
        """Return the event time at which everything ends; None: never."""
        return None if self.live_ms is None else self.live_from_ms + self.live_ms

    def topology(self) -> Topology:
        """Return the resources that exist from the start."""
        return topology.build(self.resources)

    def faults(self) -> tuple[Fault, ...]:
        """Return what goes wrong."""
        if not self.with_faults:
            return ()
        end_ms = self.live_from_ms + faults.LIVE_HORIZON_MS if self.end_ms is None else self.end_ms
        return faults.schedule(self.topology(), self.seed, faults.Span(self.start_ms, self.live_from_ms, end_ms))


class Arrival(NamedTuple):
    """One record on its way into the log."""

    topic: str
    key: bytes
    arrival_ms: int
    value: bytes
    label: Label


#: About how many records are generated at once; any number gives the same records.
_BLOCK_RECORDS: Final = 100_000
_RECORDS_PER_REPORT: Final = 14


def simulate(plan: Plan, block_steps: int | None = None) -> Iterator[Arrival]:
    """Yield all records of a plan with an end, in order of arrival.

    Raises:
        ValueError: The plan has no end: use `Stream.until`.
    """
    if plan.end_ms is None:
        message = "a plan without end cannot be simulated as a whole; take parts of it with Stream.until(arrival_ms)"
        raise ValueError(message)
    return Stream(plan, block_steps).until(None)


class Stream:
    """The records of a plan, taken in order of arrival, piece by piece."""

    def __init__(self, plan: Plan, block_steps: int | None = None) -> None:
        self.plan = plan
        self.faults = plan.faults()
        base = plan.topology()
        self.topology = base.with_newcomers(faults.newcomers(self.faults, base))
        self._reporters = [
            _Reporter(plan, index, item, self.faults) for index, item in enumerate(self.topology.resources)
        ]
        self._block_steps = block_steps or max(1, _BLOCK_RECORDS // (_RECORDS_PER_REPORT * plan.resources))
        self._next_step = 0
        introductions = [reporter.inventory() for reporter in self._reporters]
        self._pending = _Batch.merged([_Batch.of(np.arange(len(introductions)), introductions)])
        self._position = 0

    def until(self, arrival_ms: int | None) -> Iterator[Arrival]:
        """Yield the records that arrive before `arrival_ms` and were not yielded before; None: all that are left."""
        while True:
            yield from self._take(arrival_ms)
            if self._exhausted() or (arrival_ms is not None and arrival_ms <= self._generated_ms):
                return
            self._generate()

    @property
    def _generated_ms(self) -> int:
        """Return the event time, hence arrival time, up to which everything is known."""
        return self.plan.start_ms + self._next_step * self.plan.interval_s * 1000

    def _exhausted(self) -> bool:
        return self.plan.end_ms is not None and self._generated_ms >= self.plan.end_ms

    def _take(self, arrival_ms: int | None) -> Iterator[Arrival]:
        known = np.iinfo(np.int64).max if self._exhausted() else self._generated_ms
        limit = known if arrival_ms is None else min(arrival_ms, known)
        first = self._position
        self._position = max(first, int(np.searchsorted(self._pending.arrival_ms, limit, side="left")))
        return islice(self._pending.rows, first, self._position)

    def _generate(self) -> None:
        steps = self._block_steps
        if self.plan.end_ms is not None:
            left_ms = self.plan.end_ms - self._generated_ms
            steps = min(steps, -(-left_ms // (self.plan.interval_s * 1000)))
        number = np.arange(self._next_step, self._next_step + steps, dtype=np.int64)
        rest = self._pending.after(self._position)
        parts = [part for reporter in self._reporters for part in reporter.report(number)]
        self._pending = _Batch.merged([rest, *parts])
        self._position = 0
        self._next_step += steps


# ---- batches ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Batch:
    """Records beside what they are sorted by; `order` breaks ties of arrival, whatever the batch."""

    arrival_ms: Ints
    order: Ints
    rows: list[Arrival]

    @staticmethod
    def of(order: Ints, rows: list[Arrival]) -> _Batch:
        return _Batch(np.array([row.arrival_ms for row in rows], dtype=np.int64), order, rows)

    @staticmethod
    def merged(parts: Sequence[_Batch]) -> _Batch:
        """Return the parts as one batch in order of arrival."""
        arrival_ms = np.concatenate([part.arrival_ms for part in parts])
        order = np.concatenate([part.order for part in parts])
        rows = list(chain.from_iterable(part.rows for part in parts))
        sequence = np.lexsort((order, arrival_ms))
        return _Batch(arrival_ms[sequence], order[sequence], list(map(rows.__getitem__, sequence.tolist())))

    def after(self, position: int) -> _Batch:
        return _Batch(self.arrival_ms[position:], self.order[position:], self.rows[position:])


#: Order within a millisecond: stream, then number in the stream, then original before addition.
_STREAM_SHIFT: Final = 41
_MOST_STREAMS_PER_RESOURCE: Final = 64


# ---- one resource ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Channel:
    """One series or log stream: its number, its random numbers, where its records go, what they are."""

    stream: int
    key: int
    topic: str
    resource: bytes
    label: Label


@dataclass(frozen=True)
class _Metric:
    """One series of a resource: what it measures, how it is written, what acts on it."""

    signal: Signal
    channel: _Channel
    wire: bytes

    @staticmethod
    def of(signal: Signal, channel: _Channel) -> _Metric:
        return _Metric(signal, channel, _wire_format(channel.resource.decode(), signal))


class _Reporter:
    """Reports of one resource. Its only state: what its counters have counted since their start."""

    def __init__(self, plan: Plan, index: int, resource: Resource, every_fault: Sequence[Fault]) -> None:
        self._plan = plan
        self._resource = resource
        self._faults = tuple(fault for fault in every_fault if resource.name in fault.resources)
        self._births_ms = faults.births_ms(self._faults)
        self._interval_ms = plan.interval_s * 1000
        self._key = key_of(plan.seed, "report", resource.name)
        self._phase_ms = round((0.1 + 0.8 * (self._key % 1000) / 1000.0) * self._interval_ms)
        first = index * _MOST_STREAMS_PER_RESOURCE
        self._metrics = [
            _Metric.of(signal, self._channel(first + number, signal.name, registry.METRICS.name, "point"))
            for number, signal in enumerate(signals.SIGNALS[resource.service], start=1)
        ]
        self._log = self._channel(first, "log", registry.LOGS.name, "log")
        self._counters = {
            metric.signal.name: _Counter.started_before(plan.start_ms, metric.signal, metric.channel.key)
            for metric in self._metrics
            if metric.signal.kind == "cumulative"
        }

    def report(self, number: Ints) -> list[_Batch]:
        """Return the records of the steps with these consecutive numbers."""
        return [*self._points(number), self._events(number)]

    def inventory(self) -> Arrival:
        """Return the record that introduces the resource, at its first moment."""
        births = [fault.start_ms for fault in self._faults if fault.kind == "new_vm"]
        value = orjson.dumps(self._resource.inventory())
        return Arrival(
            registry.CONTROL.name, self._log.resource, min(births, default=self._plan.start_ms), value, "inventory"
        )

    def _channel(self, stream: int, name: str, topic: str, label: Label) -> _Channel:
        key = key_of(self._plan.seed, self._resource.name, name)
        return _Channel(stream, key, topic, self._resource.name.encode(), label)

    def _steps(self, number: Ints, phase_ms: int) -> Steps:
        times_ms = self._plan.start_ms + number * self._interval_ms + phase_ms
        load = signals.resource_load(self._plan.seed, self._resource, times_ms)
        return Steps(number, times_ms, load, float(self._plan.interval_s))

    # -- metrics

    def _points(self, number: Ints) -> Iterator[_Batch]:
        steps = self._steps(number, self._phase_ms)
        times_ns = steps.times_ms * 1_000_000 + (uniform(self._key, number) * 5e7).astype(np.int64)
        reports = faults.reporting(self._faults, steps.times_ms)
        attempts: dict[str, Floats] = {}
        for metric in self._metrics:
            drawn = self._drawn(metric, steps, attempts)
            attempts[metric.signal.metric] = drawn
            kept, values = self._written(metric, steps, times_ns, drawn, attempts, reports)
            yield self._sent(metric.channel, number[kept], times_ns[kept], values)

    def _drawn(self, metric: _Metric, steps: Steps, attempts: dict[str, Floats]) -> Floats:
        role = metric.signal.role
        influence = Influence(
            faults.multiplier(self._faults, role, steps.times_ms), faults.spread(self._faults, role, steps.times_ms)
        )
        trials = attempts.get(metric.signal.trials) if metric.signal.trials else None
        return signals.amounts(metric.signal, metric.channel.key, steps, influence, trials)

    def _written(
        self, metric: _Metric, steps: Steps, times_ns: Ints, drawn: Floats, attempts: dict[str, Floats], kept: Flags
    ) -> tuple[Flags, list[bytes]]:
        """Return which steps are reported, and the reports."""
        columns: list[Floats | Ints] = [times_ns, drawn]
        if metric.signal.kind == "cumulative":
            total, start_ns = self._counters[metric.signal.name].count(drawn, steps.times_ms, self._births_ms)
            columns = [times_ns, total, start_ns]
        elif metric.signal.trials is not None:
            trials = attempts[metric.signal.trials]
            kept = kept & (trials > 0)
            columns = [times_ns, drawn / np.maximum(trials, 1.0), trials]
        rows = zip(*(column[kept].tolist() for column in columns), strict=True)
        return kept, list(map(metric.wire.__mod__, rows))

    # -- logs

    def _events(self, number: Ints) -> _Batch:
        found = logs.events(self._plan.seed, self._resource, self._faults, self._steps(number, 0))
        kept = faults.reporting(self._faults, found.times_ns // 1_000_000)
        values = [
            orjson.dumps(records.LogEvent(self._resource.name, time_ns, severity, body))
            for time_ns, severity, body in zip(found.times_ns.tolist(), found.severities, found.bodies, strict=True)
        ]
        return self._sent(self._log, found.ids[kept], found.times_ns[kept], list(compress(values, kept.tolist())))

    # -- the way into the log

    def _sent(self, channel: _Channel, number: Ints, times_ns: Ints, values: list[bytes]) -> _Batch:
        journey = disorder.journeys(channel.key + 7, number, self._plan.rates, self._plan.rules)
        times_ms = times_ns // 1_000_000
        order = (channel.stream << _STREAM_SHIFT) + (number << 1)
        labels = [channel.label] * len(values)
        for index in np.flatnonzero(journey.fate == LATE).tolist():
            labels[index] = "late"
        arrivals = (times_ms + journey.delay_ms).tolist()
        rows = list(map(Arrival, repeat(channel.topic), repeat(channel.resource), arrivals, values, labels))
        added = np.flatnonzero(journey.fate >= ADDING).tolist()
        rows += [_addition(row, journey, index, int(times_ns[index])) for index in added for row in (rows[index],)]
        return _Batch.of(np.concatenate([order, order[added] + 1]), rows)


def _addition(row: Arrival, journey: Journey, index: int, time_ns: int) -> Arrival:
    """Return the record that comes on top of a duplicated, future or malformed one."""
    fate = FATES[journey.fate[index]]
    arrival_ms = time_ns // 1_000_000 + int(journey.second_ms[index])
    if fate == "duplicate":
        return row._replace(arrival_ms=arrival_ms, label="duplicate")
    if fate == "future":
        value = disorder.from_the_future(row.value, time_ns, int(journey.shift_ns[index]))
        return row._replace(arrival_ms=arrival_ms, value=value, label="future")
    value = disorder.broken(row.value, float(journey.random[index]))
    return row._replace(arrival_ms=arrival_ms, value=value, label="malformed")


class _Counter:
    """A cumulative counter: grows, and starts from zero at every birth of its resource."""

    def __init__(self, total: float, start_ms: int) -> None:
        self._total = total
        self._start_ms = start_ms

    @staticmethod
    def started_before(start_ms: int, signal: Signal, key: int) -> _Counter:
        """Return a counter that has counted for some days when the simulation starts."""
        age_ms = key % (5 * faults.DAY_MS)
        return _Counter(float(round(signal.base * age_ms / 1000.0)), start_ms - age_ms)

    def count(self, added: Floats, times_ms: Ints, births_ms: Sequence[int]) -> tuple[Floats, Ints]:
        """Return total and start time in nanoseconds after each amount; remember the last."""
        total, start_ns = np.empty_like(added), np.empty_like(times_ms)
        cuts = [0, *np.searchsorted(times_ms, births_ms).tolist(), added.size]
        starts = [self._start_ms, *births_ms]
        for first, last, start_ms in zip(cuts[:-1], cuts[1:], starts, strict=True):
            if last > first and start_ms > self._start_ms:
                self._total, self._start_ms = 0.0, start_ms
            if last > first:
                total[first:last] = self._total + np.cumsum(added[first:last])
                start_ns[first:last] = self._start_ms * 1_000_000
                self._total = float(total[last - 1])
        return total, start_ns


def _wire_format(resource: str, signal: Signal) -> bytes:
    """Return a series' JSON as a format of time, value and, where the kind has them, start time or trials."""
    holes = records.MetricPoint(
        resource, signal.metric, 1 << 61, 1.5e15, signal.kind, signal.unit, signal.attributes,
        start_time_ns=1 << 60 if signal.kind == "cumulative" else None,
        total=2.5e15 if signal.kind == "ratio" else None,
    )  # fmt: skip
    text = orjson.dumps(holes).replace(b"%", b"%%")
    for hole, conversion in ((1 << 61, b"%d"), (1.5e15, b"%r"), (1 << 60, b"%d"), (2.5e15, b"%r")):
        text = text.replace(orjson.dumps(hole), conversion)
    return text
