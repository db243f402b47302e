"""Statistics records of one micro-batch, packed per bucket: one fat row through the shuffle instead of many thin ones.

A *parcel* holds what one Arrow batch brought for one bucket: records in columns, control records and closed markers.
Names are kept once per parcel; the series of a record are one *shape*, the joined identities of its series in order,
because a resource reports the same series window after window.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from topics.controls import ControlRecord
from topics.records import ClosedMarker, Inventory, SeriesStatistics, Statistics

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def field_names(record: type[Any]) -> list[str]:
    """Return the wire names of a record's fields, in order."""
    return [item.name for item in fields(record)]


(
    _METRIC, _ATTRIBUTES, _KIND, _UNIT, _N, _SUM, _MEAN, _M2, _MIN, _MAX, _FIRST, _FIRST_TIME, _LAST, _LAST_TIME,
    _INCREASE, _START_TIME, _TOTAL,
) = field_names(SeriesStatistics)  # fmt: skip
(
    _RESOURCE, _WINDOW_START, _WINDOW_END, _PART, _PARTS, _SERVICE, _REGION, _SITE, _SAMPLES, _DUPLICATES, _EXCESS,
    _SERIES,
) = field_names(Statistics)  # fmt: skip
_MARKER_START, _MARKER_END, *_ = field_names(ClosedMarker)
_CONTROL_END, _CONTROL = field_names(ControlRecord)
_CONTROL_TYPE: Final = field_names(Inventory)[-1]

#: Separates the identities of a shape; JSON text never holds it raw.
SHAPE_SEPARATOR: Final = b"\n"

_identity_of = itemgetter(_METRIC, _ATTRIBUTES, _KIND, _UNIT)
_numbers_of = itemgetter(_N, _SUM, _MEAN, _FIRST, _FIRST_TIME, _LAST, _LAST_TIME, _INCREASE, _START_TIME, _TOTAL)
_place_of = itemgetter(_SERVICE, _REGION, _SITE)


class Column:
    """Columns of `Parcel.values`."""

    N, SUM, MEAN, FIRST, FIRST_TIME_NS, LAST, LAST_TIME_NS, INCREASE, START_TIME_NS, TOTAL = range(10)
    COUNT: Final = 10


class RecordColumn:
    """Columns of `Parcel.records`."""

    START_MS, END_MS, RESOURCE, PART, PLACE, SHAPE, SERIES = range(7)
    COUNT: Final = 7


class Place(NamedTuple):
    """Where a resource belongs; None where unknown."""

    service: str | None = None
    region: str | None = None
    site: str | None = None

    def over(self, other: Place) -> Place:
        """Return this place, its gaps filled from another."""
        return Place(*(mine if mine is not None else theirs for mine, theirs in zip(self, other, strict=True)))


NOWHERE: Final = Place()


class Marker(NamedTuple):
    """Window that is complete."""

    end_ms: int
    start_ms: int


class Control(NamedTuple):
    """A control record as JSON text, the window it is stamped with, and where it stands in the log."""

    end_ms: int
    offset: int
    content: str


@dataclass(frozen=True)
class Parcel:
    """What one Arrow batch holds for one bucket.

    Attributes:
        markers: Windows complete.
        controls: Control records that concern the bucket.
        resources: Distinct resource names.
        places: Distinct places the telemetry itself tells.
        shapes: Distinct shapes.
        records: One row per record, columns of `RecordColumn`, shape (records, 7).
        values: One row per series, in the records' order, columns of `Column`, NaN for null, shape (series, 10).
    """

    markers: Sequence[Marker]
    controls: Sequence[Control]
    resources: Sequence[str]
    places: Sequence[Place]
    shapes: Sequence[bytes]
    records: Integers
    values: Floats

    @property
    def last_end_ms(self) -> int:
        """Return the latest window end of any record or control record; 0 when there is none."""
        ends = [control.end_ms for control in self.controls]
        if len(self.records):
            ends.append(int(self.records[:, RecordColumn.END_MS].max()))
        return max(ends, default=0)


class Numbering(dict[Any, int]):
    """Numbers distinct things in order of appearance: `numbers[thing]`."""

    def __missing__(self, thing: Any) -> int:
        self[thing] = number = len(self)
        return number


