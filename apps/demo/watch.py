"""How far the chain is: event time reached by each job, incidents as Elasticsearch shows them, and when."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson
from confluent_kafka import KafkaException
from elasticsearch import ApiError, Elasticsearch, TransportError

from apps.local.jobs import CHAIN
from apps.local.stack import ProcessStatus, Stack
from apps.log_reader import LogReader
from apps.settings import Settings
from topics import documents, registry
from topics.records import Contributor, Incident, severity_of

_MOST_INCIDENTS: Final = 1_000


def incident_of(document: Mapping[str, Any]) -> Incident:
    """Return the incident that a document of the incidents index was made of."""

    def value(name: str) -> Any:
        return documents.read(document, name)

    return Incident(
        id=value(documents.INCIDENT_ID),
        state=value("event.action"),
        revision=value("incident.revision"),
        scope=value(documents.INCIDENT_SCOPE),
        severity=severity_of(value(documents.SCORE)),
        score=value(documents.SCORE),
        p=value("anomaly.probability"),
        start_ms=value(documents.START),
        end_ms=value(documents.END),
        last_window_end_ms=value(documents.TIMESTAMP),
        windows=value("incident.windows"),
        service=value("service.name"),
        region=value("cloud.region"),
        resources=list(value(documents.HOSTS) or ()),
        contributors=[_contributor(item) for item in value("anomaly.influencers") or ()],
        explanation=value(documents.REASON) or "",
        verdict=value("incident.verdict"),
    )


def _contributor(item: Mapping[str, Any]) -> Contributor:
    return Contributor(
        resource=item["resource"],
        metric=item["metric"],
        attributes=dict(item.get("attributes") or {}),
        unit=item["unit"],
        window_end_ms=item["timestamp"],
        actual=item["actual"],
        expected=item.get("typical"),
        lower=item.get("lower"),
        upper=item.get("upper"),
        direction=item["direction"],
        score=item["record_score"],
    )


@dataclass
class IncidentWatch:
    """Incidents in Elasticsearch, with the moment each revision was first found there.

    Attributes:
        latest: The latest revision of each incident, by id.
        first_seen_ms: Wall clock when a revision was first found by a search, by (id, revision).
        records: The revision itself, by (id, revision).
    """

    settings: Settings
    clock_ms: Callable[[], int]
    latest: dict[str, Incident] = field(default_factory=dict)
    first_seen_ms: dict[tuple[str, int], int] = field(default_factory=dict)
    records: dict[tuple[str, int], Incident] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Open the client; it connects at the first search."""
        self._client = Elasticsearch(self.settings.elasticsearch.url, request_timeout=5, max_retries=0)
        self._indices = documents.INCIDENTS.generation_alias(self.settings.generation) + "-*"

    def look(self) -> list[Incident]:
        """Search; return incidents never found before, oldest first. Without Elasticsearch there is nothing new."""
        try:
            answer = self._client.search(
                index=self._indices,
                size=_MOST_INCIDENTS,
                sort=[{documents.START: {"order": "desc", "unmapped_type": "date"}}],
            )
        except (ApiError, TransportError):
            return []
        now_ms = self.clock_ms()
        found = [incident_of(hit["_source"]) for hit in answer["hits"]["hits"]]
        new = [incident for incident in found if incident.id not in self.latest]
        for incident in found:
            self.latest[incident.id] = incident
            self.first_seen_ms.setdefault((incident.id, incident.revision), now_ms)
            self.records.setdefault((incident.id, incident.revision), incident)
        return sorted(new, key=lambda incident: incident.start_ms)

    def close(self) -> None:
        """Close the client."""
        self._client.close()


@dataclass(frozen=True)
class Reached:
    """Event time up to which windows are closed (statistics) and scored (novelty), milliseconds; None: none yet."""

    closed_ms: int | None
    scored_ms: int | None


def reached(settings: Settings) -> Reached:
    """Return how far event time has come in the derived topics."""
    return Reached(_newest_window_ms(settings, registry.STATISTICS), _newest_window_ms(settings, registry.SUMMARIES))


def _newest_window_ms(settings: Settings, topic: registry.Topic) -> int | None:
    """Return the end of the newest window in the first partition: partitions close their windows together."""
    try:
        with LogReader(settings.kafka.bootstrap_servers) as reader:
            records = reader.latest((topic.full_name(settings.generation), 0), 1)
    except KafkaException:
        return None
    ends = [orjson.loads(record.value).get("window_end_ms") for record in records if record.value]
    return max(ends, default=None)


@dataclass(frozen=True)
class Picture:
    """Everything the view shows of the chain at one moment."""

    processes: tuple[ProcessStatus, ...]
    reached: Reached
    lags: Mapping[str, int | None]

    @property
    def ended(self) -> tuple[ProcessStatus, ...]:
        """Processes that were started and are no more."""
        return tuple(process for process in self.processes if process.state == "ended")

    @property
    def findings_waiting(self) -> int | None:
        """Records that wait behind the novelty job; None while a job has not finished its first batch."""
        known = [self.lags.get(job) for job in CHAIN[2:]]
        return None if None in known else sum(lag for lag in known if lag is not None)

    @property
    def lag_records(self) -> int | None:
        """Records that wait anywhere in the chain; None while a job has not finished its first batch."""
        known = [lag for lag in self.lags.values() if lag is not None]
        return sum(known) if len(known) == len(CHAIN) else None


def lags(settings: Settings) -> dict[str, int | None]:
    """Return the records that each job has still to read, by the offsets its checkpoint has committed.

    The jobs are looked at in the order of the chain: if the lags from one job on are 0, whatever it had written at the
    first look has gone all the way. A job's own metric would not do, it is as old as its last batch.
    """
    with LogReader(settings.kafka.bootstrap_servers) as reader:
        return {job: _lag(reader, committed_offsets(settings.checkpoint_dir(job))) for job in CHAIN}


def _lag(reader: LogReader, committed: Mapping[tuple[str, int], int] | None) -> int | None:
    if committed is None:
        return None
    return sum(max(0, reader.bounds(partition)[1] - offset) for partition, offset in committed.items())


def committed_offsets(checkpoint: Path) -> dict[tuple[str, int], int] | None:
    """Return the offsets after the last record of the last finished batch, by (topic, partition); None: no batch yet.

    Args:
        checkpoint: Folder of a query's checkpoint; `offsets/<batch>` has one line of JSON per source.
    """
    batches = [int(path.name) for path in (checkpoint / "commits").glob("*") if path.name.isdecimal()]
    if not batches:
        return None
    lines = (checkpoint / "offsets" / str(max(batches))).read_text().splitlines()
    sources = [orjson.loads(line) for line in lines[2:] if line.startswith("{")]
    return {
        (topic, int(partition)): offset
        for source in sources
        for topic, partitions in source.items()
        for partition, offset in partitions.items()
    }


def picture(stack: Stack) -> Picture:
    """Look at the chain."""
    return Picture(tuple(stack.status()), reached(stack.settings), _lags_or_unknown(stack.settings))


def _lags_or_unknown(settings: Settings) -> dict[str, int | None]:
    """Return the lags, unknown while the broker is not there or a checkpoint is just being cleaned."""
    try:
        return lags(settings)
    except (KafkaException, OSError, ValueError):
        return dict.fromkeys(CHAIN)
