"""Which row of the state is which series: found by name, given to new ones in the order of the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import orjson

from models.interface import Likelihood
from pipelines.novelty.observations import RecordTable
from pipelines.novelty.packing import Column, Control, Floats, Integers, Marker, Place, RecordColumn
from pipelines.novelty.state import (
    CUMULATIVE,
    DELTA,
    REFUSED,
    BucketState,
    log_series,
    parse_identities,
    split_shape,
)
from topics.controls import Rule, RuleRemoval, control_of
from topics.records import KINDS, Inventory, OperatorVerdict

_COUNTED: Final = (DELTA, CUMULATIVE)


@dataclass
class Attendance:
    """Who reported in a run.

    Attributes:
        window: Window of each record, index in the run, shape (records,).
        resource: Resource of each record.
        counts: Values of each record.
        value: Row of the table's `values` of each value of the records, shape (values,).
        row: Row of its series, `REFUSED` where the series was refused, shape (values,).
        known: Resources known at each window, shape (windows,).
        places: Where each known resource belongs, per window.
        born: Window in which each row appeared first, -1 for those known before the run, shape (rows,).
        rules: Suppression rules that hold in each window.
        verdicts: What operators said in each window.
        names: Metric, attributes, kind and unit of every row.
    """

    window: Integers
    resource: Integers
    counts: Integers
    value: Integers
    row: Integers
    known: list[int]
    places: list[list[Place]]
    born: Integers
    rules: list[tuple[Rule, ...]]
    verdicts: list[list[OperatorVerdict]]
    names: list[list[Any]]

    def refused(self, windows: int) -> list[int]:
        """Return how many values of refused series each window brought."""
        window = np.repeat(self.window, self.counts)
        return [int(count) for count in np.bincount(window[self.row == REFUSED], minlength=windows)]


@dataclass
class _NewSeries:
    """Columns of series that are about to join the state."""

    resource: list[int] = field(default_factory=list)
    kind: list[int] = field(default_factory=list)
    log: list[int] = field(default_factory=list)
    likelihood: list[int] = field(default_factory=list)
    born: list[int] = field(default_factory=list)


class Directory:
    """Names of one bucket. Made anew for each call and after each expiry: it holds nothing the state does not.

    Attributes:
        names: Metric, attributes, kind and unit of every row.
    """

    def __init__(self, state: BucketState, series_per_resource: int) -> None:
        self._state = state
        self._limit = series_per_resource
        self._number = {name: number for number, name in enumerate(state.names)}
        self._known: list[dict[bytes, int]] = [{} for _ in state.names]
        self._rows: dict[tuple[int, bytes], Integers] = {}
        self._places = [state.place(number) for number in range(len(state.names))]
        self._rules = state.rules_by_id()
        self._new = _NewSeries()
        self.names: list[list[Any]] = parse_identities(state.identities)
        for row, (resource, identity) in enumerate(zip(state.series.resource.tolist(), state.identities, strict=True)):
            self._known[resource][identity] = row

    def attend(self, table: RecordTable, windows: list[Marker]) -> Attendance:
        """Find or give a row to every series of the windows' records; apply the windows' control records."""
        before = len(self._state.series)
        rows, window, resources, known, places, rules, verdicts = [], [], [], [], [], [], []
        controls = _by_window(table.controls)
        slices = table.of_windows(windows)
        for index, (marker, records) in enumerate(zip(windows, slices, strict=True)):
            verdicts.append(self._apply(controls.get(marker.end_ms, [])))
            rules.append(self._rules)
            for record in range(records.start, records.stop):
                columns = table.records[record].tolist()
                resource = self._resource(table.resources[columns[RecordColumn.RESOURCE]])
                self._tell(resource, table.places[columns[RecordColumn.PLACE]])
                rows.append(self._series(resource, table, record, columns[RecordColumn.SHAPE], index))
                resources.append(resource)
            window += [index] * (records.stop - records.start)
            known.append(len(self._state.names))
            places.append(self._places)
        born = np.concatenate([np.full(before, -1), np.array(self._new.born, dtype=np.int64)])
        self._join()
        return Attendance(
            window=np.array(window, dtype=np.int64),
            resource=np.array(resources, dtype=np.int64),
            counts=np.array([len(part) for part in rows], dtype=np.int64),
            value=table.value_rows(slice(slices[0].start, slices[-1].stop)),
            row=np.concatenate([np.empty(0, dtype=np.int64), *rows]),
            known=known,
            places=places,
            born=born,
            rules=rules,
            verdicts=verdicts,
            names=self.names,
        )

    def _apply(self, controls: list[Control]) -> list[OperatorVerdict]:
        """Take over what the control records say, in log order; return the verdicts among them."""
        verdicts: list[OperatorVerdict] = []
        for control in (control_of(orjson.loads(record.content)) for record in controls):
            match control:
                case Inventory():
                    self._introduce(control)
                case OperatorVerdict():
                    verdicts.append(control)
                case _:
                    self._rule(control)
        return verdicts

    def _introduce(self, inventory: Inventory) -> None:
        place = Place(inventory.service, inventory.region, inventory.site)
        self._state.inventory[inventory.resource] = place
        number = self._number.get(inventory.resource)
        if number is not None:
            self._relocate(number)

    def _rule(self, change: Rule | RuleRemoval) -> None:
        self._state.rules.pop(change.id, None)
        if isinstance(change, Rule):
            self._state.rules[change.id] = change
        self._rules = self._state.rules_by_id()

    def _tell(self, resource: int, place: Place) -> None:
        """Take over what the telemetry itself tells."""
        told = self._state.told[resource]
        if place != told and (place := place.over(told)) != told:
            self._state.told[resource] = place
            self._relocate(resource)

    def _relocate(self, resource: int) -> None:
        # Earlier windows of the run keep their list.
        self._places = self._places.copy()
        self._places[resource] = self._state.place(resource)

    def _resource(self, name: str) -> int:
        number = self._number.get(name)
        if number is None:
            state = self._state
            self._number[name] = number = len(state.names)
            state.names.append(name)
            state.told.append(Place())
            state.resources.append(last_end_ms=np.zeros(1), windows=np.zeros(1), log_windows=np.zeros(1))
            self._known.append({})
            self._places = [*self._places, state.place(number)]
        return number

    def _series(self, resource: int, table: RecordTable, record: int, shape: int, window: int) -> Integers:
        key = resource, table.shapes[shape]
        rows = self._rows.get(key)
        if rows is None:
            first = int(table.first[record])
            identities = split_shape(key[1])
            values = table.values[first : first + len(identities)]
            found = [self._row(resource, *pair, window) for pair in zip(identities, values, strict=True)]
            self._rows[key] = rows = np.array(found, dtype=np.int64)
        return rows

    def _row(self, resource: int, identity: bytes, values: Floats, window: int) -> int:
        known = self._known[resource]
        row = known.get(identity)
        if row is not None:
            return row
        if len(known) >= self._limit:
            return REFUSED
        known[identity] = row = len(self._state.identities)
        self._state.identities.append(identity)
        self.names += parse_identities([identity])
        self._enlist(resource, values, window)
        return row

    def _enlist(self, resource: int, values: Floats, window: int) -> None:
        metric, attributes, kind_name, _ = self.names[-1]
        kind = KINDS.index(kind_name)
        new = self._new
        new.resource.append(resource)
        new.kind.append(kind)
        new.log.append(log_series(metric, attributes))
        new.likelihood.append(_likelihood(kind, values))
        new.born.append(window)

    def _join(self) -> None:
        """Let the new series join the state."""
        count = len(self._new.resource)
        self._state.series.append(
            resource=np.array(self._new.resource),
            kind=np.array(self._new.kind),
            log=np.array(self._new.log),
            likelihood=np.array(self._new.likelihood),
            last_end_ms=np.zeros(count),
            observations=np.zeros(count),
            last=np.full(count, np.nan),
            last_time_ns=np.full(count, np.nan),
        )
        self._new = _NewSeries()


def _by_window(controls: Sequence[Control]) -> dict[int, list[Control]]:
    windows: dict[int, list[Control]] = {}
    for control in controls:
        windows.setdefault(control.end_ms, []).append(control)
    return windows


def _likelihood(kind: int, values: Floats) -> Likelihood:
    """Return how a new series is taken to be distributed; a count may turn out to be none."""
    if kind in _COUNTED:
        return Likelihood.COUNT
    return Likelihood.GAUGE if np.isnan(values[Column.TOTAL]) else Likelihood.RATIO
