"""From buffered records to what the models are told: which row saw which value, with which weight, in which window.

Everything here works on all windows of a *run* at once: consecutive closed windows between two housekeeping points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from models.interface import Likelihood
from pipelines.novelty.packing import (
    Column,
    Control,
    Floats,
    Integers,
    Marker,
    Numbering,
    Parcel,
    Place,
    RecordColumn,
)
from pipelines.novelty.state import CUMULATIVE, DELTA, SeriesTable

#: A count above this in a series' first windows makes it an amount: counts of that size are continuous.
COUNT_LIMIT: Final = 10_000.0
_YOUNG_OBSERVATIONS: Final = 10
_NS_PER_S: Final = 1e9


@dataclass(frozen=True)
class RecordTable:
    """Distinct records of several parcels in (window end, resource name, part) order.

    Attributes:
        resources: Distinct resource names.
        places: Distinct places.
        shapes: Distinct shapes.
        records: Columns of `RecordColumn`, indices into the lists above, shape (records, 7).
        first: Row of `values` where each record begins, shape (records,).
        values: Columns of `Column`, shape (series, 10).
        controls: Control records in (window, offset) order.
    """

    resources: Sequence[str]
    places: Sequence[Place]
    shapes: Sequence[bytes]
    records: Integers
    first: Integers
    values: Floats
    controls: Sequence[Control]

    def of_windows(self, markers: Sequence[Marker]) -> list[slice]:
        """Return which records belong to each window."""
        ends = np.ascontiguousarray(self.records[:, RecordColumn.END_MS])
        wanted = [marker.end_ms for marker in markers]
        bounds = np.searchsorted(ends, wanted, "left").tolist(), np.searchsorted(ends, wanted, "right").tolist()
        return [slice(*pair) for pair in zip(*bounds, strict=True)]

    def values_of(self, records: slice) -> int:
        """Return how many values the records hold."""
        return int(self.records[records, RecordColumn.SERIES].sum())

    def value_rows(self, records: slice) -> Integers:
        """Return the rows of `values` that belong to the records, in order."""
        counts, first = self.records[records, RecordColumn.SERIES], self.first[records]
        return np.arange(counts.sum()) + np.repeat(first - np.cumsum(counts) + counts, counts)

    def content(self, record: int) -> tuple[Place, bytes, bytes]:
        """Return what a record says beside its key."""
        row, first = self.records[record], self.first[record]
        values = self.values[first : first + row[RecordColumn.SERIES]]
        return self.places[row[RecordColumn.PLACE]], self.shapes[row[RecordColumn.SHAPE]], values.tobytes()


def gather(parcels: Sequence[Parcel], after_ms: int, upto_ms: int) -> RecordTable:
    """Collect the distinct records of windows that end after `after_ms` and not after `upto_ms`."""
    names = Numbering(), Numbering(), Numbering()
    records = [_renumbered(parcel, *names) for parcel in parcels]
    counts = np.concatenate([table[:, RecordColumn.SERIES] for table in records])
    resources, places, shapes = (list(numbering) for numbering in names)
    table = RecordTable(
        resources,
        places,
        shapes,
        records=np.concatenate(records),
        first=np.cumsum(counts) - counts,
        values=np.concatenate([parcel.values for parcel in parcels]),
        controls=sorted({c for p in parcels for c in p.controls if after_ms < c.end_ms <= upto_ms}),
    )
    ends = table.records[:, RecordColumn.END_MS]
    chosen = _in_order(table, np.flatnonzero((ends > after_ms) & (ends <= upto_ms)))
    return RecordTable(
        table.resources, table.places, table.shapes, table.records[chosen], table.first[chosen], table.values,
        table.controls,
    )  # fmt: skip


def _renumbered(parcel: Parcel, resources: Numbering, places: Numbering, shapes: Numbering) -> Integers:
    """Return a parcel's records with indices into lists shared by all parcels."""
    table = parcel.records.copy()
    for column, numbering, names in (
        (RecordColumn.RESOURCE, resources, parcel.resources),
        (RecordColumn.PLACE, places, parcel.places),
        (RecordColumn.SHAPE, shapes, parcel.shapes),
    ):
        if len(names):
            table[:, column] = np.array([numbering[name] for name in names], dtype=np.int64)[table[:, column]]
    return table


