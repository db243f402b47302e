"""Records to documents: pure functions of the record, the generation and the settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from pipelines.parameters import IndexerParameters
from topics import registry
from topics.documents import INCIDENTS, SCORES, SERIES, Family, Row


@dataclass(frozen=True)
class Origin:
    """Where a record stands in the broker; `timestamp_ms` is its Kafka timestamp."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


@dataclass(frozen=True)
class KafkaRecord:
    """One record as read."""

    origin: Origin
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True)
class Document:
    """One document and where it goes."""

    index: str
    id: str
    version: int
    source: dict[str, Any]
    origin: Origin


@dataclass(frozen=True)
class Unreadable:
    """A record that is not what its topic promises."""

    record: KafkaRecord
    reason: str


@dataclass(frozen=True)
class Naming:
    """What decides which documents there are and what they are called."""

    generation: str
    parameters: IndexerParameters

    def document(self, family: Family, row: Row, origin: Origin) -> Document:
        """Return the document of one row."""
        return Document(
            index=family.index(row, self.generation, self.parameters.index_period),
            id=family.document_id(row),
            version=family.version(row),
            source=family.source(row),
            origin=origin,
        )


def documents(records: Iterable[KafkaRecord], naming: Naming) -> Iterator[Document | Unreadable]:
    """Yield the documents of records in order; incidents last, of each only the latest revision."""
    incidents_topic = registry.INCIDENTS.full_name(naming.generation)
    incidents: list[Document] = []
    for record in records:
        if record.value is None:  # a deletion in a compacted topic
            continue
        try:
            if record.origin.topic == incidents_topic:
                incidents.append(_incident_document(record, naming))
            else:
                yield from _score_documents(record, naming)
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, OSError) as mistake:
            yield Unreadable(record, f"not a record of {record.origin.topic}: {mistake!r}")
    yield from latest(incidents)


def latest(versions: Iterable[Document]) -> list[Document]:
    """Return each document once, in its highest version; of equal versions the last one."""
    chosen: dict[tuple[str, str], Document] = {}
    for document in versions:
        place = (document.index, document.id)
        if place not in chosen or document.version >= chosen[place].version:
            chosen[place] = document
    return list(chosen.values())


def _incident_document(record: KafkaRecord, naming: Naming) -> Document:
    return naming.document(INCIDENTS, _parsed(record), record.origin)


def _score_documents(record: KafkaRecord, naming: Naming) -> list[Document]:
    score = _parsed(record)
    lowest = naming.parameters.score_threshold
    notable = [series for series in score["series"] if series["score"] >= lowest]
    resource = [naming.document(SCORES, score, record.origin)] if score["score"] >= lowest else []
    return resource + [naming.document(SERIES, {**score, **series}, record.origin) for series in notable]


def _parsed(record: KafkaRecord) -> dict[str, Any]:
    value = orjson.loads(record.value or b"")
    if not isinstance(value, dict):
        message = f"a JSON object was expected, not {type(value).__name__}"
        raise TypeError(message)
    return value
