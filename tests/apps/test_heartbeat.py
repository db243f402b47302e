from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from apps.heartbeat import EXIT_REFUSED
from apps.local.kafka import KafkaServer
from apps.local.processes import stop
from apps.log_reader import LogReader
from apps.settings import KafkaSettings, Settings
from apps.topics_admin import TopicsAdmin, ensure_topics
from pipelines.parameters import TimeRules
from tests.support import SERVER_START_S, STOP_S, JobRunner, free_port
from topics.registry import METRICS, RAW_TOPICS

pytestmark = pytest.mark.stack

Ticks = Counter[tuple[str, int]]


def wait_until(holds: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "did not become true in time"
        time.sleep(0.2)


def is_ready(settings: Settings) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{settings.ports.heartbeat}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def ticks(settings: Settings) -> Ticks:
    counts = TopicsAdmin(settings.kafka.bootstrap_servers).partition_counts()
    starts = {(topic.name, number): 0 for topic in RAW_TOPICS for number in range(counts[topic.name])}
    with LogReader(settings.kafka.bootstrap_servers) as reader:
        found = list(reader.read(starts))
    assert all(record.is_tick and record.value == b"" and record.headers == () for record in found)
    return Counter((record.topic, record.partition) for record in found)


def more_everywhere(settings: Settings, before: Ticks, count: int = 2) -> bool:
    now = ticks(settings)
    return all(now[partition] >= before[partition] + count for partition in now)


def test_heartbeat_lives_through_kill_outage_and_growth(
    local_settings: Settings, tmp_path: Path, run_job: JobRunner
) -> None:
    server = KafkaServer(tmp_path / "data", tmp_path / "kafka.log", free_port(), free_port())
    broker = server.start()
    settings = local_settings.model_copy(update={"kafka": KafkaSettings(bootstrap_servers=server.bootstrap_servers)})
    try:
        server.wait(broker, SERVER_START_S)

        # It may start before the topics are there.
        first = run_job("heartbeat", settings)
        wait_until(lambda: "waiting for topics" in first.log_text)
        assert not is_ready(settings)
        ensure_topics(settings)
        wait_until(lambda: is_ready(settings))
        assert len(ticks(settings)) == 9

        # A killed heartbeat is replaced by another.
        first.kill()
        before = ticks(settings)
        second = run_job("heartbeat", settings)
        wait_until(lambda: more_everywhere(settings, before))

        # A broker that is away is waited for.
        stop([broker], STOP_S)
        wait_until(lambda: not is_ready(settings))
        broker = server.start()
        server.wait(broker, SERVER_START_S)
        wait_until(lambda: is_ready(settings))
        before = ticks(settings)
        wait_until(lambda: more_everywhere(settings, before))

        # New partitions get their ticks.
        admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
        admin.create_partitions([NewPartitions(METRICS.name, 3)])[METRICS.name].result()
        wait_until(lambda: ticks(settings)[METRICS.name, 2] >= 2)

        assert second.stop(20) == 0
        assert '"stopped"' in second.log_text
    finally:
        stop([broker], STOP_S)


def test_a_history_chain_is_refused(local_settings: Settings, run_job: JobRunner) -> None:
    history = local_settings.model_copy(update={"time": TimeRules(arrival="history")})
    job = run_job("heartbeat", history)
    assert job.process.wait(60) == EXIT_REFUSED
    assert "its own ticks" in job.log_text
