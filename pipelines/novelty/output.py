"""Writing the records of a micro-batch: scores and snapshots first, then the summaries that vouch for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from pipelines.novelty.fold import Counts
from pipelines.novelty.packing import split_sections
from pipelines.transport import TaskProducer
from topics.registry import SUMMARIES, TOPICS
from topics.wire import BATCH_HEADER, GENERATION_HEADER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Report = Callable[[str, float], None]

_COUNTS_SCHEMA: Final = ", ".join(f"{name} BIGINT" for name in Counts._fields)
_BY_NAME: Final = {topic.name: topic for topic in TOPICS}


@dataclass(frozen=True)
class Target:
    """Where records go.

    Attributes:
        bootstrap_servers: The broker.
        generation: Suffix of the topics.
        partitions: Partitions of each topic, by full name; a bucket's records go to partition bucket mod partitions.
    """

    bootstrap_servers: str
    generation: str
    partitions: Mapping[str, int]


def write_batch(target: Target, report: Report) -> Callable[[DataFrame, int], None]:
    """Return the `foreachBatch` function: one action, in which the fold runs and its records are written."""

    def write(rows: DataFrame, batch: int) -> None:
        written = rows.mapInArrow(partial(_write_task, target, batch), _COUNTS_SCHEMA).collect()
        for name in Counts._fields:
            report(name, float(sum(row[name] for row in written)))

    return write


def _write_task(target: Target, batch: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write one task's records; summaries wait until everything else is acknowledged."""
    counts: Counter[str] = Counter()
    summaries: list[tuple[int, str, bytes]] = []
    with TaskProducer(target.bootstrap_servers) as producer:
        send = partial(_send, producer, target, _headers(target, batch))
        for row in (row for arrived in batches for row in arrived.to_pylist()):
            counts.update({name: row[name] for name in Counts._fields})
            if row["topic"] == SUMMARIES.name:
                summaries.append((row["bucket"], row["topic"], row["payload"]))
            elif row["topic"] is not None:
                send(row["bucket"], row["topic"], row["payload"])
        producer.flush()
        for summary in summaries:
            send(*summary)
    yield pa.RecordBatch.from_pylist([{name: counts[name] for name in Counts._fields}])


def _headers(target: Target, batch: int) -> dict[str, bytes]:
    """Lineage; it changes from run to run, so it must not stand in values."""
    return {GENERATION_HEADER: target.generation.encode(), BATCH_HEADER: str(batch).encode()}


def _send(
    producer: TaskProducer, target: Target, headers: Mapping[str, bytes], bucket: int, topic: str, payload: Any
) -> None:
    name = _BY_NAME[topic].full_name(target.generation)
    parts = iter(split_sections(payload))
    for key, value in zip(parts, parts, strict=True):
        producer.send(name, bytes(value), bytes(key), bucket % target.partitions[name], headers)