@dataclass
class ParcelBuilder:
    """Collects records, control records and markers of one bucket."""

    _markers: list[Marker] = field(default_factory=list)
    _controls: list[Control] = field(default_factory=list)
    _resources: Numbering = field(default_factory=Numbering)
    _places: Numbering = field(default_factory=Numbering)
    _shapes: Numbering = field(default_factory=Numbering)
    _records: list[int] = field(default_factory=list)
    _numbers: list[float | None] = field(default_factory=list)

    def record(self, statistics: Mapping[str, Any]) -> None:
        """Add a parsed `Statistics` record."""
        series = statistics[_SERIES]
        self._records += (
            statistics[_WINDOW_START],
            statistics[_WINDOW_END],
            self._resources[statistics[_RESOURCE]],
            statistics[_PART],
            self._places[_place_of(statistics)],
            self._shapes[_shape_key(series)],
            len(series),
        )
        self._numbers += chain.from_iterable(map(_numbers_of, series))

    def control(self, control: Mapping[str, Any], offset: int) -> None:
        """Add a parsed `ControlRecord` that stands at an offset of the log."""
        content = orjson.dumps(control[_CONTROL]).decode()
        self._controls.append(Control(control[_CONTROL_END], offset, content))

    def marker(self, marker: Mapping[str, Any]) -> None:
        """Add a parsed `ClosedMarker`."""
        self._markers.append(Marker(marker[_MARKER_END], marker[_MARKER_START]))

    def parcel(self) -> Parcel:
        """Return what was collected."""
        return Parcel(
            markers=self._markers,
            controls=self._controls,
            resources=list(self._resources),
            places=[Place(*place) for place in self._places],
            shapes=[_shape(key) for key in self._shapes],
            records=np.array(self._records, dtype=np.int64).reshape(-1, RecordColumn.COUNT),
            values=np.array(self._numbers, dtype=np.float64).reshape(-1, Column.COUNT),
        )


def _shape_key(series: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the identities of a record's series as one JSON text: equal for equal series in equal order."""
    return orjson.dumps(list(map(_identity_of, series)), option=orjson.OPT_SORT_KEYS)


def _shape(key: bytes) -> bytes:
    return SHAPE_SEPARATOR.join(map(orjson.dumps, orjson.loads(key)))


def concerns_one_bucket(control: Mapping[str, Any]) -> bool:
    """Tell whether a parsed `ControlRecord` is about one resource; rules and verdicts may be about any."""
    return bool(control[_CONTROL][_CONTROL_TYPE] == Inventory.type)


# ---- bytes -----------------------------------------------------------------------------------------------------------

_ALIGNMENT: Final = 8


def join_sections(sections: Iterable[bytes]) -> bytes:
    """Return the sections as one blob, each behind its length and aligned so that arrays are read without a copy."""
    parts: list[bytes] = []
    for section in sections:
        parts += (len(section).to_bytes(_ALIGNMENT, "little"), section, bytes(-len(section) % _ALIGNMENT))
    return b"".join(parts)


def split_sections(blob: bytes | bytearray | memoryview) -> list[memoryview]:
    """Return the sections of a blob made by `join_sections`."""
    view, at, sections = memoryview(blob), 0, []
    while at < len(view):
        begin = at + _ALIGNMENT
        end = begin + int.from_bytes(view[at:begin], "little")
        sections.append(view[begin:end])
        at = end + -(end - begin) % _ALIGNMENT
    return sections


def parcel_to_bytes(parcel: Parcel) -> bytes:
    """Return a parcel as a blob."""
    named = (parcel.markers, parcel.controls, parcel.resources, parcel.places)
    head = orjson.dumps(named, default=list)
    return join_sections([head, parcel.records.tobytes(), parcel.values.tobytes(), *parcel.shapes])


def parcel_from_bytes(blob: bytes | bytearray) -> Parcel:
    """Read a blob written by `parcel_to_bytes`."""
    head, records, values, *shapes = split_sections(blob)
    markers, controls, resources, places = orjson.loads(head)
    return Parcel(
        markers=[Marker(*marker) for marker in markers],
        controls=[Control(*control) for control in controls],
        resources=resources,
        places=[Place(*place) for place in places],
        shapes=[bytes(shape) for shape in shapes],
        records=np.frombuffer(records, dtype=np.int64).reshape(-1, RecordColumn.COUNT),
        values=np.frombuffer(values, dtype=np.float64).reshape(-1, Column.COUNT),
    )
