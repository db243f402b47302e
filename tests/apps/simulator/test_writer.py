from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from apps.local.kafka import KafkaServer
from apps.local.processes import stop as stop_processes
from apps.settings import KafkaSettings, Settings
from apps.simulator.stream import Plan, Stream, simulate
from apps.simulator.writer import (
    History,
    Message,
    Observer,
    SimulationError,
    partition_of,
    raw_partitions,
    run,
    tick_interval_ms,
)
from apps.topics_admin import BrokerUnreachableError, ensure_topics
from pipelines.parameters import TimeRules
from tests.support import SERVER_START_S, STOP_S, free_port
from topics.registry import CONTROL, LOGS, METRICS, RAW_TOPICS
from topics.wire import ARRIVAL_HEADER, TICK_KEY

HOUR_MS = 3_600_000
START_MS = 489_840 * HOUR_MS
PLAN = Plan(START_MS, HOUR_MS, resources=15)
PARTITIONS = {topic.name: 1 if topic == CONTROL else 2 for topic in RAW_TOPICS}


def history(plan: Plan = PLAN, tick_ms: int = 10_000) -> History:
    return History(Stream(plan).until, PARTITIONS, plan.start_ms, tick_ms)


def by_partition(messages: list[Message]) -> dict[tuple[str, int], list[Message]]:
    found = defaultdict(list)
    for message in messages:
        found[message.topic, message.partition].append(message)
    return found


def test_arrival_never_decreases_within_a_partition() -> None:
    for messages in by_partition(list(history().until(START_MS + HOUR_MS))).values():
        times = [message.arrival_ms or 0 for message in messages]
        assert times == sorted(times)


def test_every_partition_of_every_raw_topic_has_ticks_at_every_interval() -> None:
    messages = by_partition(list(history().until(START_MS + HOUR_MS)))

    assert messages.keys() == {(topic, number) for topic, count in PARTITIONS.items() for number in range(count)}
    for found in messages.values():
        times = [message.arrival_ms for message in found if message.key == TICK_KEY]
        assert times == list(range(START_MS, START_MS + HOUR_MS, 10_000))


def test_a_tick_stands_before_the_records_that_arrive_after_it() -> None:
    last_tick: dict[tuple[str, int], int] = {}
    for message in history().until(START_MS + HOUR_MS):
        assert message.arrival_ms is not None
        if message.key == TICK_KEY:
            last_tick[message.topic, message.partition] = message.arrival_ms
        else:
            assert message.arrival_ms < last_tick[message.topic, message.partition] + 10_000


def test_records_between_ticks_are_those_of_the_stream() -> None:
    whole = history()
    written = [
        item for cut in (START_MS + 5_000, START_MS + HOUR_MS, START_MS + 2 * HOUR_MS) for item in whole.until(cut)
    ]
    records = [(item.topic, item.key, item.arrival_ms, item.value) for item in written if item.key != TICK_KEY]

    assert records == [(item.topic, item.key, item.arrival_ms, item.value) for item in simulate(PLAN)]
    assert sum(whole.counts.values()) == len(records)


def test_a_resource_stays_in_its_partition() -> None:
    places = defaultdict(set)
    for message in history().until(START_MS + HOUR_MS):
        if message.key != TICK_KEY:
            places[message.topic, message.key].add(message.partition)

    assert all(len(found) == 1 for found in places.values())


@pytest.mark.parametrize(("window_s", "expected_ms"), [(60, 10_000), (3600, 10_000), (30, 5_000), (5, 1_000)])
def test_ticks_come_several_times_per_window(window_s: int, expected_ms: int) -> None:
    assert tick_interval_ms(TimeRules(window_s=window_s)) == expected_ms


# ---- with a broker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings of a broker of its own, for a history needs empty topics; it has none at first."""
    folder = tmp_path_factory.mktemp("kafka")
    server = KafkaServer(folder / "data", folder / "kafka.log", free_port(), free_port())
    record = server.start()
    try:
        server.wait(record, SERVER_START_S)
        yield Settings(
            kafka=KafkaSettings(bootstrap_servers=server.bootstrap_servers), time=TimeRules(arrival="history")
        )
    finally:
        stop_processes([record], STOP_S)


def test_a_broker_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    nowhere = f"127.0.0.1:{free_port()}"

    with pytest.raises(BrokerUnreachableError, match=nowhere):
        raw_partitions(Settings(kafka=KafkaSettings(bootstrap_servers=nowhere)), PLAN)


@pytest.mark.stack
def test_history_then_live(broker: Settings) -> None:
    """A tour of a whole run; its parts need one another's log."""
    address = broker.kafka.bootstrap_servers
    now_ms = time.time_ns() // 1_000_000
    past_ms = 10 * 60_000
    plan = Plan((now_ms - past_ms) // 1000 * 1000, past_ms, 10_000, resources=15, interval_s=1, rules=broker.time)

    with pytest.raises(SimulationError, match="kappa topics create"):
        raw_partitions(broker, plan)
    ensure_topics(broker)
    with pytest.raises(SimulationError, match='arrival = "history"'):
        raw_partitions(broker.model_copy(update={"time": TimeRules()}), plan)

    handovers: list[int] = []
    partitions = raw_partitions(broker, plan)
    counts = run(plan, partitions, address, Observer(handover=handovers.append), threading.Event())
    log = {
        place: read(address, *place)
        for topic, count in partitions.items()
        for place in [(topic, n) for n in range(count)]
    }

    for messages in log.values():
        arrivals = [arrival_of(message) for message in messages]
        assert arrivals == sorted(arrivals)
        headed = [message.headers() is not None for message in messages]
        assert headed == sorted(headed, reverse=True)
        ticks = [arrival_of(message) for message in messages if message.key() == TICK_KEY]
        assert ticks[-1] == handovers[0]
        assert max(after - before for before, after in pairwise(ticks)) <= tick_interval_ms(plan.rules)

    records = [message for messages in log.values() for message in messages if message.key() != TICK_KEY]
    simulated = [(item.topic, item.key, item.value) for item in simulate(plan)]
    assert sum(counts.values()) == len(records)
    assert not {(m.topic(), m.key(), m.value()) for m in records} - set(simulated)
    assert [m for m in records if m.headers() is None and m.topic() == METRICS.name]

    with pytest.raises(SimulationError, match="already hold records"):
        raw_partitions(broker, plan)


@pytest.mark.stack
def test_partitions_are_those_of_the_client_s_default(broker: Settings) -> None:
    ensure_topics(broker)
    producer = Producer({"bootstrap.servers": broker.kafka.bootstrap_servers})
    placed: dict[bytes, int] = {}
    for number in range(50):
        producer.produce(
            LOGS.name, b"{}", f"vm-{number}".encode(), on_delivery=lambda _, m: placed.update({m.key(): m.partition()})
        )
    producer.flush()

    assert placed == {key: partition_of(key, broker.kafka.raw_partitions) for key in placed}
    assert len(placed) == 50


def read(address: str, topic: str, partition: int) -> list[Any]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "test", "enable.auto.commit": False})
    place = TopicPartition(topic, partition, 0)
    end = consumer.get_watermark_offsets(place)[1]
    consumer.assign([place])
    messages: list[Any] = []
    while len(messages) < end:
        messages += consumer.consume(10_000, 1.0)
    consumer.close()
    return messages


def arrival_of(message: Any) -> int:
    headers = dict(message.headers() or [])
    return int(headers[ARRIVAL_HEADER]) if headers else int(message.timestamp()[1])
