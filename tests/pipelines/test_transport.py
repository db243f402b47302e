"""Records reach the broker acknowledged, transactions are all or nothing, and an older driver is fenced."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from pipelines.transport import FencedError, MarkerProducer, TaskProducer, TransportError

pytestmark = pytest.mark.stack


@pytest.fixture
def topic(kafka: str) -> str:
    name = f"transport-{uuid.uuid4().hex}"
    new = NewTopic(name, num_partitions=2, replication_factor=1, config={"max.message.bytes": "10000"})
    admin = AdminClient({"bootstrap.servers": kafka})
    for created in admin.create_topics([new]).values():
        created.result()
    return name


@pytest.fixture
def committed(kafka: str, topic: str) -> Callable[[], list[tuple[int, bytes]]]:
    """Read (partition, value) of everything a reader of committed records sees."""

    def read() -> list[tuple[int, bytes]]:
        consumer = Consumer(
            {
                "bootstrap.servers": kafka,
                "group.id": uuid.uuid4().hex,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in (0, 1)])
        seen, ended = [], 0
        while ended < 2:
            message = consumer.poll(10)
            assert message is not None
            if message.error():
                ended += 1
            else:
                seen.append((message.partition(), message.value()))
        consumer.close()
        return sorted(seen)

    return read


def test_task_records_are_there_when_the_context_ends(
    kafka: str, topic: str, committed: Callable[[], list[tuple[int, bytes]]]
) -> None:
    with TaskProducer(kafka) as producer:
        for number in range(1000):
            producer.send(topic, b"%03d" % number, partition=number % 2)
    assert committed() == sorted((number % 2, b"%03d" % number) for number in range(1000))


def test_refused_record_raises(kafka: str, topic: str) -> None:
    incompressible = b"".join(uuid.uuid4().bytes for _ in range(2000))
    with pytest.raises(TransportError, match="refused"), TaskProducer(kafka) as producer:
        producer.send(topic, incompressible, partition=0)


def test_transaction_is_all_or_nothing(
    kafka: str, topic: str, committed: Callable[[], list[tuple[int, bytes]]]
) -> None:
    producer = MarkerProducer(kafka, f"{topic}.job")
    with producer.transaction() as send:
        send(topic, b"whole", partition=0)
        send(topic, b"whole", partition=1)
    with pytest.raises(ZeroDivisionError), producer.transaction() as send:
        send(topic, b"half", partition=0)
        raise ZeroDivisionError
    assert committed() == [(0, b"whole"), (1, b"whole")]


def test_older_driver_is_fenced_by_the_newer(
    kafka: str, topic: str, committed: Callable[[], list[tuple[int, bytes]]]
) -> None:
    older = MarkerProducer(kafka, f"{topic}.job")
    newer = MarkerProducer(kafka, f"{topic}.job")
    with newer.transaction() as send:
        send(topic, b"newer", partition=0)
    with pytest.raises(FencedError, match="newer driver"), older.transaction() as send:
        send(topic, b"older", partition=0)
    assert committed() == [(0, b"newer")]
