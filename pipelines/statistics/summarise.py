"""Exact statistics of windows from their samples: a function of the set of points, whatever their order.

All resources of an Arrow batch are summarised in one pass: sort by (resource, series, time, identity, value), drop
equal points (the larger value stays), reduce each run. Sums run over sorted points, so they do not depend on arrival.

    mean = sum x / n      m2 = sum (x - mean)^2
    increase = sum over consecutive points of  x_i - x_(i-1),  or of x_i where the counter was reset
    ratio with known trials:  sum = sum of x_i total_i (successes),  total = sum of total_i (trials)
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.parameters import StatisticsParameters
from pipelines.statistics import rows
from pipelines.statistics.pack import NONE, POINT, Codes
from topics.records import (
    LOG_OTHER_TEMPLATE,
    LOG_SEVERITY_METRIC,
    LOG_TEMPLATE_METRIC,
    SeriesStatistics,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_LABELS: Final = ("metric", "attributes", "kind", "unit")
_NUMBERS: Final = tuple(item.name for item in fields(SeriesStatistics) if item.name not in _LABELS)
Origin = tuple[str | None, str | None, str | None]
_UNKNOWN: Final[Origin] = (None, None, None)


class Series(NamedTuple):
    """Identity of a series; tuples sort in the order in which series stand in a record."""

    metric: str
    attributes: str
    kind: str
    unit: str


@dataclass(frozen=True)
class Window:
    """Statistics of one resource in one window.

    Attributes:
        series: JSON of `SeriesStatistics`, in the order of their names.
        samples: Distinct samples summarised.
        duplicates: Samples dropped because an equal one was there.
        excess: Distinct samples beyond the cap.
        origin: Service, region and site as the telemetry tells them.
    """

    series: list[bytes]
    samples: int
    duplicates: int
    excess: int
    origin: Origin


@dataclass(frozen=True)
class _Points:
    """Samples as columns: the window (`row`) and series they count in, and the template's series of a log event."""

    row: Ints
    series: Ints
    template: Ints
    time_ns: Ints
    identity: Ints
    value: Floats
    total: Floats
    start_ns: Ints

    def take(self, which: NDArray[Any]) -> _Points:
        return _Points(*(getattr(self, item.name)[which] for item in fields(self)))

    def per_row(self, count: int) -> Ints:
        return np.bincount(self.row, minlength=count)


def summarise(samples: pa.ListArray, packed: pa.ListArray, parameters: StatisticsParameters) -> list[Window]:
    """Summarise windows.

    Args:
        samples: One list of samples (`rows.SAMPLE_TYPE`) per resource and window, in any order.
        packed: One list of packed samples (`rows.PACKED_TYPE`) per resource and window, in any order.
        parameters: Cap on samples and on templates.

    Returns:
        One `Window` per pair of lists.
    """
    count = len(samples)
    points, names, origins = _points_of(samples, packed)
    distinct = _distinct(points)
    kept = _capped(distinct, count, parameters.samples_per_window)
    series = _summaries(_counted(kept, names, parameters.templates_per_window), names, count)
    n, n_distinct, n_kept = (some.per_row(count) for some in (points, distinct, kept))
    counts = zip(n_kept.tolist(), (n - n_distinct).tolist(), (n_distinct - n_kept).tolist(), strict=True)
    return [Window(series[row], *of_row, origins.get(row, _UNKNOWN)) for row, of_row in enumerate(counts)]


# ---- names -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1 << 17)
def _identity(text: str) -> tuple[Series, Series | None]:
    """Return the series a sample counts in; a log event counts in two, its severity's and its template's."""
    kind, unit, metric, attributes = text.split(rows.SEPARATOR, 3)
    if kind == rows.LOG_KIND:
        return _log_series(LOG_SEVERITY_METRIC, "severity", metric), _template(attributes)
    return Series(metric, canonical_attributes(attributes), kind, unit), None


