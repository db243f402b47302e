"""Writing the simulated cloud to Kafka: first its history at full speed, then live, in real time.

In the history every record carries its arrival in a header, and so do the ticks between the records: arrival never
decreases within a partition. At the handover the log has caught up with the wall clock: a last tick with the header
says so, and from there on the broker's append time is the arrival and the heartbeat ticks.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaException, Producer
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from apps.settings import Settings
from apps.simulator.disorder import Label
from apps.simulator.stream import Arrival, Plan, Stream
from apps.topics_admin import TopicsAdmin
from pipelines.parameters import TimeRules
from pipelines.transport import TransportError, producer_config
from topics.registry import RAW_TOPICS
from topics.wire import ARRIVAL_HEADER, TICK_KEY

#: The history has caught up when it is this close to the wall clock.
_CAUGHT_UP_MS: Final = 1_000
_ANSWER_TIMEOUT_S: Final = 5.0
_LIVE_PAUSE_S: Final = 0.1
_MOST_TICK_MS: Final = 10_000
_TICKS_PER_WINDOW: Final = 6
_OBSERVE_EVERY: Final = 20_000


Headers = list[tuple[str, str | bytes | None]] | None


class SimulationError(RuntimeError):
    """The simulation cannot be written; the message says what to do."""


class Message(NamedTuple):
    """One record for one partition; `arrival_ms` is None where the broker's append time is the arrival."""

    topic: str
    partition: int
    key: bytes
    value: bytes
    arrival_ms: int | None


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition that librdkafka's default partitioner would choose."""
    return zlib.crc32(key) % partitions


