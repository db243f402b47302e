"""Samples for tests, and statistics of a plain list of points, written without NumPy, to compare with."""

from __future__ import annotations

import itertools
import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from pipelines.parameters import StatisticsParameters, TimeRules
from pipelines.statistics import rows
from pipelines.statistics.pack import NONE, Columns, Packer
from pipelines.statistics.summarise import Window, summarise

SAMPLE_TYPE = pa.struct(
    [
        ("series", pa.string()),
        ("time_ns", pa.int64()),
        ("value", pa.float64()),
        ("total", pa.float64()),
        ("start_time_ns", pa.int64()),
        ("id", pa.int64()),
        ("origin", pa.string()),
    ]
)
PACKED_TYPE = pa.struct([("names", pa.binary()), ("points", pa.binary()), ("origin", pa.string())])
SECOND_NS = 1_000_000_000


@dataclass(frozen=True)
class Sample:
    """One sample as the aggregation collects it."""

    series: str
    time_ns: int
    value: float
    total: float | None = None
    start_time_ns: int | None = None
    id: int = 0
    origin: str | None = None


def metric(
    time_s: float, value: float, name: str = "m", kind: str = "gauge", attributes: str = "{}", **rest: Any
) -> Sample:
    series = rows.SEPARATOR.join((kind, "1", name, attributes))
    return Sample(series, round(time_s * SECOND_NS), value, **rest)


def log_event(time_s: float, template: str, identity: int, severity: str = "INFO") -> Sample:
    series = rows.SEPARATOR.join((rows.LOG_KIND, "1", severity, template))
    return Sample(series, round(time_s * SECOND_NS), 1.0, id=identity)


def windows_of(*lists: list[Sample], **settings: Any) -> list[Window]:
    array = pa.array([[asdict(sample) for sample in samples] for samples in lists], pa.list_(SAMPLE_TYPE))
    nothing = pa.array([[] for _ in lists], pa.list_(PACKED_TYPE))
    return summarise(array, nothing, StatisticsParameters(**settings))


def packed_windows_of(*lists: list[list[Sample]], **settings: Any) -> list[Window]:
    """Windows of samples that arrive packed: for each window a list of packs."""
    packs = [[pack for samples in packs for pack in packed(samples)] for packs in lists]
    nothing = pa.array([[] for _ in lists], pa.list_(SAMPLE_TYPE))
    return summarise(nothing, pa.array(packs, pa.list_(PACKED_TYPE)), StatisticsParameters(**settings))


def packed(samples: list[Sample]) -> list[dict[str, Any]]:
    packer = Packer(TimeRules(window_s=1_000_000))
    lines = [
        (packer.resources["r"], packer.series[s.series], packer.origins[s.origin], s.time_ns, s.value,
         math.nan if s.total is None else s.total, NONE if s.start_time_ns is None else s.start_time_ns)
        for s in samples
    ]  # fmt: skip
    types = (np.int64, np.int64, np.int64, np.int64, np.float64, np.float64, np.int64)
    packer.add(Columns(*(np.array(c, dtype=t) for c, t in zip(zip(*lines, strict=True), types, strict=True))))
    return [row for batch in packer.take() for row in batch.select(["names", "points", "origin"]).to_pylist()]


def series_of(window: Window) -> list[dict[str, Any]]:
    return [orjson.loads(text) for text in window.series]


def one_series(samples: list[Sample], **settings: Any) -> dict[str, Any]:
    (only,) = series_of(windows_of(samples, **settings)[0])
    return only


def expected_statistics(samples: list[Sample], kind: str) -> dict[str, Any]:
    """Statistics of one series' samples by the definitions."""
    by_time: dict[int, Sample] = {}
    for sample in samples:
        other = by_time.get(sample.time_ns)
        if other is None or sample.value > other.value:
            by_time[sample.time_ns] = sample
    points = [by_time[time] for time in sorted(by_time)]
    values = [point.value for point in points]
    mean = math.fsum(values) / len(values)
    steps = itertools.pairwise(values)
    return {
        "n": len(values),
        "sum": math.fsum(values),
        "mean": mean,
        "m2": math.fsum((value - mean) ** 2 for value in values),
        "min": min(values),
        "max": max(values),
        "first": values[0],
        "first_time_ns": points[0].time_ns,
        "last": values[-1],
        "last_time_ns": points[-1].time_ns,
        "increase": math.fsum(b - a if b >= a else b for a, b in steps) if kind == "cumulative" else None,
    }