def _log_series(metric: str, attribute: str, value: str) -> Series:
    return Series(metric, orjson.dumps({attribute: value}).decode(), "delta", "1")


def _template(text: str) -> Series:
    return _log_series(LOG_TEMPLATE_METRIC, "template", text)


def canonical_attributes(text: str) -> str:
    """Return the JSON object with its names sorted and every value as text."""
    given = {} if text == "{}" else orjson.loads(text)
    texts = {name: value if isinstance(value, str) else _json(value) for name, value in given.items()}
    return _json(texts)


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _ranks(texts: list[str]) -> tuple[list[Series], Ints, Ints]:
    """Return all series in the order of their names, and the rank of each text's first and second one (-1: none)."""
    identities = [_identity(text) for text in texts]
    distinct = {series for pair in identities for series in pair if series is not None}
    if any(template is not None for _, template in identities):
        distinct.add(_template(LOG_OTHER_TEMPLATE))
    names = sorted(distinct)
    rank: dict[Series | None, int] = {series: index for index, series in enumerate(names)} | {None: NONE}
    series, templates = (np.array([rank[pair[side]] for pair in identities], dtype=np.int64) for side in (0, 1))
    return names, series, templates


# ---- points ----------------------------------------------------------------------------------------------------------


def _points_of(samples: pa.ListArray, packed: pa.ListArray) -> tuple[_Points, list[Series], dict[int, Origin]]:
    """Return all samples of both kinds, the names of their series, and the origin per row."""
    single = dict(zip((item.name for item in samples.type.value_type), samples.flatten().flatten(), strict=True))
    texts = single["series"].dictionary_encode()
    chunks = _unpacked(packed)
    names, series, templates = _ranks([*texts.dictionary.to_pylist(), *chunks.texts])
    codes = np.concatenate([texts.indices.to_numpy(), len(texts.dictionary) + chunks.text])
    row, time_ns = _rows_of(samples), _numbers(single["time_ns"], NONE)
    points = _Points(
        row=np.concatenate([row, chunks.row]),
        series=series[codes],
        template=templates[codes],
        time_ns=np.concatenate([time_ns, chunks.points["time_ns"]]),
        identity=np.concatenate([_numbers(single["id"], 0), np.zeros(len(chunks.row), dtype=np.int64)]),
        value=np.concatenate([_numbers(single["value"], 0.0), chunks.points["value"]]) + 0.0,  # -0.0 and 0.0 are equal
        total=np.concatenate([_numbers(single["total"], np.nan), chunks.points["total"]]),
        start_ns=np.concatenate([_numbers(single["start_time_ns"], NONE), chunks.points["start_ns"]]),
    )
    told = single["origin"].is_valid().to_numpy(zero_copy_only=False)
    origins = [
        *zip(row[told].tolist(), time_ns[told].tolist(), single["origin"].drop_null().to_pylist(), strict=True),
        *chunks.origins,
    ]
    return points, names, {row: _origin(text) for row, _, text in sorted(origins)}


def _rows_of(lists: pa.ListArray) -> Ints:
    """Return for each item of the flattened lists the list that it stands in."""
    return np.repeat(np.arange(len(lists)), np.diff(lists.offsets.to_numpy()))


def _numbers(column: pa.Array, missing: float) -> NDArray[Any]:
    filled: NDArray[Any] = (column.fill_null(missing) if column.null_count else column).to_numpy(zero_copy_only=False)
    return filled


class _Chunks(NamedTuple):
    """Packed samples, unpacked: `text` is each point's place in `texts`; origins as (row, latest time, JSON)."""

    points: NDArray[np.void]
    row: Ints
    texts: list[str]
    text: Ints
    origins: list[tuple[int, int, str]]


