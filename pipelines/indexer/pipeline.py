"""One micro-batch of records: documents, bulk requests, rejections and counts, one task per Kafka partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import orjson
import pyarrow as pa
from elasticsearch import Elasticsearch

from pipelines.indexer.bulk import BulkFailedError, BulkRules, Outcome, Result, send
from pipelines.indexer.documents import Document, KafkaRecord, Naming, Origin, Unreadable, documents
from pipelines.transport import Outgoing, TaskProducer
from topics import registry, wire

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UNREADABLE: Final = "records_unreadable"
_FAILED: Final = "batch_failed"
_RECORD_COLUMNS: Final = (
    "topic", "partition", "offset", "unix_millis(timestamp) AS timestamp_ms", "key", "value",
)  # fmt: skip
_COUNT_SCHEMA: Final = "name string, amount long, reason string"


@dataclass(frozen=True)
class IndexerTask:
    """What a task needs; travels to the executors.

    Attributes:
        connect: Makes a client; called once per task, which closes it.
        bootstrap_servers: Where rejections go.
        naming: What documents there are and what they are called.
        rules: How documents are sent.
    """

    connect: Callable[[], Elasticsearch]
    bootstrap_servers: str
    naming: Naming
    rules: BulkRules = field(default_factory=BulkRules)

    def run(self, records: Iterable[KafkaRecord]) -> Counter[str]:
        """Index records; return how many documents had which outcome.

        Raises:
            BulkFailedError: The batch must run again.
        """
        counts: Counter[str] = Counter()
        rejections: list[Outgoing] = []

        def readable() -> Iterator[Document]:
            for item in documents(records, self.naming):
                if isinstance(item, Document):
                    yield item
                else:
                    counts[UNREADABLE] += 1
                    rejections.append(self._rejected_record(item))

        client = self.connect()
        try:
            for result in send(client, readable(), self.rules):
                counts[result.outcome.value] += 1
                if result.outcome is Outcome.REJECTED:
                    rejections.append(self._rejected_document(result))
                self._write(rejections, at_least=self.rules.documents)
        finally:
            client.close()
        self._write(rejections, at_least=1)
        return counts

    def _write(self, rejections: list[Outgoing], at_least: int) -> None:
        """Write the rejections gathered so far, when there are enough of them to be worth a producer."""
        if len(rejections) < at_least:
            return
        with TaskProducer(self.bootstrap_servers) as producer:
            for rejection in rejections:
                producer.send(rejection.topic, rejection.value, key=rejection.key, headers=rejection.headers)
        rejections.clear()

    def _rejected_document(self, result: Result) -> Outgoing:
        document = result.document
        return self._rejection(document.origin, document.id.encode(), orjson.dumps(document.source), result.reason)

    def _rejected_record(self, unreadable: Unreadable) -> Outgoing:
        record = unreadable.record
        return self._rejection(record.origin, record.key, record.value or b"", unreadable.reason)

    def _rejection(self, origin: Origin, key: bytes | None, value: bytes, reason: str) -> Outgoing:
        headers = {
            wire.REASON_HEADER: reason,
            wire.SOURCE_TOPIC_HEADER: origin.topic,
            wire.SOURCE_PARTITION_HEADER: str(origin.partition),
            wire.SOURCE_OFFSET_HEADER: str(origin.offset),
            wire.SOURCE_TIMESTAMP_HEADER: str(origin.timestamp_ms),
        }
        topic = registry.INDEX_REJECTED.full_name(self.naming.generation)
        return Outgoing(topic, value, key=key, headers={name: text.encode() for name, text in headers.items()})


def read_results(spark: SparkSession, bootstrap_servers: str, naming: Naming) -> DataFrame:
    """Return the stream of scores and incidents of a generation, from their beginning."""
    topics = (registry.SCORES, registry.INCIDENTS)
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", ",".join(topic.full_name(naming.generation) for topic in topics))
        .option("startingOffsets", "earliest")
        .option("kafka.isolation.level", "read_committed")
        .option("failOnDataLoss", "true")
        .option("maxOffsetsPerTrigger", naming.parameters.batch_records)
        .load()
    )


def index_batch(
    task: IndexerTask, prepare: Callable[[], None], report: Callable[[str, float], None]
) -> Callable[[DataFrame, int], None]:
    """Return the function for `foreachBatch`: it returns when every record of the batch is done with.

    Args:
        task: What the tasks do.
        prepare: Called on the driver before each batch; returns when Elasticsearch is ready for it.
        report: Takes the counts.

    The returned function raises `BulkFailedError` when the batch must run again.
    """

    def write(batch: DataFrame, batch_id: int) -> None:
        prepare()
        # (topic, partition, offset, timestamp_ms, key, value) -> (name, amount, reason)
        rows = batch.selectExpr(*_RECORD_COLUMNS).mapInArrow(_arrow_task(task), _COUNT_SCHEMA).collect()
        for row in rows:
            if row["name"] == _FAILED:
                message = f"batch {batch_id} must run again: {row['reason']}"
                raise BulkFailedError(message)
            report(row["name"], row["amount"])

    return write


def _arrow_task(task: IndexerTask) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Outcomes travel as rows, also the bad one: the driver then fails the batch with one sentence.
        try:
            counts = task.run(record for batch in batches for record in records_of(batch))
            rows = [{"name": name, "amount": amount, "reason": ""} for name, amount in sorted(counts.items())]
        except BulkFailedError as failure:
            rows = [{"name": _FAILED, "amount": 1, "reason": str(failure)}]
        yield pa.RecordBatch.from_pylist(rows, schema=_arrow_counts())

    return run


def _arrow_counts() -> pa.Schema:
    return pa.schema([("name", pa.string()), ("amount", pa.int64()), ("reason", pa.string())])


def records_of(batch: pa.RecordBatch) -> Iterator[KafkaRecord]:
    """Yield the Kafka records of an Arrow batch with the columns topic, partition, offset, timestamp_ms, key, value."""
    columns: list[list[Any]] = [column.to_pylist() for column in batch.columns]
    for topic, partition, offset, timestamp_ms, key, value in zip(*columns, strict=True):
        yield KafkaRecord(Origin(topic, partition, offset, timestamp_ms), key, value)
