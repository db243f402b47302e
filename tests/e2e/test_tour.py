"""The guided tour: one simulated day through the whole chain, on a real broker, real Spark jobs, a real Elasticsearch.

Read it from top to bottom:

1.  A telecom cloud writes a day of telemetry into the log, out of order, with duplicates, late, future and broken
    records, and with faults whose truth is known.
2.  The four jobs read it, each its own process. Each is killed with -9 in the middle of its work and started again.
3.  Nothing is lost: every record sent is accounted for.
4.  Every fault that an operator would want to know is an incident in Elasticsearch.
5.  The same log is read again by a second generation, undisturbed, in other batches: it says the same, byte for byte.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson
import pytest
from pydantic import TypeAdapter

from apps.elasticsearch import IncidentQuery, connect, search_incidents
from apps.log_reader import LogReader, LogRecord
from apps.settings import Settings
from apps.simulator.disorder import Label
from apps.simulator.scoring import Report, score
from apps.simulator.stream import Plan, Stream
from apps.simulator.writer import History, LogWriter, raw_partitions, tick_interval_ms
from apps.topics_admin import ensure_topics
from pipelines.parameters import TimeRules
from tests.support import Job, JobRunner, free_job_ports, running_broker
from topics import documents, registry, wire
from topics.records import ClosedMarker, Incident

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1500)]

JOBS: Final = ("statistics", "novelty", "incidents", "indexer")
RULES: Final = TimeRules(window_s=60, lateness_s=10, future_s=5, slack_s=1, arrival="history")
START_MS: Final = 1_790_812_800_000  # a Thursday, midnight UTC
HOUR_MS: Final = 3_600_000
PLAN: Final = Plan(start_ms=START_MS, history_ms=24 * HOUR_MS, seed=7, resources=18, rules=RULES)
#: Ticks go on until every window that holds a point is closed.
END_MS: Final = PLAN.live_from_ms + 1000 * (2 * RULES.window_s + RULES.watermark_delay_s)
LAST_WINDOW_END_MS: Final = (END_MS - 1000 * (RULES.lateness_s + RULES.slack_s)) // 60_000 * 60_000
FALSE_INCIDENTS_ALLOWED: Final = 5


@dataclass(frozen=True)
class Chain:
    """One generation of the chain, run over the whole log."""

    settings: Settings
    sent: Counter[Label]
    report: Report


def records_of(settings: Settings, topic: registry.Topic) -> Iterator[LogRecord]:
    """Yield every committed record of a topic of this generation."""
    name = topic.full_name(settings.generation)
    count = 1 if topic.partitions == "one" else settings.kafka.derived_partitions
    with LogReader(settings.kafka.bootstrap_servers) as reader:
        yield from reader.read({(name, partition): 0 for partition in range(count)})


def last_summary_ms(settings: Settings) -> int:
    return max(
        (orjson.loads(item.value)["window_end_ms"] for item in records_of(settings, registry.SUMMARIES)), default=0
    )


def incident_records(settings: Settings) -> list[Incident]:
    read = TypeAdapter(Incident).validate_python
    return [read(orjson.loads(item.value)) for item in records_of(settings, registry.INCIDENTS)]


def indexed_revisions(settings: Settings) -> dict[str, int]:
    client = connect(settings.elasticsearch)
    found = search_incidents(client, IncidentQuery(generation=settings.generation, limit=10_000))
    client.close()
    return {
        documents.read(item, documents.INCIDENT_ID): documents.read(item, documents.INCIDENT_REVISION) for item in found
    }


def until(what: str, reached: Callable[[], bool], jobs: dict[str, Job], timeout_s: float = 600.0) -> None:
    """Wait for something; fail with the logs when a job dies or time runs out."""
    give_up = time.monotonic() + timeout_s
    while not reached():
        dead = [job for job in jobs.values() if job.process.poll() is not None]
        assert not dead, f"{dead[0].name} ended:\n{dead[0].log_text[-4000:]}"
        tails = "\n".join(f"--- {job.name}\n{job.log_text[-1500:]}" for job in jobs.values())
        assert time.monotonic() < give_up, f"{what}: not reached in {timeout_s} s\n{tails}"
        time.sleep(1)


def write_a_day(settings: Settings) -> Counter[Label]:
    """Write the plan with arrival times in headers and ticks past the end; return how many records of each label."""
    partitions = raw_partitions(settings, PLAN)
    history = History(Stream(PLAN).until, partitions, PLAN.start_ms, tick_interval_ms(RULES))
    writer = LogWriter(settings.kafka.bootstrap_servers)
    writer.send(history.until(END_MS), lambda _count, _arrival_ms: None)
    writer.send(history.last_tick(END_MS), lambda _count, _arrival_ms: None)
    writer.flush()
    return history.counts


def all_closed(settings: Settings) -> Callable[[], bool]:
    return lambda: last_summary_ms(settings) >= LAST_WINDOW_END_MS


def all_indexed(settings: Settings) -> Callable[[], bool]:
    def reached() -> bool:
        latest = {item.id: item.revision for item in incident_records(settings)}
        return bool(latest) and indexed_revisions(settings) == latest

    return reached


def no_more_incidents(settings: Settings) -> Callable[[], bool]:
    """Incidents are quiet once their records have not grown for a while after the last summary."""
    seen: list[int] = []

    def reached() -> bool:
        seen.append(len(incident_records(settings)))
        return len(seen) > 10 and len(set(seen[-10:])) == 1

    return reached


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker of its own: the log is the point of the tour."""
    with running_broker(tmp_path_factory.mktemp("log")) as bootstrap_servers:
        yield bootstrap_servers


