"""Settings of the jobs, one frozen dataclass each, units in the names.

A setting is `result` (it changes what is written; a checkpoint remembers it, and a job refuses to continue with another
value) or `operation` (it changes only how the work is done). The annotation `Operation[...]` marks the second kind;
everything else is a result setting.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, fields
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

T = TypeVar("T")


class _OperationMark:
    """Marks a setting that does not change results."""


Operation = Annotated[T, _OperationMark()]


@dataclass(frozen=True)
class TimeRules:
    """When a point belongs to a window, and when a window is complete. All times are event time.

    arrival - event time > `lateness_s`: late. event time - arrival > `future_s`: rejected. A window [start, end) is
    closed when the arrival clock passes end + `lateness_s` + `slack_s`; `slack_s` covers steps of the broker's clock.
    `arrival` says what arrival is: the broker's append time, or (for feeds, archives, mirrors) the header the one
    writer set.
    """

    window_s: int = 60
    lateness_s: int = 30
    future_s: int = 10
    slack_s: int = 2
    arrival: Literal["broker", "history"] = "broker"

    def __post_init__(self) -> None:
        """Refuse settings that contradict each other."""
        if self.window_s <= 0 or min(self.lateness_s, self.future_s, self.slack_s) < 0:
            message = "window_s must be positive; lateness_s, future_s and slack_s must not be negative"
            raise ValueError(message)

    @property
    def watermark_delay_s(self) -> int:
        """Watermark delay: ticks run `future_s` ahead of arrival, so the watermark is arrival - lateness - slack."""
        return self.lateness_s + self.future_s + self.slack_s


@dataclass(frozen=True)
class StatisticsParameters:
    """Settings of the statistics job."""

    time: TimeRules = field(default_factory=TimeRules)
    #: OTLP resource attributes that name the resource, first present wins.
    resource_attributes: tuple[str, ...] = ("service.instance.id", "k8s.pod.uid", "host.name")
    service_attributes: tuple[str, ...] = ("service.name",)
    region_attributes: tuple[str, ...] = ("cloud.region",)
    site_attributes: tuple[str, ...] = ("cloud.availability_zone", "site")
    #: Cap on samples per resource and window; the excess is reported.
    samples_per_window: int = 100_000
    #: Most frequent log templates kept per resource and window; the rest is counted as one.
    templates_per_window: int = 100
    batch_points: Operation[int] = 500_000


@dataclass(frozen=True)
class NoveltyParameters:
    """Settings of the novelty job."""

    buckets: int = 8
    #: A series or resource unseen for this span of event time leaves the state.
    expiry_s: int = 7 * 86_400
    series_per_resource: int = 2_000
    #: Resources whose combined p is below this are reported to the roll-up.
    report_p: float = 1e-2
    #: Surprising series listed per reported resource.
    top_series: int = 5
    #: A known resource is silent after this many of its learned reporting intervals without a record.
    silent_intervals: float = 3.0
    #: Windows with logs after which a resource has shown what it logs: a template never seen before is then evidence.
    log_warmup_windows: int = 60
    #: Windows between snapshots of the posterior for serving.
    snapshot_windows: int = 60
    batch_records: Operation[int] = 20_000


@dataclass(frozen=True)
class IncidentParameters:
    """Settings of the incidents job."""

    buckets: int = 8
    window_s: int = 60
    #: What the user is willing to see: expected false incidents per day over the whole fleet.
    false_incidents_per_day: float = 1.0
    #: Instead of it: wanted share of true ones among the incidents, between 0 and 1.
    target_precision: float | None = None
    #: Windows without evidence after which an incident closes.
    close_after_windows: int = 5
    #: Windows a resource must be known before it can open an incident.
    warmup_windows: int = 60
    #: Share of a group's resources surprising at once that makes the group the scope.
    group_share: float = 0.3
    group_minimum: int = 3
    #: Resources surprising within this many windows of each other may have one cause.
    group_windows: int = 3
    #: A single resource's incident shorter than this stays at most minor: a restart, a blip.
    brief_s: int = 600
    #: Longest time, in windows, an open incident goes without an update record.
    update_windows: int = 60
    #: What the novelty job reports: findings with p below this.
    report_p: float = 1e-2
    #: Most summaries in a micro-batch.
    batch_records: Operation[int] = 20_000

    def __post_init__(self) -> None:
        """Refuse levels that cannot be."""
        if self.false_incidents_per_day <= 0:
            message = "false_incidents_per_day must be positive"
            raise ValueError(message)
        if self.target_precision is not None and not 0 < self.target_precision < 1:
            message = "target_precision must lie between 0 and 1, for example 0.9"
            raise ValueError(message)


@dataclass(frozen=True)
class IndexerParameters:
    """Settings of the indexer job."""

    #: Resource and series scores below this stay in the topic and are not indexed.
    score_threshold: float = 3.0
    index_period: Literal["month", "day"] = "month"
    shards: int = 1
    replicas: int = 0
    refresh_interval: Operation[str] = "1s"
    bulk_documents: Operation[int] = 1_000
    #: Most records in a micro-batch.
    batch_records: Operation[int] = 20_000


def result_settings(parameters: Any) -> dict[str, Any]:
    """Return the settings that change results, as plain JSON values.

    Args:
        parameters: One of the dataclasses of this module.
    """
    hints = get_type_hints(type(parameters), include_extras=True)
    values = asdict(parameters)
    return {
        item.name: values[item.name]
        for item in fields(parameters)
        if not any(isinstance(mark, _OperationMark) for mark in getattr(hints[item.name], "__metadata__", ()))
    }


def settings_fingerprint(parameters: Any) -> str:
    """Return a hash of the result settings; equal fingerprints promise equal results on the same log."""
    canonical = json.dumps(result_settings(parameters), sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(canonical.encode(), digest_size=8).hexdigest()
