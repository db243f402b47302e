"""The registry of topics: name, key, record, retention, the one writer, the readers.

A *raw* topic is the log: it exists once. A *derived* topic belongs to a generation (one run of the chain over the log)
and carries its name as suffix, so that a replay stands beside the live chain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from topics import controls, records

DAY_MS: Final = 24 * 3600 * 1000
MIB: Final = 1024 * 1024

#: Largest raw message; derived topics that keep original bytes allow for headers on top.
RAW_MESSAGE_LIMIT_BYTES: Final = 4 * MIB
KEPT_MESSAGE_LIMIT_BYTES: Final = RAW_MESSAGE_LIMIT_BYTES + 64 * 1024
STATISTICS_MESSAGE_LIMIT_BYTES: Final = MIB


@dataclass(frozen=True)
class Topic:
    """One topic: the contract between its one writer and its readers.

    Attributes:
        name: Base name; a derived topic's full name adds the generation.
        key: What the record key is, in words.
        record: Type of the record value, or None where the value is foreign bytes.
        layer: `raw` (the log) or `derived` (belongs to a generation).
        writer: The one job that writes it.
        readers: The jobs that read it.
        partitions: `raw`, `derived` or `one`: which setting gives the number of partitions.
        cleanup: `delete` by age or `compact` by key.
        retention_ms: Age after which records may go; None with compaction.
        message_limit_bytes: Largest record the broker accepts.
        others: Further record types in the topic, told apart by their field `type`.
    """

    name: str
    key: str
    record: type[Any] | None
    layer: Literal["raw", "derived"]
    writer: str
    readers: tuple[str, ...]
    partitions: Literal["raw", "derived", "one"] = "derived"
    cleanup: Literal["delete", "compact"] = "delete"
    retention_ms: int | None = 7 * DAY_MS
    message_limit_bytes: int = MIB
    others: tuple[type[Any], ...] = ()

    @property
    def records(self) -> tuple[type[Any], ...]:
        """All record types of the topic."""
        return () if self.record is None else (self.record, *self.others)

    def full_name(self, generation: str) -> str:
        """Return the name in the broker; `telemetry.statistics.g1` for generation g1, raw names as they are."""
        return self.name if self.layer == "raw" else f"{self.name}.{generation}"


OTLP_METRICS: Final = Topic(
    "otlp.metrics", "any or none", None, "raw", "OpenTelemetry Collector", ("statistics",),
    partitions="raw", retention_ms=14 * DAY_MS, message_limit_bytes=RAW_MESSAGE_LIMIT_BYTES,
)  # fmt: skip
OTLP_LOGS: Final = Topic(
    "otlp.logs", "any or none", None, "raw", "OpenTelemetry Collector", ("statistics",),
    partitions="raw", retention_ms=14 * DAY_MS, message_limit_bytes=RAW_MESSAGE_LIMIT_BYTES,
)  # fmt: skip
METRICS: Final = Topic(
    "telemetry.metrics", "resource", records.MetricPoint, "raw", "feed, simulator, any producer", ("statistics",),
    partitions="raw", retention_ms=14 * DAY_MS, message_limit_bytes=RAW_MESSAGE_LIMIT_BYTES,
)  # fmt: skip
LOGS: Final = Topic(
    "telemetry.logs", "resource", records.LogEvent, "raw", "feed, simulator, any producer", ("statistics",),
    partitions="raw", retention_ms=14 * DAY_MS, message_limit_bytes=RAW_MESSAGE_LIMIT_BYTES,
)  # fmt: skip
CONTROL: Final = Topic(
    "telemetry.control", "resource, rule or incident", records.Inventory, "raw",
    "kappa inventory, kappa rules, kappa verdict", ("statistics",), partitions="one", retention_ms=None,
    others=(controls.Rule, controls.RuleRemoval, records.OperatorVerdict),
)  # fmt: skip

LATE: Final = Topic(
    "telemetry.late", "as received", None, "derived", "statistics", ("operators",),
    message_limit_bytes=KEPT_MESSAGE_LIMIT_BYTES,
)  # fmt: skip
REJECTED: Final = Topic(
    "telemetry.rejected", "as received", None, "derived", "statistics", ("operators",),
    message_limit_bytes=KEPT_MESSAGE_LIMIT_BYTES,
)  # fmt: skip
STATISTICS: Final = Topic(
    "telemetry.statistics", "resource", records.Statistics, "derived", "statistics", ("novelty",),
    message_limit_bytes=STATISTICS_MESSAGE_LIMIT_BYTES,
)  # fmt: skip
SCORES: Final = Topic("novelty.scores", "resource", records.Score, "derived", "novelty", ("indexer",),
                      message_limit_bytes=4 * MIB)  # fmt: skip
SUMMARIES: Final = Topic("novelty.summaries", "bucket", records.Summary, "derived", "novelty", ("incidents",),
                         message_limit_bytes=16 * MIB)  # fmt: skip
MODELS: Final = Topic(
    "novelty.models", "resource", records.ModelSnapshot, "derived", "novelty", ("kappa state",),
    cleanup="compact", retention_ms=None, message_limit_bytes=4 * MIB,
)  # fmt: skip
INCIDENTS: Final = Topic(
    "novelty.incidents", "incident id", records.Incident, "derived", "incidents", ("indexer", "notifiers"),
    partitions="one", cleanup="compact", retention_ms=None,
)  # fmt: skip
INDEX_REJECTED: Final = Topic(
    "index.rejected", "document id", None, "derived", "indexer", ("operators",),
    message_limit_bytes=KEPT_MESSAGE_LIMIT_BYTES,
)  # fmt: skip

#: Topics whose points go through the gate, in a fixed order.
RAW_TOPICS: Final = (OTLP_METRICS, OTLP_LOGS, METRICS, LOGS, CONTROL)
DERIVED_TOPICS: Final = (LATE, REJECTED, STATISTICS, SCORES, SUMMARIES, MODELS, INCIDENTS, INDEX_REJECTED)
TOPICS: Final = RAW_TOPICS + DERIVED_TOPICS