def _in_order(table: RecordTable, records: Integers) -> Integers:
    """Return the records in (window end, resource name, part) order, one per key."""
    rank = np.empty(len(table.resources), dtype=np.int64)
    rank[sorted(range(len(rank)), key=table.resources.__getitem__)] = np.arange(len(rank))
    columns = table.records[records]
    key = (columns[:, RecordColumn.PART], rank[columns[:, RecordColumn.RESOURCE]], columns[:, RecordColumn.END_MS])
    order = np.lexsort(key)
    repeated = np.ones(max(len(order) - 1, 0), dtype=np.bool_)
    for column in key:
        repeated &= column[order][1:] == column[order][:-1]
    if not repeated.any():
        return records[order]
    groups = np.split(records[order], np.flatnonzero(~repeated) + 1)
    # Equal keys have equal contents; were they not, the choice must still not depend on the order of arrival.
    return np.array(
        [group[0] if len(group) == 1 else max(group, key=lambda r: _sortable(table, r)) for group in groups]
    )


def _sortable(table: RecordTable, record: int) -> tuple[list[str], bytes, bytes]:
    place, shape, values = table.content(record)
    return [part or "" for part in place], shape, values


# ---- values ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Observations:
    """Values of series in windows, columns of equal length.

    Attributes:
        window: Index of the window in the run.
        row: Row of the series.
        value: Mean, amount, events or successes.
        weight: Samples, seconds or trials; not positive where the window says nothing about the series.
    """

    window: Integers
    row: Integers
    value: Floats
    weight: Floats

    def take(self, which: NDArray[Any]) -> Observations:
        """Return the observations selected by a mask or an index."""
        return Observations(self.window[which], self.row[which], self.value[which], self.weight[which])

    def ordered(self) -> Observations:
        """Return the observations in (window, row) order."""
        return self.take(np.lexsort((self.row, self.window)))

    def plus(self, other: Observations) -> Observations:
        """Return both together."""
        return Observations(
            np.concatenate([self.window, other.window]),
            np.concatenate([self.row, other.row]),
            np.concatenate([self.value, other.value]),
            np.concatenate([self.weight, other.weight]),
        )


def observe(window: Integers, row: Integers, values: Floats, series: SeriesTable, window_s: float) -> Observations:
    """Turn statistics into observations, in (row, window) order, and remember each counter's last value.

    Args:
        window: Index of the window of each value, shape (k,).
        row: Row of its series.
        values: Columns of `Column`, shape (k, 10).
        series: The known series; its last values are updated.
        window_s: Length of a window.
    """
    order = np.lexsort((window, row))
    repeated = np.zeros(len(order), dtype=np.bool_)
    repeated[1:] = (np.diff(row[order]) == 0) & (np.diff(window[order]) == 0)
    order = order[~repeated]
    window, row, values = window[order], row[order], values[order]
    kind, trials = series.kind[row], values[:, Column.TOTAL]
    increase, elapsed_s = _increases(row, values, series)
    choices = [kind == CUMULATIVE, kind == DELTA, series.likelihood[row] == Likelihood.RATIO]
    successes = np.clip(values[:, Column.SUM], 0.0, trials)
    value = np.select(choices, [increase, values[:, Column.SUM], successes], values[:, Column.MEAN])
    weight = np.select(choices, [elapsed_s, np.full(len(row), window_s), trials], values[:, Column.N])
    weight = np.where(np.isfinite(value) & np.isfinite(weight), weight, 0.0)
    return Observations(window, row, np.where(weight > 0, value, 0.0), weight)


