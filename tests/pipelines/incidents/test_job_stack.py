"""The job as a process against a real broker: summaries in, incidents out, also when it is killed on the way."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence

import orjson
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from apps.runtime import EXIT_FENCED
from apps.settings import Settings
from apps.topics_admin import ensure_topics
from pipelines.transport import MarkerProducer
from tests.pipelines.incidents.cloud import Cloud, at, cloud, run
from tests.support import JobRunner
from topics import registry
from topics.records import Finding

pytestmark = pytest.mark.stack

WINDOWS = 60
WAIT_S = 240.0


@pytest.fixture
def fleet(settings: Settings) -> Cloud:
    return cloud(parameters=settings.incident_parameters())


def events(fleet: Cloud) -> dict[int, list[Finding]]:
    outage = [resource.finding(1e-9) for resource in fleet.resources[:8]]
    return at(10, 14, *outage) | at(25, 32, fleet.resources[40].finding(1e-30)) | at(45, 59, *outage[:1])


def send(settings: Settings, log: Sequence[bytes]) -> None:
    producer = Producer({"bootstrap.servers": settings.kafka.bootstrap_servers})
    for value in log:
        key = str(orjson.loads(value)["bucket"]).encode()
        producer.produce(registry.SUMMARIES.full_name(settings.generation), value, key=key)
    assert producer.flush(30) == 0


def written(settings: Settings) -> list[tuple[bytes, bytes]]:
    """Return (key, value) of all committed records of the incidents topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": settings.kafka.bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(registry.INCIDENTS.full_name(settings.generation), 0, OFFSET_BEGINNING)])
    found = []
    while (message := consumer.poll(10)) is not None and not message.error():
        found.append((message.key(), message.value()))
    consumer.close()
    return found


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.5)


def test_a_killed_job_leaves_the_incidents_of_an_undisturbed_run(
    settings: Settings, fleet: Cloud, run_job: JobRunner
) -> None:
    ensure_topics(settings)
    log = fleet.log(WINDOWS, events(fleet))
    expected = [(record.id.encode(), orjson.dumps(record)) for record in run(fleet, WINDOWS, events(fleet))]
    half = len(log) // 2

    send(settings, log[:half])
    first = run_job("incidents", settings)
    wait_until(lambda: len(written(settings)) > 0)
    send(settings, log[half : half + len(log) // 8])  # the kill falls into the batch that reads these
    first.kill()
    send(settings, log[half + len(log) // 8 :])
    second = run_job("incidents", settings)
    wait_until(lambda: dict(written(settings)) == dict(expected))
    assert set(written(settings)) == set(expected), "nothing is written that an undisturbed run does not write"
    assert second.stop() == 0


def test_a_driver_stops_when_a_newer_one_has_taken_over(settings: Settings, fleet: Cloud, run_job: JobRunner) -> None:
    ensure_topics(settings)
    log = fleet.log(WINDOWS, events(fleet))
    half = len(log) // 2
    send(settings, log[:half])
    older = run_job("incidents", settings)
    wait_until(lambda: len(written(settings)) > 0)
    MarkerProducer(settings.kafka.bootstrap_servers, f"{settings.generation}.incidents")
    send(settings, log[half:])
    assert older.process.wait(WAIT_S) == EXIT_FENCED
    assert "newer driver" in older.log_text
