"""A small cloud in plain records: summaries as the novelty job writes them, from what was surprising in each window."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from models.fleet import log10_of
from pipelines.incidents.fold import Outcome, fold
from pipelines.parameters import IncidentParameters
from topics.records import Direction, Finding, GroupCount, Incident, OperatorVerdict, SeriesScore, Summary

WINDOW_MS = 60_000
BEGIN_MS = 1_763_690_400_000
PARAMETERS = IncidentParameters(buckets=4)


def score_of(p: float) -> float:
    """Return the calibrated score: -log10 p of 2, 4, 6, 8, 12 are 0, 25, 50, 75, 100."""
    surprise = -log10_of(p)
    if surprise <= 8:
        return max(0.0, 12.5 * (surprise - 2))
    return min(100.0, 75 + 6.25 * (surprise - 8))


def series(
    p: float,
    *,
    metric: str = "system.cpu.utilization",
    actual: float = 0.97,
    expected: float | None = 0.41,
    direction: Direction = "high",
    unit: str = "1",
    attributes: Mapping[str, str] | None = None,
) -> SeriesScore:
    lower, upper = (None, None) if expected is None else (0.8 * expected, 1.2 * expected)
    return SeriesScore(
        metric,
        dict(attributes or {}),
        "gauge",
        unit,
        actual,
        expected,
        lower,
        upper,
        p,
        score_of(p),
        direction,
        1.0,
        500.0,
    )


@dataclass(frozen=True)
class Resource:
    name: str
    service: str | None
    region: str | None

    def finding(
        self, p: float, silent: bool = False, age_windows: int = 5_000, top: Sequence[SeriesScore] | None = None
    ) -> Finding:
        shown = ([] if silent else [series(p)]) if top is None else list(top)
        return Finding(self.name, self.service, self.region, None, p, score_of(p), silent, age_windows, shown)


@dataclass(frozen=True)
class Cloud:
    """Resources and their buckets."""

    resources: tuple[Resource, ...]
    parameters: IncidentParameters = PARAMETERS

    def bucket(self, resource: str) -> int:
        return zlib.crc32(resource.encode()) % self.parameters.buckets

    def summaries(
        self, window: int, findings: Iterable[Finding] = (), verdicts: Sequence[OperatorVerdict] = ()
    ) -> list[bytes]:
        """Return the summaries of all buckets for the window with this number; the first carries the verdicts."""
        found, said = list(findings), [list(verdicts), *([] for _ in range(1, self.parameters.buckets))]
        return [self._summary(bucket, window, found, said[bucket]) for bucket in range(self.parameters.buckets)]

    def _summary(self, bucket: int, window: int, found: Sequence[Finding], said: list[OperatorVerdict]) -> bytes:
        own = [resource for resource in self.resources if self.bucket(resource.name) == bucket]
        findings = [item for item in found if self.bucket(item.resource) == bucket]
        places = sorted({(item.service or "", item.region or "") for item in own})
        groups = [
            GroupCount(
                service or None,
                region or None,
                sum((item.service or "", item.region or "") == (service, region) for item in own),
                sum(item.silent for item in findings if (item.service or "", item.region or "") == (service, region)),
                sum(
                    not item.silent for item in findings if (item.service or "", item.region or "") == (service, region)
                ),
            )
            for service, region in places
        ]
        start_ms = BEGIN_MS + window * WINDOW_MS
        return orjson.dumps(
            Summary(
                bucket=bucket,
                buckets=self.parameters.buckets,
                window_start_ms=start_ms,
                window_end_ms=start_ms + WINDOW_MS,
                scores=len(own),
                resources=len(own),
                silent=sum(item.silent for item in findings),
                series=len(own),
                refused_series=0,
                findings=findings,
                groups=groups,
                verdicts=said,
            )
        )

    def log(
        self,
        windows: int,
        events: Mapping[int, Sequence[Finding]],
        verdicts: Mapping[int, Sequence[OperatorVerdict]] | None = None,
    ) -> list[bytes]:
        """Return all summaries of so many windows, with findings and verdicts in some of them."""
        said = verdicts or {}
        return [
            value
            for window in range(windows)
            for value in self.summaries(window, events.get(window, ()), said.get(window, ()))
        ]


def cloud(
    services: Sequence[str] = ("upf", "smf", "amf", "cell"),
    regions: Sequence[str] = ("north", "south"),
    each: int = 8,
    parameters: IncidentParameters = PARAMETERS,
) -> Cloud:
    """Return a cloud of `each` resources per service and region, named `upf-north-03`."""
    return Cloud(
        tuple(
            Resource(f"{service}-{region}-{number:02d}", service, region)
            for service in services
            for region in regions
            for number in range(each)
        ),
        parameters,
    )


@dataclass
class Run:
    """The fold with its state, fed piece by piece."""

    parameters: IncidentParameters = PARAMETERS
    state: bytes | None = None
    outcomes: list[Outcome] = field(default_factory=list)

    def __call__(self, summaries: Iterable[bytes]) -> tuple[Incident, ...]:
        self.state, outcome = fold(self.state, summaries, self.parameters)
        self.outcomes.append(outcome)
        return outcome.incidents

    @property
    def incidents(self) -> list[Incident]:
        return [incident for outcome in self.outcomes for incident in outcome.incidents]


def at(first: int, last: int, *findings: Finding) -> dict[int, list[Finding]]:
    """Return the same findings in windows first to last, both included."""
    return {window: list(findings) for window in range(first, last + 1)}


def run(
    cloud: Cloud,
    windows: int,
    events: Mapping[int, Sequence[Finding]],
    verdicts: Mapping[int, Sequence[OperatorVerdict]] | None = None,
) -> list[Incident]:
    """Fold a whole log at once; return the records."""
    return list(Run(cloud.parameters)(cloud.log(windows, events, verdicts)))


def by_id(records: Iterable[Incident]) -> dict[str, list[Incident]]:
    """Return the records of each incident, incidents in order of appearance."""
    found: dict[str, list[Incident]] = {}
    for record in records:
        found.setdefault(record.id, []).append(record)
    return found


def pieces(values: Sequence[bytes], cuts: Iterable[int]) -> Iterator[Sequence[bytes]]:
    """Cut a list at these places."""
    begin = 0
    for end in sorted({min(cut, len(values)) for cut in cuts} | {len(values)}):
        yield values[begin:end]
        begin = end
