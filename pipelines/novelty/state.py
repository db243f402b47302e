"""State of one bucket: who is known, which row of the models is which series, and the models' arrays.

The state after window w is a function of the log up to w: expiry happens at fixed points of event time, never when a
micro-batch happens to end. Rows are in order of first appearance, so equal logs give equal bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from models.reporting import ReportingState
from models.rollup import TailState
from models.series import SeriesState
from pipelines.novelty.packing import NOWHERE, SHAPE_SEPARATOR, Integers, Place, join_sections, split_sections
from topics.controls import Rule, control_of
from topics.records import KINDS, LOG_OTHER_TEMPLATE, LOG_SEVERITY_METRIC, LOG_TEMPLATE_METRIC

#: Raised with every change of the layout; `BucketState.from_bytes` refuses what it cannot read.
LAYOUT: Final = 2

#: Row of a series that was refused.
REFUSED: Final = -1

GAUGE, DELTA, CUMULATIVE, RATIO = range(len(KINDS))


class LogSeries(IntEnum):
    """What a series counts, as far as logs are concerned."""

    NONE = 0
    SEVERITY = 1
    TEMPLATE = 2
    OTHER_TEMPLATES = 3


class StateLayoutError(RuntimeError):
    """The state was written in a layout this code cannot read."""


class _Columns:
    """Columns of equal length, one entry per row; subclasses declare them."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))  # type: ignore[arg-type]

    def append(self, **new: NDArray[Any]) -> None:
        """Add rows; every column must be given."""
        for item in fields(self):  # type: ignore[arg-type]
            present = getattr(self, item.name)
            setattr(self, item.name, np.concatenate([present, new[item.name].astype(present.dtype)]))

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Drop the rows that are not kept; the others stay in order."""
        for item in fields(self):  # type: ignore[arg-type]
            setattr(self, item.name, getattr(self, item.name)[kept])

    def sections(self) -> list[bytes]:
        """Return the columns as bytes."""
        return [getattr(self, item.name).tobytes() for item in fields(self)]  # type: ignore[arg-type]

    def read(self, sections: Sequence[memoryview]) -> None:
        """Set the columns from what `sections` returned."""
        for item, section in zip(fields(self), sections, strict=True):  # type: ignore[arg-type]
            setattr(self, item.name, np.frombuffer(section, getattr(self, item.name).dtype).copy())


@dataclass
class ResourceTable(_Columns):
    """Columns of the known resources.

    Attributes:
        last_end_ms: End of the last window with a record.
        windows: Windows with a record.
        log_windows: Windows with log templates.
    """

    last_end_ms: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    windows: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    log_windows: Integers = field(default_factory=lambda: np.empty(0, np.int64))


@dataclass
class SeriesTable(_Columns):
    """Columns of the known series, one row of the models each.

    Attributes:
        resource: Index of the resource.
        kind: Index in `KINDS`.
        log: What it counts, `LogSeries`.
        likelihood: How its values are distributed, `Likelihood`.
        last_end_ms: End of the last window with a value of its own.
        observations: Windows it was observed in.
        last: Last value, for the boundary part of a counter's increase.
        last_time_ns: Event time of it.
    """

    resource: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    kind: NDArray[np.int8] = field(default_factory=lambda: np.empty(0, np.int8))
    log: NDArray[np.int8] = field(default_factory=lambda: np.empty(0, np.int8))
    likelihood: NDArray[np.int8] = field(default_factory=lambda: np.empty(0, np.int8))
    last_end_ms: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    observations: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    last: NDArray[np.float64] = field(default_factory=lambda: np.empty(0, np.float64))
    last_time_ns: NDArray[np.float64] = field(default_factory=lambda: np.empty(0, np.float64))


def parse_identities(identities: Sequence[bytes]) -> list[list[Any]]:
    """Return metric, attributes, kind and unit of each identity."""
    parsed: list[list[Any]] = orjson.loads(b"[" + b",".join(identities) + b"]")
    return parsed


def log_series(metric: str, attributes: Mapping[str, str]) -> LogSeries:
    """Return what a series counts, as far as logs are concerned."""
    if metric == LOG_SEVERITY_METRIC:
        return LogSeries.SEVERITY
    if metric != LOG_TEMPLATE_METRIC:
        return LogSeries.NONE
    return LogSeries.OTHER_TEMPLATES if LOG_OTHER_TEMPLATE in attributes.values() else LogSeries.TEMPLATE


@dataclass
class BucketState:
    """Everything the fold remembers of one bucket.

    Attributes:
        end_ms: End of the last closed window; 0 before the first.
        snapshot_ms: End of the last window after which snapshots were written.
        log_trials: Windows of grown-up resources with log templates, for the probability of a new template.
        log_novelties: Those of them with a template never seen before.
        names: Resources, in order of first appearance.
        told: Where the telemetry says each resource belongs.
        inventory: Where the inventory says resources belong, known to the fold or not.
        rules: Suppression rules that hold, by id.
        resources: Columns of the resources.
        identities: Identity of every series, in order of first appearance.
        series: Columns of the series.
        models: Models of the series, same rows.
        reporting: Reporting habits of the resources, same order.
        tails: Calibration of the resources' evidence, pooled over the bucket.
    """

    end_ms: int = 0
    snapshot_ms: int = 0
    log_trials: int = 0
    log_novelties: int = 0
    names: list[str] = field(default_factory=list)
    told: list[Place] = field(default_factory=list)
    inventory: dict[str, Place] = field(default_factory=dict)
    rules: dict[str, Rule] = field(default_factory=dict)
    resources: ResourceTable = field(default_factory=ResourceTable)
    identities: list[bytes] = field(default_factory=list)
    series: SeriesTable = field(default_factory=SeriesTable)
    models: SeriesState = field(default_factory=SeriesState)
    reporting: ReportingState = field(default_factory=ReportingState)
    tails: TailState = field(default_factory=TailState)

    def place(self, resource: int) -> Place:
        """Return where a resource belongs: what its telemetry tells wins over the inventory."""
        return self.told[resource].over(self.inventory.get(self.names[resource], NOWHERE))

    def grow_models(self) -> None:
        """Give every series that joined a model; it starts from what the same series on other resources taught."""
        known = len(self.models)
        classes = [zlib.crc32(identity) for identity in self.identities[known:]]
        class_id = np.array(classes, dtype=np.uint32).astype(np.int32)
        self.models.grow(self.series.likelihood[known:].tolist(), class_id.tolist())

    def expire(self, before_ms: int) -> bool:
        """Forget series and resources without a value since `before_ms`; return whether there were any."""
        series = self.series.last_end_ms >= before_ms
        resources = self.resources.last_end_ms >= before_ms
        if series.all() and resources.all():
            return False
        number = np.cumsum(resources) - 1
        self.identities = _kept(self.identities, series)
        self.series.keep(series)
        self.series.resource = number[self.series.resource].astype(np.int32)
        self.models = self.models.keep(series)
        self.names, self.told = _kept(self.names, resources), _kept(self.told, resources)
        self.resources.keep(resources)
        self.reporting = self.reporting.keep(resources)
        return True

    def to_bytes(self) -> bytes:
        """Return the state as one blob."""
        inventory = sorted((name, *place) for name, place in self.inventory.items())
        head = [
            LAYOUT,
            self.end_ms,
            self.snapshot_ms,
            self.log_trials,
            self.log_novelties,
            self.names,
            self.told_lists(),
            inventory,
            self.rules_by_id(),
        ]
        parts = [self.models.to_bytes(), self.reporting.to_bytes(), self.tails.to_bytes()]
        names = SHAPE_SEPARATOR.join(self.identities)
        columns = [join_sections(self.resources.sections()), join_sections(self.series.sections())]
        return join_sections([orjson.dumps(head), names, *columns, *parts])

    def rules_by_id(self) -> tuple[Rule, ...]:
        """Return the rules that hold, in order of their ids."""
        return tuple(self.rules[name] for name in sorted(self.rules))

    def told_lists(self) -> list[list[str | None]]:
        """Return what the telemetry tells, as plain lists."""
        return [list(place) for place in self.told]

    @classmethod
    def from_bytes(cls, blob: bytes | bytearray) -> BucketState:
        """Read a blob written by `to_bytes`.

        Raises:
            StateLayoutError: It was written in another layout.
        """
        head, names, resources, series, models, reporting, tails = split_sections(blob)
        layout, *rest = orjson.loads(head)
        if layout != LAYOUT:
            message = f"state has layout {layout}, this code reads layout {LAYOUT}: start a new generation"
            raise StateLayoutError(message)
        end_ms, snapshot_ms, trials, novelties, resource_names, told, inventory, rules = rest
        state = cls(
            end_ms=end_ms,
            snapshot_ms=snapshot_ms,
            log_trials=trials,
            log_novelties=novelties,
            names=resource_names,
            told=[Place(*place) for place in told],
            inventory={name: Place(*place) for name, *place in inventory},
            rules={rule["id"]: control_of(rule) for rule in rules},  # type: ignore[misc]
            identities=split_shape(bytes(names)),
            models=SeriesState.from_bytes(models),
            reporting=ReportingState.from_bytes(reporting),
            tails=TailState.from_bytes(tails),
        )
        state.resources.read(split_sections(resources))
        state.series.read(split_sections(series))
        return state


def split_shape(shape: bytes) -> list[bytes]:
    """Return the identities of a shape."""
    return shape.split(SHAPE_SEPARATOR) if shape else []


def _kept(items: list[Any], kept: NDArray[np.bool_]) -> list[Any]:
    return [item for item, keep in zip(items, kept.tolist(), strict=True) if keep]