def tick_interval_ms(rules: TimeRules) -> int:
    """Return the time between two ticks of the history: several per window, so that watermarks advance smoothly."""
    return max(1_000, min(_MOST_TICK_MS, rules.window_s * 1_000 // _TICKS_PER_WINDOW))


class History:
    """Records and ticks of the past, in order of arrival.

    Args:
        arrivals: Gives the records that arrive before a time and were not given before.
        partitions: Partitions of every raw topic.
        start_ms: Time of the first tick.
        tick_ms: Time between ticks.
    """

    def __init__(
        self, arrivals: Callable[[int], Iterable[Arrival]], partitions: Mapping[str, int], start_ms: int, tick_ms: int
    ) -> None:
        self._arrivals = arrivals
        self._partitions = dict(partitions)
        self._next_tick_ms = start_ms
        self._tick_ms = tick_ms
        self.counts: Counter[Label] = Counter()

    def until(self, arrival_ms: int) -> Iterator[Message]:
        """Yield records and ticks that arrive before `arrival_ms` and were not yielded before."""
        for topic, key, at_ms, value, label in self._arrivals(arrival_ms):
            if at_ms >= self._next_tick_ms:
                yield from self._ticks_through(at_ms)
            self.counts[label] += 1
            yield Message(topic, partition_of(key, self._partitions[topic]), key, value, at_ms)
        yield from self._ticks_through(arrival_ms - 1)

    def last_tick(self, arrival_ms: int) -> Iterator[Message]:
        """Yield the ticks that say: all of the history before `arrival_ms` is written."""
        return ticks(self._partitions, arrival_ms)

    def _ticks_through(self, arrival_ms: int) -> Iterator[Message]:
        while self._next_tick_ms <= arrival_ms:
            yield from ticks(self._partitions, self._next_tick_ms)
            self._next_tick_ms += self._tick_ms


def ticks(partitions: Mapping[str, int], arrival_ms: int) -> Iterator[Message]:
    """Yield one tick for every partition of every topic."""
    for topic, count in partitions.items():
        for partition in range(count):
            yield Message(topic, partition, TICK_KEY, b"", arrival_ms)


# ---- to the broker ---------------------------------------------------------------------------------------------------


class LogWriter:
    """Sends messages in order and raises when the broker refuses one.

    Raises:
        TransportError: From every method, after a refusal.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        self._failure: str | None = None
        own = {"linger.ms": 50, "batch.size": 1_000_000, "delivery.report.only.error": True}
        self._producer = Producer(producer_config(bootstrap_servers) | own | {"on_delivery": self._on_delivery})

    def send(self, messages: Iterable[Message], observe: Callable[[int, int], None]) -> None:
        """Queue messages, waiting while the queue is full; tell `observe` (messages, arrival_ms) now and then."""
        sent, arrival_ms = 0, 0
        for message in messages:
            self._produce(message)
            sent += 1
            if sent == _OBSERVE_EVERY:
                arrival_ms = message.arrival_ms or arrival_ms
                observe(sent, arrival_ms)
                self._producer.poll(0)
                self._raise_failure()
                sent = 0
        self._producer.poll(0)
        self._raise_failure()
        observe(sent, arrival_ms)

    def flush(self) -> None:
        """Wait until everything is acknowledged."""
        while self._producer.flush(1.0):
            self._raise_failure()
        self._raise_failure()

    def _produce(self, message: Message) -> None:
        topic, partition, key, value, arrival_ms = message
        headers: Headers = None if arrival_ms is None else [(ARRIVAL_HEADER, b"%d" % arrival_ms)]
        while True:
            try:
                self._producer.produce(topic, value, key, partition, headers=headers)
            except BufferError:
                self._producer.poll(0.1)
            else:
                return

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is not None and self._failure is None:
            self._failure = f"a record for {message.topic()} was refused: {error.str()}"

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise TransportError(self._failure)


def raw_partitions(settings: Settings, plan: Plan) -> dict[str, int]:
    """Return the partitions of every raw topic, after checking that the plan can be written.

    Raises:
        SimulationError: A topic is missing, or the history has no place in the log.
        BrokerUnreachableError: No broker answers.
    """
    admin = TopicsAdmin(settings.kafka.bootstrap_servers, _ANSWER_TIMEOUT_S)
    counts = admin.partition_counts()
    names = [topic.name for topic in RAW_TOPICS]
    missing = [name for name in names if name not in counts]
    if missing:
        message = f"the broker has no topic {', '.join(missing)}: create them with `kappa topics create`"
        raise SimulationError(message)
    if plan.history_ms:
        _check_history(settings, admin, names)
    return {name: counts[name] for name in names}


def _check_history(settings: Settings, admin: TopicsAdmin, names: list[str]) -> None:
    if settings.time.arrival != "history":
        message = (
            "the history carries its arrival times in a header, which the jobs ignore: set [time] arrival = "
            '"history" (or KAPPA_TIME__ARRIVAL=history), or simulate with --history 0'
        )
        raise SimulationError(message)
    filled = _filled(admin, names)
    if filled:
        message = (
            f"{', '.join(filled)} already hold records, and arrival must not go back: write the history into an empty "
            "log (and start the heartbeat only after it), or simulate with --history 0"
        )
        raise SimulationError(message)


@retry(retry=retry_if_exception_type(KafkaException), stop=stop_after_delay(10), wait=wait_fixed(0.2), reraise=True)
def _filled(admin: TopicsAdmin, names: list[str]) -> list[str]:
    """Return the topics that hold records; topics created a moment ago may not have found their leader yet."""
    return [content.name for content in admin.contents(names) if content.messages]


@dataclass(frozen=True)
class Observer:
    """What the simulation tells while it runs.

    Attributes:
        sent: Messages since the last call, and the arrival time reached (0: unknown).
        handover: Arrival time at which the history ended; called once, when the live part begins.
    """

    sent: Callable[[int, int], None] = lambda _count, _arrival_ms: None
    handover: Callable[[int], None] = lambda _arrival_ms: None


def wall_clock_ms() -> int:
    """Return the time, in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def run(
    plan: Plan,
    partitions: Mapping[str, int],
    bootstrap_servers: str,
    observer: Observer,
    stop: threading.Event,
    clock_ms: Callable[[], int] = wall_clock_ms,
) -> Counter[Label]:
    """Write the plan to Kafka until it ends or `stop` is set; return how many records of each label were written.

    Args:
        plan: What to simulate.
        partitions: What `raw_partitions` returned.
        bootstrap_servers: Where the broker is.
        observer: Is told what happens.
        stop: Ends the simulation early.
        clock_ms: Wall clock.

    Raises:
        TransportError: The broker refuses a record.
    """
    stream = Stream(plan)
    writer = LogWriter(bootstrap_servers)
    counts: Counter[Label] = Counter()
    try:
        if plan.history_ms:
            counts += _write_history(stream, partitions, writer, observer, stop, clock_ms)
        if not stop.is_set():
            counts += _write_live(stream, partitions, writer, observer, stop, clock_ms)
    finally:
        writer.flush()
    return counts


def _write_history(
    stream: Stream,
    partitions: Mapping[str, int],
    writer: LogWriter,
    observer: Observer,
    stop: threading.Event,
    clock_ms: Callable[[], int],
) -> Counter[Label]:
    """Write the past until it has become the present, then hand over."""
    history = History(stream.until, partitions, stream.plan.start_ms, tick_interval_ms(stream.plan.rules))
    behind_ms = _CAUGHT_UP_MS
    while behind_ms >= _CAUGHT_UP_MS and not stop.is_set():
        target_ms = clock_ms()
        writer.send(_while_running(history.until(target_ms), stop), observer.sent)
        writer.flush()
        behind_ms = clock_ms() - target_ms
    if not stop.is_set():
        handover_ms = clock_ms()
        writer.send(history.until(handover_ms), observer.sent)
        writer.send(history.last_tick(handover_ms), observer.sent)
        writer.flush()
        observer.handover(handover_ms)
    return history.counts


def _write_live(
    stream: Stream,
    partitions: Mapping[str, int],
    writer: LogWriter,
    observer: Observer,
    stop: threading.Event,
    clock_ms: Callable[[], int],
) -> Counter[Label]:
    """Send every record when its time has come, without header."""
    counts: Counter[Label] = Counter()
    end_ms = stream.plan.end_ms
    while not stop.is_set():
        now_ms = clock_ms()
        due = list(stream.until(now_ms))
        counts.update(arrival.label for arrival in due)
        writer.send((_live(arrival, partitions) for arrival in due), partial(_at, observer, now_ms))
        if end_ms is not None and now_ms >= end_ms:
            break
        stop.wait(_LIVE_PAUSE_S)
    return counts


def _at(observer: Observer, arrival_ms: int, sent: int, _: int) -> None:
    """Tell the observer the time of live records, which carry none."""
    observer.sent(sent, arrival_ms)


def _live(arrival: Arrival, partitions: Mapping[str, int]) -> Message:
    partition = partition_of(arrival.key, partitions[arrival.topic])
    return Message(arrival.topic, partition, arrival.key, arrival.value, None)


def _while_running(messages: Iterable[Message], stop: threading.Event) -> Iterator[Message]:
    for message in messages:
        yield message
        if stop.is_set():
            return
