"""Records in, documents out."""

from __future__ import annotations

import random
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.indexer.documents import Document, KafkaRecord, Naming, Origin, Unreadable, documents, latest
from pipelines.parameters import IndexerParameters
from tests.topics.examples import any_of, incident, score, series_score
from topics.records import Incident, Score
from topics.registry import INCIDENTS, SCORES

NAMING = Naming("g1", IndexerParameters(score_threshold=25.0))


def kafka_record(record: Any, offset: int = 0) -> KafkaRecord:
    topic = INCIDENTS if isinstance(record, Incident) else SCORES
    value = record if isinstance(record, bytes | None) else orjson.dumps(record)
    return KafkaRecord(Origin(topic.full_name("g1"), 0, offset, 1_763_690_500_000), b"key", value)


def made(*records: Any) -> list[Document | Unreadable]:
    return list(documents([kafka_record(record, offset) for offset, record in enumerate(records)], NAMING))


def indices(*records: Any) -> list[str]:
    return [item.index if isinstance(item, Document) else "unreadable" for item in made(*records)]


def test_resource_windows_and_series_are_indexed_from_the_threshold_on() -> None:
    quiet, notable = series_score(24.9, cpu=0), series_score(25.0, cpu=1)
    assert indices(score(value=24.9, series=[quiet])) == []
    assert indices(score(value=25.0, series=[quiet])) == ["kappa-scores-g1-2025.11"]
    # a series may be notable although its resource is not
    assert indices(score(value=10.0, series=[quiet, notable])) == ["kappa-series-g1-2025.11"]


def test_every_incident_is_indexed_in_its_latest_revision_after_the_scores() -> None:
    found = made(incident(1), incident(2), score(series=[]), incident(1, id="i-2"), incident(1))
    assert [(item.index, item.version) for item in found if isinstance(item, Document)] == [
        ("kappa-scores-g1-2025.11", 2),
        ("kappa-incidents-g1-2025.11", 2),
        ("kappa-incidents-g1-2025.11", 1),
    ]
    assert found[1].source["event"]["action"] == "update"  # type: ignore[union-attr]


def test_a_deletion_in_the_compacted_topic_is_no_document() -> None:
    assert made(None) == []


@pytest.mark.parametrize(
    "value",
    [
        b"{nonsense",
        b"",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"score": 99}',
        orjson.dumps(score()).replace(b'"score":60.0', b'"score":"high"'),
        orjson.dumps(score()).replace(b'"series":[', b'"series":[7,'),
        orjson.dumps(score(window_end_ms=2**62)),
        orjson.dumps(score()).replace(b'"contribution":0.6', b'"contribution":null'),
    ],
)
def test_what_is_no_record_is_unreadable_and_the_others_are_not_affected(value: bytes) -> None:
    before, after = score("vm-1", series=[]), score("vm-2", series=[])
    first, bad, last = made(before, value, after)
    assert isinstance(bad, Unreadable)
    assert bad.record.value == value
    assert bad.record.origin.offset == 1
    assert bad.reason.startswith("not a record of novelty.scores.g1: ")
    assert [item.source["host"]["name"] for item in (first, last) if isinstance(item, Document)] == ["vm-1", "vm-2"]


@settings(max_examples=150, deadline=None)
@given(st.one_of(any_of(Score), any_of(Incident), st.binary(max_size=80), st.dictionaries(st.text(), st.text())))
def test_nothing_makes_it_stop(record: Any) -> None:
    assert all(isinstance(item, Document | Unreadable) for item in made(record))


def test_documents_do_not_depend_on_how_records_are_cut_into_batches() -> None:
    records = [score(f"vm-{number}", window) for window in range(3) for number in range(4)]
    records += [incident(revision, id=f"i-{number}") for revision in range(1, 5) for number in range(3)]  # type: ignore[misc]
    whole = {
        (item.index, item.id): item.source for item in latest(d for d in made(*records) if isinstance(d, Document))
    }
    random.Random(7).shuffle(records)
    parts = [item for start in range(0, len(records), 5) for item in made(*records[start : start + 5])]
    cut = {(item.index, item.id): item.source for item in latest(d for d in parts if isinstance(d, Document))}
    assert cut == whole


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 5), st.integers()), max_size=30))
def test_latest_keeps_the_highest_version_and_of_equal_ones_the_last(entries: list[tuple[str, int, int]]) -> None:
    origin = Origin("t", 0, 0, 0)
    versions = [Document("i", name, version, {"n": number}, origin) for name, version, number in entries]
    chosen = latest(versions)
    assert sorted(item.id for item in chosen) == sorted({name for name, _, _ in entries})
    for item in chosen:
        same = [other for other in versions if other.id == item.id]
        assert item is [other for other in same if other.version == max(other.version for other in same)][-1]
