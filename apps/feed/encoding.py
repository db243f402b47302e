"""Points as record values: the bytes `orjson.dumps(MetricPoint(...))` gives, a whole batch at a time."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import orjson
from numpy.typing import NDArray

from apps.feed.merge import Arrivals
from apps.feed.series import Rules, SeriesTable
from topics.records import Kind, MetricPoint


class PointEncoder:
    """Encodes points of the series of one table; each series' constant bytes are made once."""

    def __init__(self, table: SeriesTable, kinds: Rules, units: Rules) -> None:
        self._table, self._kinds, self._units = table, kinds, units
        self._keys: list[bytes] = []
        self._before: list[bytes] = []
        self._between: list[bytes] = []
        self._after: list[bytes] = []

    def encode(self, batch: Arrivals) -> tuple[list[bytes], list[bytes]]:
        """Return record keys and record values, in the batch's order."""
        for resource, metric in self._table.names[len(self._keys) :]:
            self._frame(resource, metric)
        before, between, after = self._before, self._between, self._after
        codes = batch.series.tolist()
        numbers = zip(codes, _digits(batch.time_ns), _digits(batch.value), strict=True)
        values = [b"".join((before[code], time, between[code], value, after[code])) for code, time, value in numbers]
        return [self._keys[code] for code in codes], values

    def _frame(self, resource: str, metric: str) -> None:
        """Cut the record of a series around its time and its value."""
        kind, unit = cast(Kind, self._kinds.of(metric)), self._units.of(metric)
        zero = MetricPoint(resource=resource, metric=metric, time_ns=0, value=0.0, kind=kind, unit=unit)
        one = MetricPoint(resource=resource, metric=metric, time_ns=1, value=1.0, kind=kind, unit=unit)
        time_at, value_at = _differences(orjson.dumps(zero), orjson.dumps(one))
        whole = orjson.dumps(zero)
        self._keys.append(resource.encode())
        self._before.append(whole[:time_at])
        self._between.append(whole[time_at + 1 : value_at])
        self._after.append(whole[value_at + len(b"0.0") :])


def _differences(first: bytes, second: bytes) -> tuple[int, int]:
    """Return the two positions at which records of equal length differ: where time and value stand."""
    time_at, value_at = (at for at, (left, right) in enumerate(zip(first, second, strict=True)) if left != right)
    return time_at, value_at


def _digits(numbers: NDArray[Any]) -> list[bytes]:
    """Return each number as JSON."""
    if not len(numbers):
        return []
    return orjson.dumps(np.ascontiguousarray(numbers), option=orjson.OPT_SERIALIZE_NUMPY)[1:-1].split(b",")
