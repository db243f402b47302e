"""The registry keeps the promises the chain is built on."""

from __future__ import annotations

from dataclasses import is_dataclass

import pytest

from topics.registry import DERIVED_TOPICS, RAW_TOPICS, TOPICS, Topic

_DERIVED_BY_A_JOB = {"statistics", "novelty", "incidents", "indexer"}


def test_names_are_unique_also_with_a_generation() -> None:
    assert len({topic.name for topic in TOPICS}) == len(TOPICS)
    assert len({topic.full_name("g1") for topic in TOPICS}) == len(TOPICS)


def test_only_derived_topics_carry_the_generation() -> None:
    assert [topic.full_name("g7") for topic in RAW_TOPICS] == [topic.name for topic in RAW_TOPICS]
    assert all(topic.full_name("g7") == f"{topic.name}.g7" for topic in DERIVED_TOPICS)


@pytest.mark.parametrize("topic", DERIVED_TOPICS, ids=lambda topic: topic.name)
def test_a_derived_topic_has_one_job_that_writes_it_and_does_not_read_it(topic: Topic) -> None:
    assert topic.writer in _DERIVED_BY_A_JOB
    assert topic.writer not in topic.readers
    assert topic.readers


@pytest.mark.parametrize("topic", RAW_TOPICS, ids=lambda topic: topic.name)
def test_no_job_writes_the_log(topic: Topic) -> None:
    assert topic.writer not in _DERIVED_BY_A_JOB
    assert topic.cleanup == "delete"


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_a_compacted_topic_has_no_retention_and_a_record_is_a_dataclass(topic: Topic) -> None:
    assert topic.cleanup == "delete" or topic.retention_ms is None
    assert topic.record is None or is_dataclass(topic.record)


def test_topics_that_keep_original_messages_have_room_for_the_headers() -> None:
    largest_raw = max(topic.message_limit_bytes for topic in RAW_TOPICS)
    keepers = [topic for topic in DERIVED_TOPICS if topic.record is None]
    assert keepers
    assert all(topic.message_limit_bytes > largest_raw for topic in keepers)