def _unpacked(packed: pa.ListArray) -> _Chunks:
    fields_of = dict(zip((item.name for item in packed.type.value_type), packed.flatten().flatten(), strict=True))
    blobs = fields_of["points"].to_pylist()
    points = np.frombuffer(b"".join(blobs), POINT)
    size = np.array([len(blob) // POINT.itemsize for blob in blobs], dtype=np.int64)
    row = _rows_of(packed)
    codes = Codes()
    places = [np.array([codes[text] for text in _names(blob)]) for blob in fields_of["names"].to_pylist()]
    first = np.cumsum([0, *map(len, places)])[:-1].astype(np.int64)
    text = np.concatenate([*places, np.zeros(0)]).astype(np.int64)[np.repeat(first, size) + points["name"]]
    origins = []
    if fields_of["origin"].null_count < len(blobs):
        latest_ns = np.maximum.reduceat(points["time_ns"], np.cumsum([0, *size[:-1]])).tolist()
        told = zip(row.tolist(), latest_ns, fields_of["origin"].to_pylist(), strict=True)
        origins = [(at, time_ns, origin) for at, time_ns, origin in told if origin is not None]
    return _Chunks(points, np.repeat(row, size), list(codes), text, origins)


@lru_cache(maxsize=1 << 14)
def _names(blob: bytes) -> tuple[str, ...]:
    return tuple(blob[:-1].decode().split(rows.RESERVED))


@lru_cache(maxsize=1 << 14)
def _origin(text: str) -> Origin:
    service, region, site = orjson.loads(text)
    return service, region, site


# ---- the set of distinct points --------------------------------------------------------------------------------------


def _distinct(points: _Points) -> _Points:
    """Sort by (row, series, time) and drop equal points; the larger value (then total, then start) stays."""
    ordered = points.take(np.lexsort((points.time_ns, points.series, points.row)))
    if not _repeats(ordered).any():
        return ordered
    ties = (points.template, points.start_ns, points.total, points.value)
    keys = (*ties, points.identity, points.time_ns, points.series, points.row)
    ordered = points.take(np.lexsort(keys))
    same = _repeats(ordered) & (ordered.identity[1:] == ordered.identity[:-1])
    return ordered.take(np.append(~same, True))


def _repeats(ordered: _Points) -> Bools:
    """Return which points share row, series and time with the next one."""
    same: Bools = ordered.time_ns[1:] == ordered.time_ns[:-1]
    same &= ordered.series[1:] == ordered.series[:-1]
    same &= ordered.row[1:] == ordered.row[:-1]
    return same


def _capped(points: _Points, count: int, cap: int) -> _Points:
    """Keep the earliest `cap` points of each row; points of equal time stand in the order of their series."""
    if not (points.per_row(count) > cap).any():
        return points
    order = np.lexsort((points.identity, points.series, points.time_ns, points.row))
    first_of_row = np.searchsorted(points.row, np.arange(count))
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order)) - first_of_row[points.row[order]]
    return points.take(position < cap)


def _counted(points: _Points, names: list[Series], most: int) -> _Points:
    """Count log events a second time, in the series of their template; beyond the `most` frequent ones, in `other`."""
    events = points.template != NONE
    if not events.any():
        return points
    logs = points.take(events)
    other = names.index(_template(LOG_OTHER_TEMPLATE))
    logs = replace(logs, series=_most_frequent(logs.row, logs.template, most, other))
    both = _Points(*(np.concatenate([getattr(points, f.name), getattr(logs, f.name)]) for f in fields(_Points)))
    return both.take(np.lexsort((both.time_ns, both.series, both.row)))


