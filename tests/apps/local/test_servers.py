"""Real servers: they start, answer, keep data over a restart and stop."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from apps.local.elasticsearch import ElasticsearchServer, answers
from apps.local.kafka import KafkaServer
from apps.local.processes import stop
from tests.support import free_port

pytestmark = pytest.mark.stack


def test_broker_keeps_records_over_a_restart_on_another_port(tmp_path: Path) -> None:
    def server() -> KafkaServer:
        return KafkaServer(tmp_path / "data", tmp_path / "kafka.log", free_port(), free_port())

    first = server()
    record = first.start()
    try:
        first.wait(record, 120)
        admin = AdminClient({"bootstrap.servers": first.bootstrap_servers})
        admin.create_topics([NewTopic("kept", num_partitions=1)])["kept"].result(30)
        producer = Producer({"bootstrap.servers": first.bootstrap_servers})
        producer.produce("kept", b"value")
        assert producer.flush(30) == 0
    finally:
        stop([record], 30)
    assert record.process() is None

    second = server()
    record = second.start()
    try:
        second.wait(record, 120)
        consumer = Consumer(
            {"bootstrap.servers": second.bootstrap_servers, "group.id": "test", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["kept"])
        message = consumer.poll(30)
        consumer.close()
        assert message is not None
        assert message.value() == b"value"
    finally:
        stop([record], 30)


def test_elasticsearch_keeps_documents_and_does_not_run_as_root(tmp_path: Path) -> None:
    server = ElasticsearchServer(tmp_path / "data", tmp_path / "es.log", free_port(), free_port())
    try:
        record = server.start()
        try:
            server.wait(record, 120)
            process = record.process()
            assert process is not None
            assert all(child.uids().effective != 0 for child in (process, *process.children(recursive=True)))
            _request("PUT", f"{server.url}/kept/_doc/1?refresh=true", {"answer": 42})
        finally:
            stop([record], 30)
        assert not answers(server.url)
        record = server.start()
        try:
            server.wait(record, 120)
            assert _request("GET", f"{server.url}/kept/_doc/1")["_source"] == {"answer": 42}
        finally:
            stop([record], 30)
    finally:
        server.wipe()
    assert not server.home.exists()


def test_fixtures_give_servers_that_answer(kafka: str, elasticsearch: str) -> None:
    assert AdminClient({"bootstrap.servers": kafka}).list_topics(timeout=30).brokers
    assert answers(elasticsearch)


def _request(method: str, url: str, body: dict[str, int] | None = None) -> dict[str, object]:
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(url, data=data, method=method, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as reply:
        answer: dict[str, object] = json.load(reply)
    return answer
