"""The records of a run: scores, summaries and snapshots, as bytes, from columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from operator import itemgetter
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from models.interface import LOG10_P_FLOOR, Floats, Likelihood
from models.series import MODEL_VERSION
from pipelines.novelty.packing import Integers, Marker, Place, field_names
from pipelines.novelty.state import BucketState
from pipelines.parameters import NoveltyParameters
from topics.records import (
    Direction,
    Finding,
    GroupCount,
    ModelSnapshot,
    Score,
    SeriesModel,
    SeriesScore,
    Summary,
    severity_of,
)

_SERIES_FIELDS: Final = field_names(SeriesScore)
_SCORE_FIELDS: Final = field_names(Score)

#: Directions, indexed by their code.
DIRECTIONS: Final[tuple[Direction, ...]] = ("high", "low", "new")
HIGH, LOW, NEW = range(3)


@dataclass(frozen=True)
class SeriesColumns:
    """Verdicts on series, columns of equal length, those of one resource and window together.

    Attributes:
        row: Row of the series.
        actual: What was observed.
        expected: Predictive median, NaN while nothing is known.
        lower: Lower bound of the 99 % interval.
        upper: Upper bound of it.
        log10_p: Decimal logarithm of the tail probability.
        score: 0-100.
        direction: Index in `DIRECTIONS`.
        contribution: Share of the resource's evidence.
        observations: Windows the prediction rests on.
        anomaly: Probability of an anomaly.
        new_normal: Probability of a new normal.
        regime: Number of the regime.
        regime_windows: Its age.
        sustained: Whether the last windows together speak.
        skipped: Which rule takes the series out of the evidence, 0 for none.
    """

    row: Integers
    actual: Floats
    expected: Floats
    lower: Floats
    upper: Floats
    log10_p: Floats
    score: Floats
    direction: NDArray[np.int8]
    contribution: Floats
    observations: Floats
    anomaly: Floats
    new_normal: Floats
    regime: NDArray[np.int32]
    regime_windows: Floats
    sustained: NDArray[np.bool_]
    skipped: NDArray[np.int32]

    def take(self, order: Integers) -> SeriesColumns:
        """Return the verdicts in another order."""
        return SeriesColumns(*(getattr(self, item.name)[order] for item in fields(self)))

    def shared(self, contribution: Floats) -> SeriesColumns:
        """Return the verdicts with each series' share of its resource's evidence."""
        return replace(self, contribution=contribution)

    def as_series(self, names: Sequence[list[Any]], rules: Sequence[str | None]) -> Iterator[dict[str, Any]]:
        """Return one `SeriesScore` each; `names` holds metric, attributes, kind and unit of every row, `rules` ids.

        One at a time: thousands of living dictionaries would keep the garbage collector busy.
        """
        chosen = [names[row] for row in self.row.tolist()]
        columns = (
            map(itemgetter(0), chosen), map(itemgetter(1), chosen), map(itemgetter(2), chosen),
            map(itemgetter(3), chosen), self.actual.tolist(), self.expected.tolist(), self.lower.tolist(),
            self.upper.tolist(), probability(self.log10_p).tolist(), np.round(self.score, 2).tolist(),
            map(DIRECTIONS.__getitem__, self.direction.tolist()), np.round(self.contribution, 4).tolist(),
            np.round(self.observations, 2).tolist(), np.round(self.anomaly, 4).tolist(),
            np.round(self.new_normal, 4).tolist(), self.regime.tolist(),
            self.regime_windows.astype(np.int64).tolist(), self.sustained.tolist(),
            map(rules.__getitem__, self.skipped.tolist()),
        )  # fmt: skip
        return (dict(zip(_SERIES_FIELDS, values, strict=True)) for values in zip(*columns, strict=True))


def probability(log10_p: Floats) -> Floats:
    """Return p, never below the floor."""
    return np.asarray(np.power(10.0, np.maximum(log10_p, LOG10_P_FLOOR)))


@dataclass(frozen=True)
class ResourceColumns:
    """Verdicts on resources, columns of equal length in (window, resource name) order.

    Attributes:
        window: Index of the window in the run.
        resource: Index of the resource.
        log10_p: Decimal logarithm of the calibrated p.
        score: 0-100.
        silent: Whether the verdict is that the resource fell silent.
        age: Windows with a record so far.
        first: Where its series begin in the `SeriesColumns`.
        last: Where they end.
    """

    window: Integers
    resource: Integers
    log10_p: Floats
    score: Floats
    silent: NDArray[np.bool_]
    age: Integers
    first: Integers
    last: Integers


@dataclass(frozen=True)
class Verdict:
    """Verdict on one resource in one window; `place` is where it belongs."""

    window: int
    name: str
    place: Place
    p: float
    score: float
    silent: bool
    age: int
    series: list[dict[str, Any]]

    def score_record(self, window: Marker) -> bytes:
        """Return the `Score` record."""
        values = (
            self.name, window.start_ms, window.end_ms, *self.place, self.p, self.score, severity_of(self.score),
            self.silent, MODEL_VERSION, self.series,
        )  # fmt: skip
        return orjson.dumps(dict(zip(_SCORE_FIELDS, values, strict=True)))

    def finding(self, top_series: int) -> Finding:
        """Return the finding, with the most surprising series first."""
        evidence = [series for series in self.series if series[_SUPPRESSED] is None]
        top: Any = sorted(evidence, key=_surprise)[:top_series]
        return Finding(self.name, *self.place, self.p, self.score, self.silent, self.age, top)


_P: Final = SeriesScore.__dataclass_fields__["p"].name
_SUPPRESSED: Final = SeriesScore.__dataclass_fields__["suppressed"].name


def _surprise(series: dict[str, Any]) -> float:
    """Order of the top series: smallest p first; of equals, the one that stands first."""
    return float(series[_P])


def verdicts(
    columns: ResourceColumns, series: Iterator[dict[str, Any]], names: Sequence[str], places: Sequence[Sequence[Place]]
) -> Iterator[Verdict]:
    """Return the verdicts of a run in order, each with its part of the series."""
    rows = zip(
        columns.window.tolist(), columns.resource.tolist(), probability(columns.log10_p).tolist(),
        np.round(columns.score, 2).tolist(), columns.silent.tolist(), columns.age.tolist(),
        (columns.last - columns.first).tolist(), strict=True,
    )  # fmt: skip
    for window, resource, p, score, silent, age, count in rows:
        place = places[window][resource]
        yield Verdict(window, names[resource], place, p, score, silent, age, list(islice(series, count)))


@dataclass
class Tally:
    """What a window's summary says about its verdicts."""

    scores: int = 0
    series: int = 0
    findings: list[Finding] = field(default_factory=list)

    def add(self, verdict: Verdict, rules: NoveltyParameters) -> None:
        """Count a verdict; keep it as a finding if it matters."""
        self.scores += 1
        self.series += len(verdict.series)
        if verdict.silent or verdict.p < rules.report_p:
            self.findings.append(verdict.finding(rules.top_series))

    @property
    def silent(self) -> int:
        """Resources that fell silent."""
        return sum(finding.silent for finding in self.findings)

    def summary(
        self, window: Marker, places: Sequence[Place], refused: int, bucket: int, rules: NoveltyParameters
    ) -> Summary:
        """Return the summary of a window in which resources with these places were known, without verdicts."""
        return Summary(
            bucket=bucket,
            buckets=rules.buckets,
            window_start_ms=window.start_ms,
            window_end_ms=window.end_ms,
            scores=self.scores,
            resources=len(places),
            silent=self.silent,
            series=self.series,
            refused_series=refused,
            findings=self.findings,
            groups=group_counts(places, self.findings),
        )


