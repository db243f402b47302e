"""A file as a stream of points: which column is what, which unit its times have, what had to be left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from apps.feed.errors import FeedError
from apps.feed.series import Codes, Selection, SeriesTable
from apps.feed.tables import column_names, read_batches, stem
from apps.feed.times import Mask, Times, TimeUnit, detect_unit, to_ns

Floats = NDArray[np.float64]

_TIME_NAMES: Final = (
    "time", "timestamp", "time_ns", "time_us", "time_ms", "time_s", "timestamp_ns", "timestamp_us", "timestamp_ms",
    "timestamp_s", "@timestamp", "_time", "ts", "datetime", "date", "event_time", "epoch",
)  # fmt: skip
_INDEX_NAMES: Final = ("", "Unnamed: 0", "__index_level_0__")


@dataclass(frozen=True)
class ColumnNames:
    """Column names the user gave; None means found by their usual names."""

    time: str | None = None
    resource: str | None = None
    metric: str | None = None
    value: str | None = None


@dataclass(frozen=True)
class Layout:
    """Positions of the columns. Wide: `metrics` holds (position, name) and `metric`, `value` are None."""

    shape: Literal["long", "wide"]
    time: int
    time_name: str
    resource: int | None
    metric: int | None
    value: int | None
    metrics: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class Points:
    """Points in file order; all arrays of one length."""

    series: Codes
    time_ns: Times
    value: Floats

    def __len__(self) -> int:
        return len(self.series)


@dataclass
class Counts:
    """What was found in one file, and what of it cannot be fed."""

    rows: int = 0
    points: int = 0
    bad_time_rows: int = 0
    malformed_rows: int = 0
    unnamed_rows: int = 0
    empty_cells: int = 0
    not_finite_cells: int = 0
    text_cells: int = 0
    text_by_column: Counter[str] = field(default_factory=Counter)
    numbers_by_column: Counter[str] = field(default_factory=Counter)

    def malformed(self) -> None:
        """Count a row with a wrong number of cells."""
        self.malformed_rows += 1

    @property
    def text_columns(self) -> list[str]:
        """Columns in which no cell is a number but some are text."""
        return sorted(name for name in self.text_by_column if not self.numbers_by_column[name])


@dataclass(frozen=True)
class Source:
    """One file, ready to be read any number of times."""

    path: Path
    resource: str
    layout: Layout
    unit: TimeUnit
    selection: Selection
    shift_ns: int = 0

    def read(self, table: SeriesTable, counts: Counts, block_bytes: int = 4 * 1024 * 1024) -> Iterator[Points]:
        """Yield the file's points in file order, in chunks; adds to `counts`."""
        for batch in read_batches(self.path, counts.malformed, block_bytes):
            counts.rows += batch.num_rows
            times, valid = to_ns(batch.column(self.layout.time), self.unit)
            counts.bad_time_rows += int(len(valid) - valid.sum())
            take = self._wide if self.layout.shape == "wide" else self._long
            points = take(batch, times + self.shift_ns, valid, table, counts)
            counts.points += len(points)
            if len(points):
                yield points

    def _wide(self, batch: pa.RecordBatch, times: Times, valid: Mask, table: SeriesTable, counts: Counts) -> Points:
        columns = self.layout.metrics
        # Row-major, so that points come in the order of time.
        values = np.empty((batch.num_rows, len(columns)))
        for slot, (position, name) in enumerate(columns):
            values[:, slot] = _numbers(batch.column(position), name, counts)
        keep = np.isfinite(values) & valid[:, None]
        series = self._wide_series(batch, table)
        return Points(
            np.broadcast_to(series, values.shape)[keep],
            np.broadcast_to(times[:, None], values.shape)[keep],
            values[keep],
        )

    def _wide_series(self, batch: pa.RecordBatch, table: SeriesTable) -> Codes:
        """Return the series of each cell, shape (rows or 1, metrics)."""
        if self.layout.resource is None:
            return table.codes((self.resource, name) for _, name in self.layout.metrics)[None, :]
        resources, rows = _dictionary(batch.column(self.layout.resource))
        grid = [
            table.codes((resource or self.resource, name) for _, name in self.layout.metrics) for resource in resources
        ]
        return np.stack(grid)[rows] if grid else np.empty((0, len(self.layout.metrics)), dtype=np.int32)

    def _long(self, batch: pa.RecordBatch, times: Times, valid: Mask, table: SeriesTable, counts: Counts) -> Points:
        layout = self.layout
        resources, resource_rows = _dictionary(batch.column(cast(int, layout.resource)))
        metrics, metric_rows = _dictionary(batch.column(cast(int, layout.metric)))
        pairs, rows = np.unique(resource_rows * len(metrics) + metric_rows, return_inverse=True)
        names = [(resources[pair // len(metrics)], metrics[pair % len(metrics)]) for pair in pairs.tolist()]
        named = np.array([bool(resource and metric) for resource, metric in names], dtype=bool)
        taken = np.array([self.selection.takes(metric or "") for _, metric in names], dtype=bool)
        codes = np.array(
            [
                table.code(*cast(tuple[str, str], name)) if fed else -1
                for name, fed in zip(names, named & taken, strict=True)
            ],
            dtype=np.int32,
        )
        counts.unnamed_rows += int((~named)[rows].sum())
        values = _numbers(batch.column(cast(int, layout.value)), "value", counts)
        keep = np.isfinite(values) & valid & (named & taken)[rows]
        return Points(codes[rows][keep], times[keep], values[keep])


def _dictionary(column: pa.Array) -> tuple[list[str | None], NDArray[np.int64]]:
    """Return the distinct names and, per row, which; a missing name is None."""
    texts = pc.cast(column, pa.string())
    encoded = pc.dictionary_encode(texts, null_encoding="encode")
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


_NUMBER: Final = r"(?i)^[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|nan|inf(inity)?)$"


def _numbers(column: pa.Array, name: str, counts: Counts) -> Floats:
    """Return a column as doubles; what is no finite number is counted and NaN or infinite."""
    filled = len(column) - column.null_count
    column = _only_numeric(column)
    numbers = cast(Floats, column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
    texts = filled - (len(column) - column.null_count)
    finite = int(np.isfinite(numbers).sum())
    counts.empty_cells += len(column) - filled
    counts.text_cells += texts
    counts.not_finite_cells += filled - texts - finite
    if texts:
        counts.text_by_column[name] += texts
    counts.numbers_by_column[name] += finite
    return numbers


def _only_numeric(column: pa.Array) -> pa.Array:
    kind = column.type
    if (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    ):
        return column
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind)):
        return pa.nulls(len(column), pa.float64())
    texts = pc.cast(column, pa.string())
    try:
        return texts.cast(pa.float64())
    except pa.ArrowInvalid:
        trimmed = pc.utf8_trim_whitespace(texts)
        numeric = pc.match_substring_regex(trimmed, _NUMBER)
        return pc.utf8_ltrim(pc.if_else(numeric, trimmed, None), "+").cast(pa.float64())


def open_source(
    path: Path,
    names: ColumnNames,
    selection: Selection,
    unit: TimeUnit | None = None,
    shape: Literal["auto", "long", "wide"] = "auto",
) -> Source:
    """Look at a file's header and first chunk.

    Raises:
        FeedError: The file is missing or broken, has no time column, or nothing in that column is a time.
    """
    columns = column_names(path)
    layout = find_layout(path, columns, names, selection, shape)
    return Source(path, stem(path), layout, unit or _unit_of(path, layout), selection)


def _unit_of(path: Path, layout: Layout) -> TimeUnit:
    for batch in read_batches(path, lambda: None):
        unit = detect_unit(batch.column(layout.time))
        if unit is not None:
            return unit
    message = f"{path}: no value in column {layout.time_name!r} is a time; name it with --time"
    raise FeedError(message)


def find_layout(
    path: Path, columns: Sequence[str], names: ColumnNames, selection: Selection, shape: Literal["auto", "long", "wide"]
) -> Layout:
    """Decide which column is what.

    Raises:
        FeedError: A column that is needed is not there.
    """
    time = _time_column(path, columns, names.time)
    resource = _named(path, columns, names.resource, "resource", needed=shape == "long")
    metric = _named(path, columns, names.metric, "metric", needed=shape == "long")
    value = _named(path, columns, names.value, "value", needed=shape == "long")
    if shape != "wide" and None not in (resource, metric, value):
        return Layout("long", time, columns[time], resource, metric, value)
    metrics = tuple(
        (position, name)
        for position, name in enumerate(columns)
        if position not in (time, resource) and not (position == 0 and name in _INDEX_NAMES) and selection.takes(name)
    )
    if not metrics:
        message = f"{path}: no column is left to be fed beside the time; look at --include and --exclude"
        raise FeedError(message)
    return Layout("wide", time, columns[time], resource, None, None, metrics)


def _named(path: Path, columns: Sequence[str], given: str | None, usual: str, *, needed: bool) -> int | None:
    if given is not None or needed:
        return _position(path, columns, given or usual, f"--{usual}")
    return columns.index(usual) if usual in columns else None


def _time_column(path: Path, columns: Sequence[str], given: str | None) -> int:
    if given is not None:
        return _position(path, columns, given, "--time")
    lowered = [name.strip().lower() for name in columns]
    found = next((lowered.index(name) for name in _TIME_NAMES if name in lowered), None)
    if found is None:
        message = f"{path}: no time column among {_few(columns)}; name it with --time"
        raise FeedError(message)
    return found


def _position(path: Path, columns: Sequence[str], name: str, option: str) -> int:
    if name not in columns:
        message = f"{path}: no column {name!r} among {_few(columns)}; name it with {option}"
        raise FeedError(message)
    return columns.index(name)


def _few(names: Sequence[str], count: int = 8) -> str:
    return ", ".join(repr(name) for name in names[:count]) + (
        f" and {len(names) - count} more" if len(names) > count else ""
    )