@pytest.fixture(scope="module")
def day(log: str, elasticsearch: str, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings of the first generation, its topics there and nothing in them."""
    folder = tmp_path_factory.mktemp("tour")
    return Settings(
        generation="tour",
        data_dir=folder,
        ports=free_job_ports(),
        kafka={"bootstrap_servers": log},
        elasticsearch={"url": elasticsearch},
        time=RULES,
        novelty={"buckets": 4},
    )


@pytest.fixture(scope="module")
def disturbed(day: Settings, tmp_path_factory: pytest.TempPathFactory) -> Chain:
    """Run the chain over the day; every job is killed once in the middle of its work."""
    ensure_topics(day)
    sent = write_a_day(day)
    run = JobRunner(tmp_path_factory.mktemp("disturbed"))
    jobs = {name: run(name, day) for name in JOBS}
    try:
        for number, name in enumerate(JOBS, start=1):
            progress_ms = START_MS + number * 4 * HOUR_MS
            until(f"{name} in the middle", lambda at=progress_ms: last_summary_ms(day) >= at, jobs)
            jobs[name].kill()
            jobs[name] = run(name, day)
        until("all windows closed", all_closed(day), jobs)
        until("no more incidents", no_more_incidents(day), jobs)
        until("incidents indexed", all_indexed(day), jobs)
        codes = {name: job.stop() for name, job in jobs.items()}
        assert codes == dict.fromkeys(JOBS, 0)
    finally:
        for job in jobs.values():
            job.kill()
    return Chain(day, sent, score(Stream(PLAN).faults, incident_records(day)))


@pytest.fixture(scope="module")
def replayed(disturbed: Chain, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Read the same log again as another generation, undisturbed, in smaller batches."""
    first = disturbed.settings
    again = first.model_copy(
        update={
            "generation": "again",
            "statistics": replace(first.statistics, batch_points=90_000),
            "novelty": replace(first.novelty, batch_records=7_000),
        }
    )
    ensure_topics(again)
    run = JobRunner(tmp_path_factory.mktemp("undisturbed"))
    jobs = {name: run(name, again) for name in JOBS[:3]}
    try:
        until("all windows closed", all_closed(again), jobs)
        until("no more incidents", no_more_incidents(again), jobs)
    finally:
        for job in jobs.values():
            job.kill()
    return again


def distinct_statistics(settings: Settings) -> dict[tuple[str, int, int], dict[str, Any]]:
    """Return every record of the statistics topic by resource, window and part; retries may have written it twice."""
    found: dict[tuple[str, int, int], dict[str, Any]] = {}
    for item in records_of(settings, registry.STATISTICS):
        if item.key not in (wire.MARKER_KEY, wire.CONTROL_KEY):
            record = orjson.loads(item.value)
            place = (record["resource"], record["window_end_ms"], record["part"])
            assert found.setdefault(place, record) == record, "a retry wrote something else"
    return found


def test_every_record_sent_is_accounted_for(disturbed: Chain) -> None:
    statistics = distinct_statistics(disturbed.settings).values()
    late = {source_of(item) for item in records_of(disturbed.settings, registry.LATE)}
    rejected = {source_of(item) for item in records_of(disturbed.settings, registry.REJECTED)}
    assert len(late) == disturbed.sent["late"]
    assert len(rejected) == disturbed.sent["future"] + disturbed.sent["malformed"]
    assert sum(record["samples"] for record in statistics) == disturbed.sent["point"] + disturbed.sent["log"]
    assert sum(record["duplicates"] for record in statistics) == disturbed.sent["duplicate"]


def source_of(item: LogRecord) -> tuple[bytes, bytes, bytes]:
    headers = dict(item.headers)
    return (
        headers[wire.SOURCE_TOPIC_HEADER],
        headers[wire.SOURCE_PARTITION_HEADER],
        headers[wire.SOURCE_OFFSET_HEADER],
    )


def test_every_window_closes_once_and_in_order_in_every_partition(disturbed: Chain) -> None:
    ends: dict[int, list[int]] = {}
    for item in records_of(disturbed.settings, registry.STATISTICS):
        if item.key == wire.MARKER_KEY:
            marker = TypeAdapter(ClosedMarker).validate_json(item.value or b"")
            ends.setdefault(item.partition, []).append(marker.window_end_ms)
    first, *others = (sorted(set(partition)) for partition in ends.values())
    assert first == list(range(first[0], LAST_WINDOW_END_MS + 1, 60_000))
    assert all(other == first for other in others)


def test_every_fault_is_an_incident(disturbed: Chain) -> None:
    assert disturbed.report.missed == ()
    assert disturbed.report.wrongly_paged == ()
    assert len(disturbed.report.false) <= FALSE_INCIDENTS_ALLOWED


def test_elasticsearch_holds_the_latest_revision_of_every_incident(disturbed: Chain) -> None:
    latest = {item.id: item.revision for item in incident_records(disturbed.settings)}
    assert indexed_revisions(disturbed.settings) == latest


def values(settings: Settings, topic: registry.Topic) -> set[tuple[bytes | None, bytes | None]]:
    return {(item.key, item.value) for item in records_of(settings, topic)}


@pytest.mark.parametrize(
    "topic",
    [registry.STATISTICS, registry.SCORES, registry.SUMMARIES, registry.INCIDENTS, registry.LATE, registry.REJECTED],
    ids=lambda topic: topic.name,
)
def test_a_replay_says_the_same_byte_for_byte(disturbed: Chain, replayed: Settings, topic: registry.Topic) -> None:
    live, again = values(disturbed.settings, topic), values(replayed, topic)
    assert live
    assert live == again
