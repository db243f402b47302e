"""Documents to Elasticsearch, and what became of each.

| answer to a document | outcome |
| --- | --- |
| 2xx | indexed |
| 409: an equal or newer version is there | already there: done |
| 429, 503 | sent again with growing pauses; after the last attempt the batch fails |
| 400: the document itself is at fault | rejected: goes to `index.rejected` with the reason |
| anything else, no answer, an error that concerns the whole request | the batch fails, and Spark runs it again |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any, Final

from elastic_transport import TransportError
from elasticsearch import Elasticsearch
from elasticsearch.helpers import streaming_bulk

from pipelines.indexer.documents import Document, latest

_BUSY: Final = (429, 503)
_REFUSED: Final = 400
_CONFLICT: Final = 409
#: Answers with status 400 that say something about the index or cluster, not about the document.
_NOT_THE_DOCUMENT: Final = frozenset({"index_closed_exception", "validation_exception", "invalid_index_name_exception"})


class Outcome(StrEnum):
    """What became of a document that needs no further attempt."""

    INDEXED = "documents_indexed"
    ALREADY_THERE = "documents_already_there"
    REJECTED = "documents_rejected"


class BulkFailedError(RuntimeError):
    """Documents could not be written now; the batch must run again."""


@dataclass(frozen=True)
class BulkRules:
    """How documents are sent.

    Attributes:
        documents: Most documents in a request.
        request_bytes: Largest request.
        retries: Further attempts for documents that a busy Elasticsearch refuses.
        first_pause_s: Pause before the first of them; doubles each time.
        longest_pause_s: Longest pause.
    """

    documents: int = 1_000
    request_bytes: int = 5 * 1024 * 1024
    retries: int = 6
    first_pause_s: float = 0.25
    longest_pause_s: float = 8.0


@dataclass(frozen=True)
class Result:
    """What became of one document; `reason` is Elasticsearch's own words."""

    document: Document
    outcome: Outcome
    reason: str = ""


def send(client: Elasticsearch, documents: Iterable[Document], rules: BulkRules) -> Iterator[Result]:
    """Write documents; yield one result per document that is done with.

    Within one request a document appears once, in its highest version.

    Raises:
        BulkFailedError: A document is not done with; the others of its request may or may not have been written.
    """
    remaining = iter(documents)
    while chunk := latest(islice(remaining, rules.documents)):
        yield from _send_chunk(client, chunk, rules)


def _send_chunk(client: Elasticsearch, chunk: list[Document], rules: BulkRules) -> Iterator[Result]:
    by_place = {(document.index, document.id): document for document in chunk}
    answers = streaming_bulk(
        client,
        (_action(document) for document in chunk),
        chunk_size=rules.documents,
        max_chunk_bytes=rules.request_bytes,
        raise_on_error=False,
        raise_on_exception=False,
        max_retries=rules.retries,
        initial_backoff=rules.first_pause_s,
        max_backoff=rules.longest_pause_s,
        retry_on_status=_BUSY,
    )
    try:
        for _, item in answers:
            answer = next(iter(item.values()))
            yield _result(by_place[answer["_index"], answer["_id"]], answer)
    except TransportError as lost:
        message = f"Elasticsearch does not answer: {lost}"
        raise BulkFailedError(message) from lost


def _action(document: Document) -> dict[str, Any]:
    return {
        "_op_type": "index",
        "_index": document.index,
        "_id": document.id,
        "version": document.version,
        "version_type": "external_gte",
        "_source": document.source,
    }


def _result(document: Document, answer: Mapping[str, Any]) -> Result:
    status = answer["status"]
    if 200 <= status < 300:
        return Result(document, Outcome.INDEXED)
    # A failed request carries its exception in each of its documents: it says nothing about any one of them.
    whole_request = "exception" in answer
    reason = reason_of(answer.get("error"))
    if status == _CONFLICT and not whole_request:
        return Result(document, Outcome.ALREADY_THERE, reason)
    if status == _REFUSED and not whole_request and _type_of(answer.get("error")) not in _NOT_THE_DOCUMENT:
        return Result(document, Outcome.REJECTED, reason)
    message = f"Elasticsearch answered {status} for {document.index}/{document.id}: {reason}"
    raise BulkFailedError(message)


def _type_of(error: Any) -> str:
    return str(error.get("type", "")) if isinstance(error, Mapping) else ""


def reason_of(error: Any) -> str:
    """Return an error of a bulk answer in words, with what caused it."""
    if not isinstance(error, Mapping):
        return str(error)
    reason = f"{error.get('type')}: {error.get('reason')}"
    cause = error.get("caused_by")
    return f"{reason}; caused by {reason_of(cause)}" if isinstance(cause, Mapping) else reason
