"""The indexer against a real broker and a real Elasticsearch."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from elasticsearch import Elasticsearch
from elasticsearch.helpers import scan
from tenacity import retry, stop_after_delay, wait_fixed

from apps.elasticsearch import IncidentQuery, TemplateKeeper, connect, search_incidents
from apps.local.elasticsearch import ElasticsearchServer
from apps.local.processes import ProcessRecord, stop
from apps.log_reader import LogReader, LogRecord
from apps.settings import ElasticsearchSettings, Settings
from apps.topics_admin import ensure_topics
from pipelines.indexer.documents import KafkaRecord, Naming, Origin
from pipelines.indexer.pipeline import UNREADABLE, IndexerTask, index_batch
from pipelines.parameters import IndexerParameters
from pipelines.transport import MarkerProducer, TaskProducer
from tests.support import SERVER_START_S, STOP_S, JobRunner, free_port
from tests.topics.examples import incident, score, series_score
from topics import wire
from topics.documents import FAMILIES, INCIDENTS, SERIES, IndexSettings, read
from topics.records import Incident, Score
from topics.registry import INCIDENTS as INCIDENTS_TOPIC
from topics.registry import INDEX_REJECTED
from topics.registry import SCORES as SCORES_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.stack

Documents = dict[str, dict[str, Any]]


@pytest.fixture
def client(settings: Settings) -> Iterator[Elasticsearch]:
    opened = connect(settings.elasticsearch)
    yield opened
    opened.close()


def write(settings: Settings, *records: Score | Incident | bytes) -> None:
    with TaskProducer(settings.kafka.bootstrap_servers) as producer:
        for record in records:
            topic = INCIDENTS_TOPIC if isinstance(record, Incident) else SCORES_TOPIC
            key = record.id if isinstance(record, Incident) else record.resource if isinstance(record, Score) else "bad"
            value = record if isinstance(record, bytes) else orjson.dumps(record)
            producer.send(topic.full_name(settings.generation), value, key=key.encode())


def indexed(client: Elasticsearch, settings: Settings) -> Documents:
    """Return every document of the generation by index and id."""
    aliases = [family.generation_alias(settings.generation) for family in FAMILIES]
    client.indices.refresh(index=aliases, ignore_unavailable=True)
    hits = scan(client, index=aliases, ignore_unavailable=True, version=True)
    return {f"{hit['_index']}/{hit['_id']}": hit["_source"] | {"_version": hit["_version"]} for hit in hits}


def rejected(settings: Settings) -> list[LogRecord]:
    topic = INDEX_REJECTED.full_name(settings.generation)
    with LogReader(settings.kafka.bootstrap_servers) as reader:
        return list(reader.read({(topic, number): 0 for number in range(settings.kafka.derived_partitions)}))


def keeper_of(client: Elasticsearch, settings: Settings) -> TemplateKeeper:
    return TemplateKeeper(client, settings.generation, IndexSettings())


def index_everything(spark: SparkSession, settings: Settings, keeper: TemplateKeeper) -> Counter[str]:
    """Index all records in the topics as one batch; return the counts."""
    counts: Counter[str] = Counter()
    lock = threading.Lock()

    def report(name: str, amount: float) -> None:
        with lock:
            counts[name] += int(amount)

    naming = Naming(settings.generation, IndexerParameters(score_threshold=25.0))
    task = IndexerTask(partial(connect, settings.elasticsearch), settings.kafka.bootstrap_servers, naming)
    batch = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", settings.kafka.bootstrap_servers)
        .option(
            "subscribe", ",".join(topic.full_name(settings.generation) for topic in (SCORES_TOPIC, INCIDENTS_TOPIC))
        )
        .option("kafka.isolation.level", "read_committed")
        .load()
    )
    index_batch(task, keeper.prepare, report)(batch, 0)
    return counts


def test_indexing_twice_gives_the_same_documents(
    spark: SparkSession, settings: Settings, client: Elasticsearch
) -> None:
    ensure_topics(settings)
    write(settings, score("vm-1", 0, 80.0), score("vm-2", 0, 10.0), score("vm-1", 1, 30.0))
    write(settings, incident(1), incident(2), incident(3, end_ms=1, state="close"), incident(1, id="i-2"))
    keeper = keeper_of(client, settings)

    first = index_everything(spark, settings, keeper)
    documents = indexed(client, settings)
    again = index_everything(spark, settings, keeper)

    assert first == again == Counter(documents_indexed=8)  # 2 resource windows, 4 series, 2 incidents
    assert indexed(client, settings) == documents
    assert len(documents) == 8
    latest = INCIDENTS.document_id({"id": "i-1"})
    closed = next(source for place, source in documents.items() if place.endswith(latest))
    assert closed["_version"] == 3
    assert read(closed, "event.action") == "close"
    query = IncidentQuery(open_only=True, generation=settings.generation)
    assert [read(item, "incident.id") for item in search_incidents(client, query)] == ["i-2"]


def test_an_older_revision_does_not_replace_a_newer_one(
    spark: SparkSession, settings: Settings, client: Elasticsearch
) -> None:
    ensure_topics(settings)
    keeper = keeper_of(client, settings)
    write(settings, incident(5))
    index_everything(spark, settings, keeper)
    before = indexed(client, settings)
    naming = Naming(settings.generation, IndexerParameters())
    task = IndexerTask(partial(connect, settings.elasticsearch), settings.kafka.bootstrap_servers, naming)
    origin = Origin(INCIDENTS_TOPIC.full_name(settings.generation), 0, 0, 0)
    records = [KafkaRecord(origin, b"i-1", orjson.dumps(incident(4)))]  # what a retried older batch would bring
    assert task.run(records) == Counter(documents_already_there=1)
    assert indexed(client, settings) == before


def test_poison_goes_to_the_rejected_topic_with_the_reason(
    spark: SparkSession, settings: Settings, client: Elasticsearch
) -> None:
    ensure_topics(settings)
    poison = score("vm-1", series=[series_score(90.0, actual="a lot")])  # type: ignore[arg-type]
    write(settings, score("vm-0", value=80.0, series=[]), poison, b"{nonsense", score("vm-2", value=80.0, series=[]))

    counts = index_everything(spark, settings, keeper_of(client, settings))

    # the influencers of the resource's document hold the same value: both documents are refused
    assert counts == Counter({"documents_indexed": 2, "documents_rejected": 2, UNREADABLE: 1})
    hosts = sorted(read(source, "host.name") for source in indexed(client, settings).values())
    assert hosts == ["vm-0", "vm-2"]
    kept = {record.key: record for record in rejected(settings)}
    assert len(kept) == 3
    headers = dict(kept[b"bad"].headers)
    assert kept[b"bad"].value == b"{nonsense"
    assert headers[wire.SOURCE_TOPIC_HEADER].decode() == SCORES_TOPIC.full_name(settings.generation)
    assert b"JSONDecodeError" in headers[wire.REASON_HEADER]
    row = orjson.loads(orjson.dumps(poison))
    refused = kept[SERIES.document_id(row | row["series"][0]).encode()]
    assert b"failed to parse field [anomaly.actual] of type [double]" in dict(refused.headers)[wire.REASON_HEADER]
    assert orjson.loads(refused.value or b"")["anomaly"]["actual"] == "a lot"


def test_uncommitted_incidents_are_not_indexed(spark: SparkSession, settings: Settings, client: Elasticsearch) -> None:
    ensure_topics(settings)
    write(settings, incident(1))
    producer = MarkerProducer(settings.kafka.bootstrap_servers, f"{settings.generation}-test")
    raw = producer._producer
    raw.begin_transaction()
    raw.produce(INCIDENTS_TOPIC.full_name(settings.generation), orjson.dumps(incident(2)), key=b"i-1")
    raw.flush(10)
    raw.abort_transaction(10)
    index_everything(spark, settings, keeper_of(client, settings))
    assert [source["_version"] for source in indexed(client, settings).values()] == [1]


# ---- the job, and Elasticsearch killed under it ----------------------------------------------------------------------


@pytest.fixture
def own_elasticsearch(tmp_path: Path) -> Iterator[Callable[[], ProcessRecord]]:
    """Start an Elasticsearch on the same port and data each time."""
    server = ElasticsearchServer(tmp_path / "es", tmp_path / "es.log", free_port(), free_port())
    records: list[ProcessRecord] = []

    def start() -> ProcessRecord:
        records.append(server.start())
        server.wait(records[-1], SERVER_START_S)
        return records[-1]

    start.url = server.url  # type: ignore[attr-defined]
    yield start
    stop(records, STOP_S)
    server.wipe()


def kill(record: ProcessRecord) -> None:
    process = record.process()
    assert process is not None
    for member in [process, *process.children(recursive=True)]:
        member.kill()
        member.wait(STOP_S)


@retry(stop=stop_after_delay(150), wait=wait_fixed(1), reraise=True)
def wait_for_documents(client: Elasticsearch, settings: Settings, number: int) -> Documents:
    documents = indexed(client, settings)
    assert len(documents) == number
    return documents


def test_nothing_is_lost_or_doubled_when_elasticsearch_is_killed_in_the_middle(
    settings: Settings, run_job: JobRunner, own_elasticsearch: Callable[[], ProcessRecord]
) -> None:
    url: str = own_elasticsearch.url  # type: ignore[attr-defined]
    settings = settings.model_copy(
        update={
            "elasticsearch": ElasticsearchSettings(url=url),
            "indexer": replace(settings.indexer, batch_records=200, score_threshold=3.0),
        }
    )
    ensure_topics(settings)
    client = connect(settings.elasticsearch)
    server = own_elasticsearch()
    job = run_job("indexer", settings)
    resources = [f"vm-{number}" for number in range(20)]

    write(settings, *(score(name, 0) for name in resources), incident(1))
    wait_for_documents(client, settings, 20 * 3 + 1)

    write(settings, *(score(name, window) for window in range(1, 60) for name in resources), incident(2))
    kill(server)  # while the job works through these
    write(settings, *(score(name, window) for window in range(60, 100) for name in resources), incident(3))
    assert job.process.poll() is None
    own_elasticsearch()

    documents = wait_for_documents(client, settings, 20 * 100 * 3 + 1)
    incidents = [source for source in documents.values() if read(source, "event.dataset") == "kappa.incidents"]
    assert [source["_version"] for source in incidents] == [3]
    windows = Counter(read(source, "@timestamp") for source in documents.values())
    assert len(windows) == 100
    assert rejected(settings) == []
    assert "does not answer" in job.log_text, "the job did not meet the outage: the test tested nothing"
    assert job.stop() == 0
    client.close()
