"""What becomes of documents, for every kind of answer; the other side is a real HTTP server on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from elasticsearch import Elasticsearch

from apps.elasticsearch import connect
from apps.settings import ElasticsearchSettings
from pipelines.indexer.bulk import BulkFailedError, BulkRules, Outcome, Result, send
from pipelines.indexer.documents import Document, Origin
from tests.support import free_port

Item = dict[str, Any]
#: Given the number of the request and a document's id: the answer to it. An int is the status of the whole request.
Answer = Callable[[int, str], Item | int]

RULES = BulkRules(documents=10, retries=3, first_pause_s=0.01, longest_pause_s=0.02)


class Server:
    """Answers `_bulk` as a function says; keeps what it was sent."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests: list[list[tuple[Item, Item]]] = []

    def reply(self, body: bytes) -> tuple[int, Item]:
        lines = [json.loads(line) for line in body.splitlines()]
        actions = [(head["index"], source) for head, source in zip(lines[::2], lines[1::2], strict=True)]
        self.requests.append(actions)
        answers = [self.answer(len(self.requests), head["_id"]) for head, _ in actions]
        if isinstance(answers[0], int):
            return answers[0], {"error": {"type": "whole_request", "reason": "of the whole request"}}
        items = [
            {"index": {"_index": head["_index"], "_id": head["_id"], **answer}}
            for (head, _), answer in zip(actions, answers, strict=True)
            if isinstance(answer, dict)
        ]
        return 200, {"took": 1, "errors": any(item["index"]["status"] >= 300 for item in items), "items": items}


@contextmanager
def client_of(answer: Answer) -> Iterator[tuple[Elasticsearch, Server]]:
    behaviour = Server(answer)

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            status, content = behaviour.reply(self.rfile.read(int(self.headers["Content-Length"])))
            payload = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("X-Elastic-Product", "Elasticsearch")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        do_POST = do_PUT  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Keep the test's output clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    client = connect(ElasticsearchSettings(url=f"http://127.0.0.1:{server.server_port}"))
    try:
        yield client, behaviour
    finally:
        client.close()
        server.shutdown()
        server.server_close()


def document(id: str, version: int = 1) -> Document:  # noqa: A002
    return Document("kappa-scores-g1-2025.11", id, version, {"value": id}, Origin("novelty.scores.g1", 0, 7, 0))


def outcomes(results: list[Result]) -> dict[str, Outcome]:
    return {result.document.id: result.outcome for result in results}


def refused(status: int, kind: str = "document_parsing_exception") -> Item:
    return {
        "status": status,
        "error": {"type": kind, "reason": "bad", "caused_by": {"type": "number_format", "reason": "no number"}},
    }


def test_a_document_is_sent_with_its_place_and_external_version() -> None:
    with client_of(lambda *_: {"status": 201}) as (client, server):
        assert outcomes(list(send(client, [document("a", version=3)], RULES))) == {"a": Outcome.INDEXED}
    assert server.requests == [
        [
            (
                {"_index": "kappa-scores-g1-2025.11", "_id": "a", "version": 3, "version_type": "external_gte"},
                {"value": "a"},
            )
        ]
    ]


def test_the_four_outcomes() -> None:
    def answer(request: int, id: str) -> Item:  # noqa: A002
        return {
            "new": {"status": 201},
            "again": {"status": 200},
            "older": refused(409, "version_conflict_engine_exception"),
            "busy": {"status": 429 if request == 1 else 201, "error": {"type": "rejected"}},
            "away": {"status": 503 if request < 3 else 201, "error": {"type": "unavailable"}},
            "poison": refused(400),
        }[id]

    with client_of(answer) as (client, server):
        names = ["new", "again", "older", "busy", "away", "poison"]
        results = list(send(client, [document(name) for name in names], RULES))
    assert outcomes(results) == {
        "new": Outcome.INDEXED,
        "again": Outcome.INDEXED,
        "older": Outcome.ALREADY_THERE,
        "busy": Outcome.INDEXED,
        "away": Outcome.INDEXED,
        "poison": Outcome.REJECTED,
    }
    poison = next(result for result in results if result.outcome is Outcome.REJECTED)
    assert poison.reason == "document_parsing_exception: bad; caused by number_format: no number"
    # only what was refused for being busy is sent again
    assert [[head["_id"] for head, _ in request] for request in server.requests] == [names, ["busy", "away"], ["away"]]


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_elasticsearch_is_asked_again_only_so_often(status: int) -> None:
    with client_of(lambda *_: refused(status, "busy")) as (client, server):
        with pytest.raises(BulkFailedError, match=f"answered {status} for kappa-scores-g1-2025.11/a: busy"):
            list(send(client, [document("a")], RULES))
        assert len(server.requests) == 1 + RULES.retries


@pytest.mark.parametrize("status", [401, 403, 404, 413, 500])
def test_any_other_refusal_fails_the_batch(status: int) -> None:
    with (
        client_of(lambda *_: refused(status, "other")) as (client, _),
        pytest.raises(BulkFailedError, match=f"answered {status}"),
    ):
        list(send(client, [document("a")], RULES))


@pytest.mark.parametrize("kind", ["index_closed_exception", "validation_exception", "invalid_index_name_exception"])
def test_a_400_that_is_not_the_documents_fault_fails_the_batch(kind: str) -> None:
    with client_of(lambda *_: refused(400, kind)) as (client, _), pytest.raises(BulkFailedError, match=kind):
        list(send(client, [document("a")], RULES))


@pytest.mark.parametrize("status", [400, 401, 403, 409, 413, 500])
def test_an_error_of_the_whole_request_rejects_no_document(status: int) -> None:
    with client_of(lambda *_: status) as (client, _), pytest.raises(BulkFailedError, match=f"answered {status}"):
        list(send(client, [document("a"), document("b")], RULES))


def test_a_whole_request_refused_for_being_busy_is_sent_again() -> None:
    with client_of(lambda request, _: 429 if request == 1 else {"status": 201}) as (client, server):
        assert outcomes(list(send(client, [document("a"), document("b")], RULES))) == {
            "a": Outcome.INDEXED,
            "b": Outcome.INDEXED,
        }
        assert len(server.requests) > 1


def test_no_answer_fails_the_batch() -> None:
    client = connect(ElasticsearchSettings(url=f"http://127.0.0.1:{free_port()}"))
    with pytest.raises(BulkFailedError, match="does not answer"):
        list(send(client, [document("a")], RULES))
    client.close()


def test_documents_go_in_requests_of_limited_size_and_each_once_per_request() -> None:
    sent = [document(str(number % 12), version=number) for number in range(20)]
    with client_of(lambda *_: {"status": 201}) as (client, server):
        results = list(send(client, sent, RULES))
    assert [len(request) for request in server.requests] == [10, 10]
    assert len(results) == 20
    with client_of(lambda *_: {"status": 201}) as (client, server):
        list(send(client, [document("a", version) for version in (1, 3, 2)], RULES))
    assert [[head["version"] for head, _ in request] for request in server.requests] == [[3]]


def test_large_documents_go_in_more_requests() -> None:
    rules = BulkRules(documents=10, request_bytes=20_000)
    large = [
        Document("kappa-scores-g1-2025.11", str(number), 1, {"value": "x" * 9_000}, Origin("t", 0, 0, 0))
        for number in range(6)
    ]
    with client_of(lambda *_: {"status": 201}) as (client, server):
        list(send(client, large, rules))
    assert [len(request) for request in server.requests] == [2, 2, 2]
