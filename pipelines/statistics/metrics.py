"""Canonical metric points -> packed rows, in an Arrow function.

A batch of messages is read as a whole: columns are checked, not points, and a name is checked when it is first seen.
Only when something in a batch is not sound is each of its messages looked at, to reject the bad ones with a reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import functions as sf

from pipelines.parameters import StatisticsParameters, TimeRules
from pipelines.statistics import gate, rows
from pipelines.statistics.pack import NONE, SCHEMA_TYPE, Columns, Packer
from pipelines.statistics.worker import without_cycle_search
from topics import wire
from topics.records import KINDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: As many parsed messages as fit a processor's cache.
_MESSAGES_AT_ONCE: Final = 4_000
_SAMPLES_PER_ROUND: Final = 500_000
_KNOWN_NAMES: Final = 200_000
_INT64: Final = 2**63
_NOT_SOUND: Final = (KeyError, TypeError, ValueError, AttributeError, OverflowError)

_loads = orjson.loads
_dumps = orjson.dumps


class UnsoundError(ValueError):
    """Some point of a batch breaks a rule."""


def metric_rows(raw: DataFrame, parameters: StatisticsParameters) -> DataFrame:
    """Canonical metric messages -> common rows, one per resource and window of a task."""
    time = parameters.time

    @without_cycle_search
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = MetricReader(time)
        for batch in batches:
            reader.add(batch)
            if reader.packer.samples >= _SAMPLES_PER_ROUND:
                yield from reader.packer.take()
        yield from reader.packer.take()

    return packed_rows(gate.with_headers_as_text(raw, time).mapInArrow(read, SCHEMA_TYPE))


def packed_rows(read: DataFrame) -> DataFrame:
    """Rows of `pack.SCHEMA` -> common rows."""
    packed = sf.struct("names", "points", "origin")
    return read.select(
        rows.GROUP_KEY,
        sf.timestamp_micros("event_us").alias(rows.EVENT_TIME),
        sf.lit(None).cast(rows.SAMPLE_TYPE).alias(rows.SAMPLE),
        sf.when(sf.col("points").isNotNull(), packed).alias(rows.PACKED),
        rows.KEPT,
    )


class MetricReader:
    """Reads batches of canonical messages into a packer."""

    def __init__(self, time: TimeRules) -> None:
        self.packer = Packer(time)
        self._time = time
        self._names: set[str | None] = {None}

    def add(self, batch: pa.RecordBatch) -> None:
        """Read one batch of raw messages."""
        tick = pc.equal(batch[rows.KEY], pa.scalar(wire.TICK_KEY, pa.binary())).fill_null(False)
        if tick.true_count:
            self.packer.tick(batch[rows.ARRIVAL_MS].filter(tick).to_numpy(zero_copy_only=False))
            batch = batch.filter(pc.invert(tick))
        for start in range(0, len(batch), _MESSAGES_AT_ONCE):
            self._read(batch.slice(start, _MESSAGES_AT_ONCE))

    def _read(self, batch: pa.RecordBatch) -> None:
        values = batch[rows.VALUE].to_pylist()
        try:
            columns = self._columns([_loads(value) for value in values])
        except _NOT_SOUND:
            batch, columns = self._only_sound(batch, values)
        self._gate(batch, columns)

    def _columns(self, points: list[dict[str, Any]]) -> Columns:
        """Return the columns of sound points.

        Raises:
            UnsoundError: Some point is not sound; other errors of `_NOT_SOUND` say the same.
        """
        resource, metric = [point["resource"] for point in points], [point["metric"] for point in points]
        time_ns = _integers([point["time_ns"] for point in points])
        value = _numbers([point["value"] for point in points])
        kind, unit = [point.get("kind") for point in points], [point.get("unit") for point in points]
        total = _numbers_or_none([point.get("total") for point in points])
        attributes = [point.get("attributes") for point in points]
        self._require_names(set(resource), set(metric), set(unit))
        _require(set(kind) <= _KINDS)
        _require(not np.any(time_ns < rows.EARLIEST_NS))
        _require(not np.any(total < 0))
        if "ratio" in kind:
            ratio = np.array([item == "ratio" for item in kind], dtype=bool)
            _require(not np.any(ratio & ((value < 0) | (value > 1))))
        texts = [series_text(*names) for names in zip(kind, unit, metric, attributes, strict=True)]
        _require(_types(attributes) <= {dict, NoneType} and max(map(len, texts), default=0) <= rows.ATTRIBUTES_LIMIT)
        resource_codes, series_codes = self.packer.resources, self.packer.series
        return Columns(
            resource=np.array([resource_codes[name] for name in resource], dtype=np.int64),
            series=np.array([series_codes[text] for text in texts], dtype=np.int64),
            origin=np.zeros(len(points), dtype=np.int64),
            time_ns=time_ns,
            value=value,
            total=total,
            start_ns=_integers_or_none([point.get("start_time_ns") for point in points]),
        )

    def _require_names(self, resources: set[str], metrics: set[str], units: set[str | None]) -> None:
        """Check names that have not been seen before."""
        _require(_types(list(resources | metrics)) <= {str} and _types(list(units)) <= {str, NoneType})
        _require("" not in resources and "" not in metrics)
        new = (resources | metrics | units) - self._names
        _require(not any(name_fault(name) for name in new if name))
        if len(self._names) > _KNOWN_NAMES:
            self._names = {None}
        self._names |= new

    def _only_sound(self, batch: pa.RecordBatch, values: list[bytes | None]) -> tuple[pa.RecordBatch, Columns]:
        """Reject what is not sound; return the rest."""
        sound: list[dict[str, Any]] = []
        at: list[int] = []
        for index, value in enumerate(values):
            point, reason = read_point(value)
            if reason is None and point is not None:
                sound.append(point)
                at.append(index)
            else:
                self._keep(batch, index, rows.REJECTED, reason or "")
        rest = batch.take(pa.array(at, pa.int64()))
        try:
            return rest, self._columns(sound)
        except _NOT_SOUND:  # a rule for columns that no rule for messages matches: better rejected than stopped by
            return self._only_readable(rest, sound)

    def _only_readable(self, batch: pa.RecordBatch, points: list[dict[str, Any]]) -> tuple[pa.RecordBatch, Columns]:
        at = []
        for index, point in enumerate(points):
            try:
                self._columns([point])
                at.append(index)
            except _NOT_SOUND:
                self._keep(batch, index, rows.REJECTED, "cannot be read")
        return batch.take(pa.array(at, pa.int64())), self._columns([points[index] for index in at])

    def _gate(self, batch: pa.RecordBatch, columns: Columns) -> None:
        late, future = gate.fates_of(columns.time_ns, batch[rows.ARRIVAL_MS].to_numpy(zero_copy_only=False), self._time)
        for index in np.flatnonzero(late).tolist():
            self._keep(batch, index, rows.LATE, gate.LATE_REASON)
        for index in np.flatnonzero(future).tolist():
            self._keep(batch, index, rows.REJECTED, gate.FUTURE_REASON)
        refused = late | future
        if refused.any():
            columns = Columns(*(column[~refused] for column in vars(columns).values()))
        self.packer.add(columns)

    def _keep(self, batch: pa.RecordBatch, index: int, fate: str, reason: str) -> None:
        self.packer.keep(batch.slice(index, 1).to_pylist()[0], fate, reason)


def series_text(kind: str | None, unit: str | None, metric: str, attributes: dict[str, Any] | None) -> str:
    """Return a series as one string."""
    text = _dumps(attributes).decode() if attributes else "{}"
    return f"{kind or 'gauge'}\x1f{'1' if unit is None else unit}\x1f{metric}\x1f{text}"


# ---- columns: what is checked for a whole batch ----------------------------------------------------------------------

_KINDS: Final = {None, *KINDS}


def _require(sound: bool) -> None:
    if not sound:
        raise UnsoundError


def _types(items: list[Any]) -> set[type]:
    return set(map(type, items))


def _integers(items: list[Any]) -> NDArray[np.int64]:
    _require(_types(items) <= {int})
    return np.array(items, dtype=np.int64)


def _integers_or_none(items: list[Any]) -> NDArray[np.int64]:
    types = _types(items)
    if types <= {NoneType}:
        return np.full(len(items), NONE, dtype=np.int64)
    _require(types <= {int, NoneType})
    return np.array([NONE if item is None else item for item in items], dtype=np.int64)


def _numbers(items: list[Any]) -> NDArray[np.float64]:
    _require(_types(items) <= {int, float})
    numbers = np.array(items, dtype=np.float64)
    _require(not np.any(~(np.abs(numbers) <= rows.VALUE_LIMIT)))
    return numbers


def _numbers_or_none(items: list[Any]) -> NDArray[np.float64]:
    types = _types(items)
    if types <= {NoneType}:
        return np.full(len(items), np.nan)
    _require(types <= {int, float, NoneType})
    _numbers([item for item in items if item is not None])
    return np.array([np.nan if item is None else item for item in items], dtype=np.float64)


# ---- one message: why it is refused ----------------------------------------------------------------------------------


def read_point(value: bytes | None) -> tuple[dict[str, Any] | None, str | None]:
    """Return the point of a message, and the reason why it is refused (None: it is sound)."""
    if not value:
        return None, "empty message"
    try:
        point = _loads(value)
    except orjson.JSONDecodeError:
        return None, "malformed JSON"
    if not isinstance(point, dict):
        return None, "not a JSON object"
    return point, next((reason for reason in _faults(point) if reason), None)


def _faults(point: dict[str, Any]) -> Iterator[str | None]:
    for name in ("resource", "metric"):
        yield _text_fault(name, point.get(name))
    numbers: list[Any] = [point.get(name) for name in ("time_ns", "value", "total")]
    time_ns, value, total = numbers
    unit = point.get("unit")
    yield _integer_fault("time_ns", time_ns)
    yield "time_ns is before the year 2000: not nanoseconds?" if time_ns < rows.EARLIEST_NS else None
    yield _number_fault("value", value)
    if total is not None:
        yield _number_fault("total", total)
        yield "total is negative" if total < 0 else None
    kind = point.get("kind")
    yield None if kind is None or (isinstance(kind, str) and kind in KINDS) else "kind is unknown"
    yield "a ratio must lie in [0, 1]" if kind == "ratio" and not 0 <= value <= 1 else None
    if unit:
        yield _text_fault("unit", unit)
    elif unit is not None and not isinstance(unit, str):
        yield "unit is not text"
    start_ns, attributes = point.get("start_time_ns"), point.get("attributes")
    yield None if start_ns is None else _integer_fault("start_time_ns", start_ns)
    yield None if attributes is None else _attributes_fault(attributes, point)


def _text_fault(name: str, value: Any) -> str | None:
    if value is None:
        return f"{name} is missing"
    if not isinstance(value, str):
        return f"{name} is not text"
    fault = name_fault(value) if value else "is empty"
    return None if fault is None else f"{name} {fault}"


def name_fault(name: str) -> str | None:
    """Return what is wrong with a name that is not empty."""
    if len(name) > rows.NAME_LIMIT:
        return f"is longer than {rows.NAME_LIMIT} characters"
    return "holds a control character" if rows.SEPARATOR in name or rows.RESERVED in name else None


def _integer_fault(name: str, value: Any) -> str | None:
    if value is None:
        return f"{name} is missing"
    if type(value) is not int:
        return f"{name} is not a whole number"
    return None if -_INT64 <= value < _INT64 else f"{name} has more than 64 bits"


def _number_fault(name: str, value: Any) -> str | None:
    if value is None:
        return f"{name} is missing"
    if type(value) not in {int, float}:
        return f"{name} is not a number"
    return None if abs(value) <= rows.VALUE_LIMIT else f"{name} is not a finite number below 1e150"


def _attributes_fault(attributes: Any, point: dict[str, Any]) -> str | None:
    if not isinstance(attributes, dict):
        return "attributes are no object"
    text = series_text(point.get("kind"), point.get("unit"), point["metric"], attributes)
    if len(text) > rows.ATTRIBUTES_LIMIT:
        return f"metric, unit and attributes are longer than {rows.ATTRIBUTES_LIMIT} characters"
    return None