def _most_frequent(row: Ints, template: Ints, most: int, other: int) -> Ints:
    """Return each event's template, or `other` outside the row's `most` frequent ones (ties by name)."""
    width = int(max(template.max(), other)) + 1
    pairs, place, count = np.unique(row * width + template, return_inverse=True, return_counts=True)
    order = np.lexsort((pairs % width, -count, pairs // width))
    ranked_rows = (pairs // width)[order]
    position = np.empty(len(pairs), dtype=np.int64)
    position[order] = np.arange(len(pairs)) - np.searchsorted(ranked_rows, ranked_rows)
    return np.where(position[place] < most, template, other)


# ---- statistics ------------------------------------------------------------------------------------------------------


def _summaries(points: _Points, names: list[Series], count: int) -> list[list[bytes]]:
    """Return the JSON of every series, per row; `points` are sorted by (row, series, time)."""
    summaries: list[list[bytes]] = [[] for _ in range(count)]
    if not len(points.row):
        return summaries
    change = (points.row[1:] != points.row[:-1]) | (points.series[1:] != points.series[:-1])
    starts = np.append(0, np.flatnonzero(change) + 1)
    series = points.series[starts]
    columns = _statistics(points, starts, np.array([name.kind for name in names])[series])
    labels = [_labels(name) for name in names]
    numbers = zip(*(columns[name] for name in _NUMBERS), strict=True)
    for row, code, values in zip(points.row[starts].tolist(), series.tolist(), numbers, strict=True):
        summaries[row].append(labels[code] + orjson.dumps(dict(zip(_NUMBERS, values, strict=True)))[1:])
    return summaries


@lru_cache(maxsize=1 << 17)
def _labels(name: Series) -> bytes:
    """Return the opening of a `SeriesStatistics` in JSON, up to its numbers."""
    attributes = orjson.Fragment(name.attributes)
    return orjson.dumps(dict(zip(_LABELS, name._replace(attributes=attributes), strict=True)))[:-1] + b","  # type: ignore[arg-type]


def _statistics(points: _Points, starts: Ints, kind: NDArray[np.str_]) -> dict[str, list[Any]]:
    """Reduce runs of points to the number fields of `SeriesStatistics`, one list per field."""
    ends = np.append(starts[1:], len(points.row))
    n = ends - starts
    run = np.repeat(np.arange(len(starts)), n)
    value, ratio, cumulative = points.value, kind == "ratio", kind == "cumulative"
    total = np.where(ratio, _sums(points.total, starts), np.nan)
    counted = ratio & ~np.isnan(total)
    plain_sum = _sums(value, starts)
    mean = plain_sum / n
    start_ns = np.maximum.reduceat(points.start_ns, starts)
    columns: dict[str, NDArray[Any] | list[Any]] = {
        "n": n,
        "sum": np.where(counted, _sums(value * np.where(counted[run], points.total, 0.0), starts), plain_sum),
        "mean": mean,
        "m2": _sums((value - mean[run]) ** 2, starts),
        "min": np.minimum.reduceat(value, starts),
        "max": np.maximum.reduceat(value, starts),
        "first": value[starts],
        "first_time_ns": points.time_ns[starts],
        "last": value[ends - 1],
        "last_time_ns": points.time_ns[ends - 1],
        "increase": _or_none(_increase(points, starts), cumulative),
        "start_time_ns": _or_none(start_ns, start_ns != NONE),
        "total": _or_none(total, counted),
    }
    return {name: column if isinstance(column, list) else column.tolist() for name, column in columns.items()}


def _sums(values: Floats, starts: Ints) -> Floats:
    sums: Floats = np.add.reduceat(values, starts)
    return sums


def _increase(points: _Points, starts: Ints) -> Floats:
    """Return a counter's growth inside each run; after a reset (a drop or a later start) it counts from zero."""
    step = np.diff(points.value, prepend=0.0)
    restarted = (np.diff(points.start_ns, prepend=NONE) > 0) & (np.roll(points.start_ns, 1) != NONE)
    step = np.where((step < 0) | restarted, points.value, step)
    step[starts] = 0.0
    return _sums(step, starts)


def _or_none(values: NDArray[Any], present: Bools) -> list[Any]:
    return [value if given else None for value, given in zip(values.tolist(), present.tolist(), strict=True)]
