"""Packing: all samples that a task has read of one resource in one window become one row.

A row per point would pay for a row in every operator, in the shuffle and in the state; a packed row is paid once for
dozens of points. `names` holds the series of the row, each text followed by `rows.RESERVED`; `points` is an array of
`POINT`, whose `name` counts from the first of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.parameters import TimeRules
from pipelines.statistics import gate, rows

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

POINT: Final = np.dtype([("name", "<i4"), ("time_ns", "<i8"), ("value", "<f8"), ("total", "<f8"), ("start_ns", "<i8")])
#: In the place of an integer that is not there.
NONE: Final = -1

_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
KEPT: Final = pa.struct(
    [("fate", pa.string()), ("reason", pa.string()), ("points", pa.string()), ("point_count", pa.int32()),
     ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("timestamp_ms", pa.int64()),
     ("key", pa.binary()), ("value", pa.binary()), ("headers", _HEADERS)]
)  # fmt: skip
SCHEMA: Final = pa.schema(
    [(rows.GROUP_KEY, pa.string()), ("event_us", pa.int64()), ("names", pa.binary()), ("points", pa.binary()),
     ("origin", pa.string()), (rows.KEPT, KEPT)]
)  # fmt: skip
SCHEMA_TYPE: Final = (
    f"{rows.GROUP_KEY} STRING, event_us BIGINT, names BINARY, points BINARY, origin STRING, "
    f"{rows.KEPT} {rows.KEPT_TYPE}"
)


class Codes(dict[Any, int]):
    """Numbers for names, in the order in which they are first seen: `codes[name]`."""

    def __missing__(self, name: Any) -> int:
        code = self[name] = len(self)
        return code


@dataclass(frozen=True)
class Columns:
    """Samples as columns; resource, series and origin are codes."""

    resource: Ints
    series: Ints
    origin: Ints
    time_ns: Ints
    value: Floats
    total: Floats
    start_ns: Ints

    def __len__(self) -> int:
        return len(self.time_ns)


@dataclass
class Packer:
    """Collects samples, ticks and kept messages of one task, and packs them into rows of `SCHEMA`."""

    time: TimeRules
    resources: Codes = field(default_factory=Codes)
    series: Codes = field(default_factory=Codes)
    origins: Codes = field(default_factory=lambda: Codes({None: 0}))
    samples: int = 0
    _columns: list[Columns] = field(default_factory=list)
    _rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, columns: Columns) -> None:
        """Add samples."""
        self._columns.append(columns)
        self.samples += len(columns)

    def tick(self, arrival_ms: Ints) -> None:
        """Add ticks: of each window they reach, the latest."""
        window_ms = self.time.window_s * 1000
        latest: dict[int, int] = {}
        for time_ms in (arrival_ms + self.time.future_s * 1000).tolist():
            window = time_ms // window_ms
            latest[window] = max(time_ms, latest.get(window, time_ms))
        self._rows += [{rows.GROUP_KEY: rows.TICK_GROUP, "event_us": time_ms * 1000} for time_ms in latest.values()]

    def keep(self, message: dict[str, Any], fate: str, reason: str, points: str = "0", point_count: int = 1) -> None:
        """Add a message that is kept with its original bytes; its event time is its arrival."""
        topic, partition, offset = (message[name] for name in (rows.TOPIC, rows.PARTITION, rows.OFFSET))
        kept = {
            "fate": fate,
            "reason": reason,
            "points": points,
            "point_count": point_count,
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "timestamp_ms": message[rows.TIMESTAMP_MS],
            "key": message[rows.KEY],
            "value": message[rows.VALUE],
            "headers": gate.kept_headers(message[rows.HEADERS], message[rows.ARRIVAL_MS], self.time),
        }
        group = f"{rows.RESERVED}kept/{topic}/{partition}/{offset}"
        self._rows.append({rows.GROUP_KEY: group, "event_us": message[rows.ARRIVAL_MS] * 1000, rows.KEPT: kept})

    def take(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows so far and start anew."""
        if self._rows:
            yield pa.RecordBatch.from_pylist(self._rows, SCHEMA)
        if self.samples:
            joined = [np.concatenate(parts) for parts in zip(*(vars(c).values() for c in self._columns), strict=True)]
            yield self._packed(Columns(*joined))
        self._rows, self._columns, self.samples = [], [], 0

    def _packed(self, columns: Columns) -> pa.RecordBatch:
        window = columns.time_ns // (self.time.window_s * 1_000_000_000)
        window -= window.min()
        group = (columns.resource * (int(window.max()) + 1) + window) * len(self.origins) + columns.origin
        order = np.lexsort((columns.series, group))
        group, series = group[order], columns.series[order]
        new_group = np.append(True, group[1:] != group[:-1])
        new_name = new_group | np.append(True, series[1:] != series[:-1])
        starts, names = np.flatnonzero(new_group), np.flatnonzero(new_name)
        name = np.cumsum(new_name) - 1
        first_name = name[starts]
        points = np.empty(len(order), POINT)
        points["name"] = name - np.repeat(first_name, np.diff(np.append(starts, len(order))))
        for column in ("time_ns", "value", "total", "start_ns"):
            points[column] = getattr(columns, column)[order]
        firsts = order[starts]
        arrays = [
            _texts(self.resources).take(pa.array(columns.resource[firsts])),
            pa.array(np.maximum.reduceat(points["time_ns"], starts) // 1000),
            _names(self.series, series[names], first_name),
            _slices(points.tobytes(), starts * POINT.itemsize, len(order) * POINT.itemsize),
            _texts(self.origins).take(pa.array(columns.origin[firsts])),
            pa.nulls(len(starts), KEPT),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _texts(codes: Codes) -> pa.StringArray:
    return pa.array(list(codes), pa.string())


def _names(codes: Codes, series: Ints, first: Ints) -> pa.BinaryArray:
    """Return for each group its series' texts, each followed by the separator, joined."""
    texts = pa.array([text + rows.RESERVED for text in codes], pa.binary()).take(pa.array(series))
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[: len(texts) + 1]
    return _slices(texts.buffers()[2], offsets[first], int(offsets[-1]))


def _slices(data: bytes | pa.Buffer, starts: NDArray[Any], end: int) -> pa.BinaryArray:
    """Cut bytes into one value per start, without copying."""
    offsets = np.append(starts, end).astype(np.int32)
    return pa.BinaryArray.from_buffers(pa.binary(), len(starts), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
