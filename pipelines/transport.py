"""Writing to Kafka: acknowledged records from tasks, transactions from the driver.

Transport is at least once; the effect is exactly once because contents are deterministic and readers drop equal
records. Producers retry for ever: a broker that is down stops the chain, it does not lose a record. What a driver
writes itself (markers, incidents) is transactional, so that an older driver of the same job is fenced by the newer one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from confluent_kafka import KafkaException

#: The client refuses nothing the broker would take; limits belong to the topics.
_CLIENT_MESSAGE_LIMIT_BYTES: Final = 64 * 1024 * 1024
_FOR_EVER_MS: Final = 2**31 - 1
_TRANSACTION_TRIES_TIMEOUT_S: Final = 30.0

Send = Callable[..., None]


class TransportError(RuntimeError):
    """A record could not be written although the broker answered."""


class FencedError(TransportError):
    """A newer driver of the same job and generation has taken over; this one must stop."""


@dataclass(frozen=True)
class Outgoing:
    """One record to write."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    headers: Mapping[str, bytes] | None = None

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of `confluent_kafka.Producer.produce`."""
        optional = {
            "key": self.key,
            "partition": self.partition,
            "headers": list(self.headers.items()) if self.headers else None,
        }
        given = {name: value for name, value in optional.items() if value is not None}
        return {"topic": self.topic, "value": self.value, **given}


def producer_config(bootstrap_servers: str) -> dict[str, Any]:
    """Return the settings every producer of the chain shares: idempotent, acknowledged by all, never giving up."""
    return {
        "bootstrap.servers": bootstrap_servers,
        "enable.idempotence": True,
        "acks": "all",
        "delivery.timeout.ms": _FOR_EVER_MS,
        "message.max.bytes": _CLIENT_MESSAGE_LIMIT_BYTES,
        "compression.type": "lz4",
        "linger.ms": 5,
        "queue.buffering.max.messages": 500_000,
        "queue.buffering.max.kbytes": 256 * 1024,
        "log_level": 3,
    }


class TaskProducer:
    """Producer for use inside a Spark task; leaving the context waits until every record is acknowledged.

    Raises:
        TransportError: A record was refused (for example larger than the topic's limit).
    """

    def __init__(self, bootstrap_servers: str, **config: Any) -> None:
        from confluent_kafka import Producer  # noqa: PLC0415 - its C types cannot be pickled with the task's closure

        self._producer = Producer(producer_config(bootstrap_servers) | config)
        self._failure: str | None = None

    def __enter__(self) -> TaskProducer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.flush()

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Mapping[str, bytes] | None = None,
    ) -> None:
        """Queue one record; waits while the queue is full."""
        arguments = Outgoing(topic, value, key, partition, headers).arguments()
        while True:
            try:
                self._producer.produce(**arguments, on_delivery=self._delivered)
            except BufferError:
                self._producer.poll(0.1)
            else:
                break
        self._producer.poll(0)
        self._raise_failure()

    def flush(self) -> None:
        """Wait until all queued records are acknowledged."""
        while self._producer.flush(1.0):
            self._raise_failure()
        self._raise_failure()

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None and self._failure is None:
            self._failure = f"record for {message.topic()} was refused: {error.str()}"

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise TransportError(self._failure)


class MarkerProducer:
    """Transactional producer of a driver. Creating one fences every older driver with the same transactional id.

    Example:
        with producer.transaction() as send:
            send("topic", b"value", key=b"key", partition=0)
    """

    def __init__(self, bootstrap_servers: str, transactional_id: str, **config: Any) -> None:
        from confluent_kafka import Producer  # noqa: PLC0415

        own = {"transactional.id": transactional_id, "delivery.timeout.ms": 60_000, "transaction.timeout.ms": 60_000}
        self._producer = Producer(producer_config(bootstrap_servers) | own | config)
        self._transactional_id = transactional_id
        self._until_done(lambda: self._producer.init_transactions(_TRANSACTION_TRIES_TIMEOUT_S))

    @contextmanager
    def transaction(self) -> Iterator[Send]:
        """Collect records and write them all or none; nothing is written when the body raises."""
        records: list[Outgoing] = []

        def send(topic: str, value: bytes | None, **rest: Any) -> None:
            records.append(Outgoing(topic, value, **rest))

        yield send
        if records:
            self._write(records)

    def _write(self, records: list[Outgoing]) -> None:
        while not self._attempt(records):
            self._until_done(lambda: self._producer.abort_transaction(_TRANSACTION_TRIES_TIMEOUT_S))

    def _attempt(self, records: list[Outgoing]) -> bool:
        """Run one transaction; return False when it must be aborted and tried again."""
        from confluent_kafka import KafkaException  # noqa: PLC0415

        try:
            self._producer.begin_transaction()
            for record in records:
                self._produce(record)
            self._until_done(lambda: self._producer.commit_transaction(_TRANSACTION_TRIES_TIMEOUT_S))
        except KafkaException as failure:
            if self._must_abort(failure):
                return False
            raise
        return True

    def _produce(self, record: Outgoing) -> None:
        while True:
            try:
                self._producer.produce(**record.arguments())
            except BufferError:
                self._producer.poll(0.1)
            else:
                return

    def _until_done(self, call: Callable[[], None]) -> None:
        """Repeat a transactional call while its failure is one that repeating mends."""
        from confluent_kafka import KafkaException  # noqa: PLC0415

        while True:
            try:
                return call()
            except KafkaException as failure:
                if self._must_abort(failure) or not failure.args[0].retriable():
                    raise

    def _must_abort(self, failure: KafkaException) -> bool:
        error = failure.args[0]
        if _is_fenced(error):
            message = (
                f"a newer driver holds the transactional id {self._transactional_id!r}: this driver stops. "
                "Run one driver per job and generation"
            )
            raise FencedError(message) from failure
        return bool(error.txn_requires_abort())


def _is_fenced(error: Any) -> bool:
    from confluent_kafka import KafkaError  # noqa: PLC0415

    return error.code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)
