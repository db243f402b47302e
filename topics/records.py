"""Record types of all topics. The value of a Kafka record is the JSON object of one of these dataclasses.

Units stand in the names: `_ms` and `_ns` are event times since the epoch, `_s` are durations. Field order is wire
order: the same record always has the same bytes. Optional fields are `| None` and written as null.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

Kind = Literal["gauge", "delta", "cumulative", "ratio"]
KINDS: Final[tuple[Kind, ...]] = ("gauge", "delta", "cumulative", "ratio")

Severity = Literal["none", "warning", "minor", "major", "critical"]
#: Lowest score of each severity; the bands users of Elastic's anomaly explorer know.
SEVERITY_FROM_SCORE: Final[tuple[tuple[Severity, float], ...]] = (
    ("critical", 75.0),
    ("major", 50.0),
    ("minor", 25.0),
    ("warning", 3.0),
    ("none", 0.0),
)


def severity_of(score: float) -> Severity:
    """Return the severity band of a score in [0, 100]; below it (or not a number) nothing is severe."""
    return next((severity for severity, lowest in SEVERITY_FROM_SCORE if score >= lowest), "none")


#: Names of the series that log events are counted in; kind `delta`, one event counts 1.
LOG_SEVERITY_METRIC: Final = "log.severity"
LOG_TEMPLATE_METRIC: Final = "log.template"
#: Template that counts the events beyond the most frequent templates of a resource's window.
LOG_OTHER_TEMPLATE: Final = "<other>"


# ---- raw telemetry ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MetricPoint:
    """One measurement of one series. A series is resource + metric + attributes (+ kind and unit)."""

    resource: str
    metric: str
    time_ns: int
    value: float
    kind: Kind = "gauge"
    unit: str = "1"
    attributes: dict[str, str] = field(default_factory=dict)
    #: Start of a cumulative counter's life; a later start means a reset.
    start_time_ns: int | None = None
    #: Of how many trials a `ratio` is the share; null when only the share is known.
    total: float | None = None


@dataclass(frozen=True)
class LogEvent:
    """One log event; counted per severity and per template (the body with its variable parts masked)."""

    resource: str
    time_ns: int
    severity: str
    body: str
    attributes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Inventory:
    """Control record: what a resource is. Applied at the marker of the window of its arrival."""

    resource: str
    service: str | None = None
    region: str | None = None
    site: str | None = None
    type: Literal["inventory"] = "inventory"


Opinion = Literal["expected", "wrong", "confirmed"]


@dataclass(frozen=True)
class Subject:
    """What a verdict is about: a metric of a resource, or all of them."""

    resource: str
    metric: str | None = None


@dataclass(frozen=True)
class OperatorVerdict:
    """Control record: what an operator says of an incident. Applied at the marker of the window of its arrival.

    It says itself what it is about: nothing is looked up when it is applied. `incident` is the incident's id; where no
    incident has this id, or it is null, it is about the incidents of the subjects' resources within the span (null:
    open to that side).
    """

    verdict: Opinion
    incident: str | None = None
    subjects: list[Subject] = field(default_factory=list)
    start_ms: int | None = None
    end_ms: int | None = None
    note: str | None = None
    type: Literal["verdict"] = "verdict"


# ---- statistics --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SeriesStatistics:
    """Exact statistics of one series over the distinct points of one window.

    `m2` is the sum of squared deviations from the mean. `increase` is a cumulative counter's growth between the first
    and the last point of the window, resets counted from zero; the step from the previous window's last point is added
    by the reader who knows it. `sum` and `total` of a ratio with known trials are successes and trials.
    """

    metric: str
    attributes: dict[str, str]
    kind: Kind
    unit: str
    n: int
    sum: float
    mean: float
    m2: float
    min: float
    max: float
    first: float
    first_time_ns: int
    last: float
    last_time_ns: int
    increase: float | None = None
    start_time_ns: int | None = None
    total: float | None = None


@dataclass(frozen=True)
class Statistics:
    """All series of one resource in one window: a resource's window is atomic.

    A record that would pass the message limit is written in `parts` numbered parts. `excess` counts samples beyond the
    cap per resource and window. Service, region and site are null where the telemetry itself does not tell them.
    """

    resource: str
    window_start_ms: int
    window_end_ms: int
    part: int
    parts: int
    service: str | None
    region: str | None
    site: str | None
    samples: int
    duplicates: int
    excess: int
    series: list[SeriesStatistics]


@dataclass(frozen=True)
class ClosedMarker:
    """Window is complete in this partition, which holds `records` records of it."""

    window_start_ms: int
    window_end_ms: int
    partition: int
    records: int


# ---- novelty -----------------------------------------------------------------------------------------------------

Direction = Literal["high", "low", "new", "silent"]


@dataclass(frozen=True)
class SeriesScore:
    """What the model expected of one series in one window, and what came.

    `p` is the two-sided predictive tail probability, `score` its 0-100 image, `contribution` the series' share of the
    resource's evidence. `lower` and `upper` bound the 99 % predictive interval, `observations` is the number of windows
    the prediction rests on. `anomaly` and `new_normal` are the probabilities of these hypotheses, the rest is the
    present normal's; `regime` numbers the level the series lives in, since `regime_windows`. `sustained` tells that
    the last windows together speak rather than this one. `suppressed` is the id of the rule that takes the series out
    of the evidence; its score and contribution are then 0.
    """

    metric: str
    attributes: dict[str, str]
    kind: Kind
    unit: str
    actual: float
    expected: float | None
    lower: float | None
    upper: float | None
    p: float
    score: float
    direction: Direction
    contribution: float
    observations: float
    anomaly: float = 0.0
    new_normal: float = 0.0
    regime: int = 0
    regime_windows: int = 0
    sustained: bool = False
    suppressed: str | None = None


@dataclass(frozen=True)
class Score:
    """Verdict on one resource in one window: combined p over its series, and each series beside its prediction."""

    resource: str
    window_start_ms: int
    window_end_ms: int
    service: str | None
    region: str | None
    site: str | None
    p: float
    score: float
    severity: Severity
    silent: bool
    model_version: str
    series: list[SeriesScore]


@dataclass(frozen=True)
class Finding:
    """A resource that matters in a window, with its most surprising series."""

    resource: str
    service: str | None
    region: str | None
    site: str | None
    p: float
    score: float
    silent: bool
    #: Windows this resource has been known to the model; young resources are judged with more caution.
    age_windows: int
    top: list[SeriesScore]


@dataclass(frozen=True)
class GroupCount:
    """Known, silent and surprising resources of one service in one region."""

    service: str | None
    region: str | None
    resources: int
    silent: int
    surprising: int


@dataclass(frozen=True)
class Summary:
    """Window is complete in this bucket: `scores` score records were written; findings and counts for the roll-up."""

    bucket: int
    buckets: int
    window_start_ms: int
    window_end_ms: int
    scores: int
    resources: int
    silent: int
    series: int
    refused_series: int
    findings: list[Finding]
    groups: list[GroupCount]
    #: What operators said, in the summaries of bucket 0 only.
    verdicts: list[OperatorVerdict] = field(default_factory=list)


@dataclass(frozen=True)
class ModelSnapshot:
    """Posterior of every series of one resource, for serving; compacted by resource."""

    resource: str
    window_end_ms: int
    model_version: str
    series: list[SeriesModel]


@dataclass(frozen=True)
class SeriesModel:
    """Posterior of one series: named state variables of its model."""

    metric: str
    attributes: dict[str, str]
    kind: Kind
    unit: str
    model: str
    last_window_end_ms: int
    parameters: dict[str, float]


# ---- incidents ---------------------------------------------------------------------------------------------------

Scope = Literal["resource", "service", "region", "cloud"]


@dataclass(frozen=True)
class Contributor:
    """One series' part in an incident, at its most surprising window."""

    resource: str
    metric: str
    attributes: dict[str, str]
    unit: str
    window_end_ms: int
    actual: float
    expected: float | None
    lower: float | None
    upper: float | None
    direction: Direction
    score: float


@dataclass(frozen=True)
class Incident:
    """One episode with one cause, as far as the evidence shows. The latest record per id is the truth.

    `start_ms` is the start of the first surprising window, `end_ms` the end of the last one (null while open),
    `last_window_end_ms` the newest window judged. `revision` grows with every record of the same incident. `verdict`
    and `note` are an operator's; an incident judged expected or wrong is closed.
    """

    id: str
    state: Literal["open", "update", "close"]
    revision: int
    scope: Scope
    severity: Severity
    score: float
    p: float
    start_ms: int
    end_ms: int | None
    last_window_end_ms: int
    windows: int
    service: str | None
    region: str | None
    resources: list[str]
    contributors: list[Contributor]
    explanation: str
    verdict: Opinion | None = None
    note: str | None = None
