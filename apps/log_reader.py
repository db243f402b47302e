"""Reading single records out of the log, outside the jobs: the latest ones, and how far arrival has come."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final, Literal

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from tenacity import retry, retry_if_exception, stop_after_delay, wait_fixed

from topics.wire import ARRIVAL_HEADER, TICK_KEY

Partition = tuple[str, int]

_TIMEOUT_S: Final = 15.0
#: Short, because questions about offsets wait behind a fetch that waits for records.
_FETCH_WAIT_MS: Final = 50
_LONGEST_LOOK_BACK: Final = 1_000_000
_PASSING: Final = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
    }
)


@dataclass(frozen=True)
class LogRecord:
    """One record as it lies in the log; `timestamp_ms` is the Kafka timestamp."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]

    @property
    def is_tick(self) -> bool:
        """Whether this is a tick of the arrival clock."""
        return self.key == TICK_KEY

    def arrival_ms(self, arrival: Literal["broker", "history"]) -> int:
        """Return arrival by the rule of the chain: the header in history mode, else the Kafka timestamp."""
        header = dict(self.headers).get(ARRIVAL_HEADER) if arrival == "history" else None
        return self.timestamp_ms if header is None else int(header)


def _passing(failure: BaseException) -> bool:
    """Tell whether a failure passes by itself, as when a new topic has no leader yet."""
    return isinstance(failure, KafkaException) and failure.args[0].code() in _PASSING


class LogReader:
    """Reads stretches of partitions without belonging to a consumer group; a context manager."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "kappa-log-reader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "log_level": 0,
                "fetch.wait.max.ms": _FETCH_WAIT_MS,
            }
        )

    def __enter__(self) -> LogReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    @retry(retry=retry_if_exception(_passing), stop=stop_after_delay(_TIMEOUT_S), wait=wait_fixed(0.2), reraise=True)
    def bounds(self, partition: Partition) -> tuple[int, int]:
        """Return the first offset and the offset after the last one."""
        low, high = self._consumer.get_watermark_offsets(TopicPartition(*partition), timeout=_TIMEOUT_S)
        return low, high

    def offsets_at(self, partitions: Sequence[Partition], timestamp_ms: int) -> dict[Partition, int]:
        """Return the offset of the first record at or after a Kafka timestamp; the end where there is none."""
        asked = [TopicPartition(*partition, timestamp_ms) for partition in partitions]
        found = self._consumer.offsets_for_times(asked, timeout=_TIMEOUT_S)
        return {
            (item.topic, item.partition): item.offset
            if item.offset >= 0
            else self.bounds((item.topic, item.partition))[1]
            for item in found
        }

    def read(self, starts: Mapping[Partition, int]) -> Iterator[LogRecord]:
        """Yield records from the given offsets on, to the present ends."""
        still_open = set(starts)
        for partition, record in self._stream(starts) if starts else ():
            if record is not None:
                yield record
                continue
            still_open.discard(partition)
            if not still_open:
                return

    def follow(self, starts: Mapping[Partition, int]) -> Iterator[LogRecord]:
        """Yield records from the given offsets on, for ever."""
        return (record for _, record in self._stream(starts) if record is not None)

    def stretch(self, partition: Partition, start: int, stop: int) -> list[LogRecord]:
        """Return the records of one partition with offsets in [start, stop)."""
        records = takewhile(lambda record: record.offset < stop, self.read({partition: start}))
        return list(records) if start < stop else []

    def latest(self, partition: Partition, count: int, *, ticks: bool = False) -> list[LogRecord]:
        """Return the last records of a partition, oldest first; looks further back while there are too few."""
        low, stop = self.bounds(partition)
        back, found = count, list[LogRecord]()
        while len(found) < count and stop > low and back <= _LONGEST_LOOK_BACK:
            start = max(low, stop - back)
            found = [item for item in self.stretch(partition, start, stop) if ticks or not item.is_tick] + found
            stop, back = start, back * 8
        return found[-count:]

    def _stream(self, starts: Mapping[Partition, int]) -> Iterator[tuple[Partition, LogRecord | None]]:
        """Yield each record, and None for a partition whose end is reached."""
        self._consumer.assign([TopicPartition(*partition, offset) for partition, offset in starts.items()])
        while True:
            for message in self._consumer.consume(1000, timeout=0.2):
                error = message.error()
                partition = (message.topic() or "", message.partition() or 0)
                if error is None:
                    yield partition, _record(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    yield partition, None
                elif error.fatal():
                    raise RuntimeError(error.str())


def _record(message: Any) -> LogRecord:
    return LogRecord(
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        timestamp_ms=message.timestamp()[1],
        key=message.key(),
        value=message.value(),
        headers=tuple(message.headers() or ()),
    )


def last_arrivals(
    bootstrap_servers: str, partitions: Sequence[Partition], arrival: Literal["broker", "history"]
) -> dict[Partition, int]:
    """Return the arrival of the last record, ticks included, of every partition that is not empty."""
    with LogReader(bootstrap_servers) as reader:
        bounds = {partition: reader.bounds(partition) for partition in partitions}
        filled = {partition: high - 1 for partition, (low, high) in bounds.items() if high > low}
        newest = {(record.topic, record.partition): record for record in reader.read(filled)}
        # Where the last offset holds no record (a transaction ended there), look further back.
        for partition in filled.keys() - newest.keys():
            newest.update((partition, record) for record in reader.latest(partition, 1, ticks=True))
    return {partition: newest[partition].arrival_ms(arrival) for partition in partitions if partition in newest}


def now_ms() -> int:
    """Return the present time; for operators' commands only, never for what reaches a job."""
    return time.time_ns() // 1_000_000