def _increases(row: Integers, values: Floats, series: SeriesTable) -> tuple[Floats, Floats]:
    """Return each counter's increase and the seconds it took; (row, window) order.

    The increase has the part within the window and the step from the last point before it; after a reset the counter
    started from zero. The first window of a series has no step.
    """
    first, last = values[:, Column.FIRST], values[:, Column.LAST]
    first_ns, last_ns = values[:, Column.FIRST_TIME_NS], values[:, Column.LAST_TIME_NS]
    before, before_ns = _previous(row, last, series.last), _previous(row, last_ns, series.last_time_ns)
    reset = (first < before) | (values[:, Column.START_TIME_NS] > before_ns)
    step = np.where(reset, first, first - before)
    inner = np.nan_to_num(values[:, Column.INCREASE])
    known = np.isfinite(before)
    elapsed_ns = last_ns - np.where(known, before_ns, first_ns)
    newest = np.ones(len(row), dtype=np.bool_)
    newest[:-1] = row[1:] != row[:-1]
    series.last[row[newest]], series.last_time_ns[row[newest]] = last[newest], last_ns[newest]
    return inner + np.where(known, step, 0.0), elapsed_ns / _NS_PER_S


def _previous(row: Integers, values: Floats, remembered: Floats) -> Floats:
    """Return the value before each one of the same row; in (row, window) order."""
    previous = remembered[row]
    same = row[1:] == row[:-1]
    previous[1:][same] = values[:-1][same]
    return previous


def silent_logs(
    seen: Observations, reported: NDArray[np.bool_], born: Integers, series: SeriesTable, window_s: float
) -> Observations:
    """Return the zeros of known log series: the resource reported in the window, but no such event.

    A log that falls silent is evidence; the statistics job cannot write what it did not see.

    Args:
        seen: What was seen in the run.
        reported: Which resource reported in which window, shape (resources, windows).
        born: Window of the run in which each series appeared first, -1 when it was known before, shape (rows,).
        series: The known series.
        window_s: Length of a window.
    """
    logs = np.flatnonzero(series.log)
    missing = reported[series.resource[logs]] & (np.arange(reported.shape[1]) > born[logs, None])
    position = np.full(len(series), -1)
    position[logs] = np.arange(len(logs))
    at = position[seen.row]
    missing[at[at >= 0], seen.window[at >= 0]] = False
    log, window = np.nonzero(missing)
    return Observations(window, logs[log], np.zeros(len(log)), np.full(len(log), window_s))


# ---- likelihoods -----------------------------------------------------------------------------------------------------


def no_longer_counts(seen: Observations, series: SeriesTable) -> Integers:
    """Return per row the first window whose value shows that the series is no count; a large number where none does.

    A count is an integer, not negative, and not large in its first windows. In (row, window) order.
    """
    age = series.observations[seen.row] + _rank(seen.row)
    large = (np.abs(seen.value) > COUNT_LIMIT) & (age < _YOUNG_OBSERVATIONS)
    wrong = (seen.value != np.floor(seen.value)) | (seen.value < 0) | large
    wrong &= (series.likelihood[seen.row] == Likelihood.COUNT) & (seen.weight > 0)
    never = np.full(len(series), np.iinfo(np.int64).max)
    np.minimum.at(never, seen.row[wrong], seen.window[wrong])
    return never


def _rank(row: Integers) -> Integers:
    """Return how many equal values stand before each one; equal values stand together."""
    starts = np.flatnonzero(np.diff(row, prepend=-1))
    return np.arange(len(row)) - np.repeat(starts, np.diff(starts, append=len(row)))


def as_amounts(seen: Observations, amounts: NDArray[np.bool_], series: SeriesTable) -> Observations:
    """Turn sums into amounts where asked: a counter's rate per second, a delta's sum, each one sample."""
    kind = series.kind[seen.row]
    amounts = amounts & (seen.weight > 0) & ((kind == DELTA) | (kind == CUMULATIVE))
    rate = amounts & (kind == CUMULATIVE)
    value = seen.value.copy()
    value[rate] = seen.value[rate] / seen.weight[rate]
    return Observations(seen.window, seen.row, value, np.where(amounts, 1.0, seen.weight))
