"""The one writer of a history log: records in the order of arrival, and the ticks of their clock.

Arrival stands in a header and never goes back within a partition. Ticks go to every partition of every raw topic, so
that the clock advances everywhere although the records go to one topic only: one per window, at the moment at which a
window closes (window end + lateness + slack).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from confluent_kafka import Producer
from numpy.typing import NDArray

from apps.feed.errors import FeedError
from pipelines.parameters import TimeRules
from pipelines.transport import producer_config
from topics.wire import ARRIVAL_HEADER, TICK_KEY

Headers = list[tuple[str, str | bytes | None]]

_POLL_S: Final = 0.05
_FLUSH_S: Final = 1.0


class TickGrid:
    """When ticks are due: at the first arrival, then every `spacing_s`, on the moments at which windows close.

    Attributes:
        next_ms: Arrival of the next tick; None before the first one.
    """

    def __init__(self, rules: TimeRules, spacing_s: int | None = None) -> None:
        self._rules = rules
        self._spacing_ms = 1000 * (spacing_s or rules.window_s)
        self._offset_ms = 1000 * (rules.lateness_s + rules.slack_s) % self._spacing_ms
        self.next_ms: int | None = None

    def due(self, arrival_ms: int) -> Iterator[int]:
        """Yield the ticks due up to and including an arrival."""
        if self.next_ms is None:
            self.next_ms = arrival_ms - (arrival_ms - self._offset_ms) % self._spacing_ms + self._spacing_ms
            yield arrival_ms
        while self.next_ms <= arrival_ms:
            yield self.next_ms
            self.next_ms += self._spacing_ms

    def closing_ms(self, arrival_ms: int) -> int:
        """Return the arrival at which every window is closed that a point arriving at `arrival_ms` can be in."""
        rules = self._rules
        return arrival_ms + 1000 * (rules.window_s + rules.lateness_s + rules.slack_s + rules.future_s)

    def count(self, first_ms: int, last_ms: int) -> int:
        """Return about how many ticks one partition gets."""
        return (last_ms - first_ms) // self._spacing_ms + 3


class HistoryWriter:
    """Writes records with their arrival, and ticks; retries for ever, waits while the broker is behind.

    Attributes:
        records: Records handed to the producer.
        ticks: Ticks handed to the producer.
        last_ms: Newest arrival written.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        partitions: Mapping[str, int],
        grid: TickGrid,
        waiting: Callable[[str], None] = lambda reason: None,
    ) -> None:
        """Args: the broker, the partitions of the topics that get ticks, their grid; `waiting` hears of outages."""
        self._ticked = [(topic, number) for topic, count in partitions.items() for number in range(count)]
        self._grid = grid
        self._refused: str | None = None
        self.records = self.ticks = 0
        self.last_ms: int | None = None
        own = {"linger.ms": 50, "delivery.report.only.error": True, "log_level": 0}
        callbacks = {"on_delivery": self._not_delivered, "error_cb": lambda error: waiting(error.str())}
        self._producer = Producer(producer_config(bootstrap_servers) | own | callbacks)

    def write(
        self, topic: str, keys: Sequence[bytes | None], values: Sequence[bytes], arrival_ms: NDArray[np.int64]
    ) -> None:
        """Write records whose arrivals do not go back, and the ticks due between them.

        Raises:
            FeedError: The broker refuses a record.
            ValueError: An arrival goes back.
        """
        if not len(values):
            return
        self._check_order(arrival_ms)
        headers = _headers(arrival_ms)
        start = 0
        while start < len(values):
            self._tick(self._grid.due(int(arrival_ms[start])))
            stop = int(np.searchsorted(arrival_ms, self._grid.next_ms or 0))
            self._produce_all(topic, keys, values, headers, range(start, stop))
            start = stop
        self.last_ms = int(arrival_ms[-1])

    def advance(self, arrival_ms: int) -> None:
        """Move the clock on without a record: the ticks due, and one at exactly this arrival."""
        self._tick(self._grid.due(arrival_ms))
        self._tick(iter([arrival_ms]))
        self.last_ms = arrival_ms

    def close_windows(self) -> None:
        """Move the clock on until every window with a record is closed."""
        if self.last_ms is not None:
            self.advance(self._grid.closing_ms(self.last_ms))

    def flush(self, progress: Callable[[int], None] = lambda left: None) -> None:
        """Wait until everything is acknowledged; `progress` hears how many records are left."""
        while left := self._producer.flush(_FLUSH_S):
            progress(left)
            self._raise_refused()
        self._raise_refused()

    def _check_order(self, arrival_ms: NDArray[np.int64]) -> None:
        before = self.last_ms if self.last_ms is not None else int(arrival_ms[0])
        if int(arrival_ms[0]) < before or bool((np.diff(arrival_ms) < 0).any()):
            message = "arrivals must not go back"
            raise ValueError(message)

    def _tick(self, arrivals_ms: Iterator[int]) -> None:
        for arrival_ms in arrivals_ms:
            header: Headers = [(ARRIVAL_HEADER, b"%d" % arrival_ms)]
            for topic, partition in self._ticked:
                self._produce(topic, key=TICK_KEY, value=b"", headers=header, partition=partition)
            self.ticks += len(self._ticked)

    def _produce_all(
        self,
        topic: str,
        keys: Sequence[bytes | None],
        values: Sequence[bytes],
        headers: Sequence[Headers],
        part: range,
    ) -> None:
        produce, at, stop = self._producer.produce, part.start, part.stop
        while at < stop:
            try:
                for at in range(at, stop):  # noqa: B020 - goes on where the queue was full
                    produce(topic, values[at], keys[at], headers=headers[at])
                at = stop
            except BufferError:
                self._make_room()
        self.records += len(part)
        self._producer.poll(0)
        self._raise_refused()

    def _produce(self, topic: str, **record: Any) -> None:
        while True:
            try:
                return self._producer.produce(topic, **record)
            except BufferError:
                self._make_room()

    def _make_room(self) -> None:
        self._producer.poll(_POLL_S)
        self._raise_refused()

    def _not_delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self._refused = f"the broker refused a record for {message.topic()}: {error.str()}"

    def _raise_refused(self) -> None:
        if self._refused is not None:
            raise FeedError(self._refused)


def _headers(arrival_ms: NDArray[np.int64]) -> list[Headers]:
    """Return the headers of each record; records of the same arrival share them."""
    distinct, which = np.unique(arrival_ms, return_inverse=True)
    shared: list[Headers] = [[(ARRIVAL_HEADER, b"%d" % arrival)] for arrival in distinct.tolist()]
    return [shared[number] for number in which.tolist()]