def group_counts(places: Sequence[Place], findings: Sequence[Finding]) -> list[GroupCount]:
    """Count known, silent and surprising resources per service and region, sorted."""
    known = Counter((place.service, place.region) for place in places)
    silent = Counter((finding.service, finding.region) for finding in findings if finding.silent)
    surprising = Counter((finding.service, finding.region) for finding in findings if not finding.silent)
    order = sorted(known, key=lambda group: tuple((name is not None, name or "") for name in group))
    return [GroupCount(*group, known[group], silent[group], surprising[group]) for group in order]


def snapshots(state: BucketState, names: Sequence[list[Any]]) -> Iterator[tuple[bytes, bytes]]:
    """Return key and `ModelSnapshot` of every resource seen since the last snapshot."""
    rows: list[list[int]] = [[] for _ in state.names]
    for row, resource in enumerate(state.series.resource.tolist()):
        rows[resource].append(row)
    for resource in np.flatnonzero(state.resources.last_end_ms > state.snapshot_ms).tolist():
        name = state.names[resource]
        models = [_series_model(state, row, names[row]) for row in rows[resource]]
        yield name.encode(), orjson.dumps(ModelSnapshot(name, state.end_ms, MODEL_VERSION, models))


def _series_model(state: BucketState, row: int, name: list[Any]) -> SeriesModel:
    metric, attributes, kind, unit = name
    likelihood = Likelihood(int(state.series.likelihood[row])).name.lower()
    last_end_ms = int(state.series.last_end_ms[row])
    return SeriesModel(metric, attributes, kind, unit, likelihood, last_end_ms, state.models.describe(row))
