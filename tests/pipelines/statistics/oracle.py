"""What the parser must accept, written with Python's JSON module: an independent reading of the contract."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn

from tests.pipelines.statistics.raw import ARRIVAL_NS, SECOND_NS

_INT64 = 2**63
_YEAR_2000_NS = 946_684_800 * SECOND_NS


class RefusedError(ValueError):
    pass


def fate_of(value: bytes, read: Callable[[dict[str, Any]], int], lateness_s: int = 30, future_s: int = 10) -> str:
    try:
        time_ns = read(_object(value))
    except RefusedError:
        return "rejected"
    if ARRIVAL_NS - time_ns > lateness_s * SECOND_NS:
        return "late"
    return "rejected" if time_ns - ARRIVAL_NS > future_s * SECOND_NS else "on_time"


def metric_time(point: dict[str, Any]) -> int:
    whole_text(point)
    _name(point.get("resource"))
    _name(point.get("metric"))
    _attributes(point.get("attributes"))
    value = _number(point.get("value"))
    total = point.get("total")
    _require(total is None or _number(total) >= 0)
    kind = point.get("kind")
    _require(kind in (None, "gauge", "delta", "cumulative", "ratio") and not isinstance(kind, list | dict))
    _require(kind != "ratio" or 0 <= value <= 1)
    unit = point.get("unit")
    _require(unit is None or isinstance(unit, str))
    _label(unit or "")
    _require("\0" not in (unit or ""))
    start_ns = point.get("start_time_ns")
    _require(start_ns is None or _is_int64(start_ns))
    return _time(point.get("time_ns"))


def log_time(event: dict[str, Any]) -> int:
    _name(event.get("resource"))
    _attributes(event.get("attributes"))
    _require(event.get("severity") is not None and event.get("body") is not None)
    _label(event.get("severity"))
    return _time(event.get("time_ns"))


def _require(condition: bool) -> None:
    if not condition:
        raise RefusedError


def _constant(name: str) -> NoReturn:
    raise RefusedError(name)


def _object(value: bytes) -> dict[str, Any]:
    try:
        read = json.loads(value.decode(), parse_constant=_constant)
    except (ValueError, RecursionError) as failure:
        raise RefusedError from failure
    _require(isinstance(read, dict))
    return dict(read)


def whole_text(point: dict[str, Any]) -> None:
    """Half a surrogate pair is no text."""
    try:
        json.dumps(point, ensure_ascii=False).encode()
    except UnicodeEncodeError as failure:
        raise RefusedError from failure


def _name(name: Any) -> None:
    _require(isinstance(name, str) and 0 < len(name) <= 512 and "\x1f" not in name and "\0" not in name)


def _label(value: Any) -> None:
    """What takes any JSON value as its text."""
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    _require(len(text) <= 512 and "\x1f" not in text)


def _attributes(attributes: Any) -> None:
    _require(attributes is None or isinstance(attributes, dict))
    _require(len(json.dumps(attributes, separators=(",", ":"), ensure_ascii=False)) <= 8192)


def _number(value: Any) -> float:
    _require(isinstance(value, int | float) and not isinstance(value, bool))
    _require(abs(value) <= 1e150)
    return float(value)


def _is_int64(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -_INT64 <= value < _INT64


def _time(time_ns: Any) -> int:
    _require(_is_int64(time_ns) and time_ns >= _YEAR_2000_NS)
    return int(time_ns)
