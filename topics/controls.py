"""Control records: inventory, suppression rules and operators' verdicts, told apart by their field `type`.

They are raw records like any other, in the log's order: passed on by the statistics job with the window of their
arrival, applied at that window's marker by every job they concern, in any replay alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from topics.records import Direction, Inventory, OperatorVerdict

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: Final[tuple[Day, ...]] = get_args(Day)
DAY_MINUTES: Final = 24 * 60
WEEK_MINUTES: Final = len(DAYS) * DAY_MINUTES


@dataclass(frozen=True)
class Interval:
    """A stretch of event time; windows that overlap it belong to it."""

    start_ms: int
    end_ms: int


@dataclass(frozen=True)
class Weekly:
    """A stretch of time that recurs on these days of the week, UTC; it may reach into the next day."""

    days: list[Day]
    start_minute: int
    duration_minutes: int


@dataclass(frozen=True)
class Rule:
    """Control record: which results to skip, or which values not to learn; a later rule of the same id replaces it.

    The patterns are the scope: names in which `*` stands for anything, null for any. All conditions must hold: the
    value's direction, a deviation from the expectation *below* the minimal one, a window within one of the calendar's
    stretches (any window if it has none). `skip_result`: the series does not count as evidence. `skip_learning`: the
    model is not taught the value.
    """

    id: str
    resource: str | None = None
    service: str | None = None
    region: str | None = None
    metric: str | None = None
    direction: Direction | None = None
    minimal_deviation: float | None = None
    minimal_relative_deviation: float | None = None
    intervals: list[Interval] = field(default_factory=list)
    weekly: list[Weekly] = field(default_factory=list)
    skip_result: bool = True
    skip_learning: bool = False
    note: str | None = None
    type: Literal["rule"] = "rule"


@dataclass(frozen=True)
class RuleRemoval:
    """Control record: the rule of this id holds no longer."""

    id: str
    type: Literal["rule_removal"] = "rule_removal"


Control = Inventory | Rule | RuleRemoval | OperatorVerdict
#: Record types by what stands in their field `type`.
CONTROL_TYPES: Final[Mapping[str, type[Any]]] = {record.type: record for record in get_args(Control)}


@dataclass(frozen=True)
class ControlRecord:
    """A raw control record passed on in log order, stamped with the window of its arrival, applied at its marker."""

    window_end_ms: int
    control: Control


def control_of(content: Mapping[str, Any]) -> Control:
    """Build a control record from its parsed JSON object; unknown fields are left out, null means the default.

    Raises:
        KeyError: Its type is unknown.
        TypeError: A field without default is missing.
    """
    control: Control = _built(CONTROL_TYPES[content["type"]], content)
    return control


def _built(record: type[Any], content: Mapping[str, Any]) -> Any:
    given = {name: hint for name, hint in get_type_hints(record).items() if content.get(name) is not None}
    return record(**{name: _value(hint, content[name]) for name, hint in given.items()})


def _value(hint: Any, value: Any) -> Any:
    element = get_args(hint)[0] if get_origin(hint) is list else None
    if is_dataclass(element):
        return [_built(element, each) for each in value]  # type: ignore[arg-type]
    # The statistics job reads any JSON value as text where text belongs.
    return str(value) if hint in (str, str | None) else value
