"""Records to test with, and a hypothesis strategy for any record type."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from topics.records import Contributor, Incident, Score, SeriesScore, severity_of

WINDOW_MS = 60_000
START_MS = 1_763_690_400_000  # 2025-11-21T02:00:00Z


def series_score(score: float = 60.0, cpu: int = 0, **changes: Any) -> SeriesScore:
    values: dict[str, Any] = {
        "metric": "system.cpu.utilization",
        "attributes": {"cpu": str(cpu)},
        "kind": "gauge",
        "unit": "1",
        "actual": 0.9,
        "expected": 0.4,
        "lower": 0.3,
        "upper": 0.5,
        "p": 1e-9,
        "score": score,
        "direction": "high",
        "contribution": score / 100,
        "observations": 120.0,
    }
    return SeriesScore(**values | changes)


def score(resource: str = "vm-0001", window: int = 0, value: float = 60.0, **changes: Any) -> Score:
    values: dict[str, Any] = {
        "resource": resource,
        "window_start_ms": START_MS + window * WINDOW_MS,
        "window_end_ms": START_MS + (window + 1) * WINDOW_MS,
        "service": "upf",
        "region": "eu-west",
        "site": "ams-1",
        "p": 1e-9,
        "score": value,
        "severity": severity_of(value),
        "silent": False,
        "model_version": "m1",
        "series": [series_score(value, cpu) for cpu in range(2)],
    }
    return Score(**values | changes)


def incident(revision: int = 1, id: str = "i-1", **changes: Any) -> Incident:  # noqa: A002
    values: dict[str, Any] = {
        "id": id,
        "state": "open" if revision == 1 else "update",
        "revision": revision,
        "scope": "service",
        "severity": "major",
        "score": 62.4,
        "p": 1e-12,
        "start_ms": START_MS,
        "end_ms": None,
        "last_window_end_ms": START_MS + revision * WINDOW_MS,
        "windows": revision,
        "service": "upf",
        "region": "eu-west",
        "resources": ["vm-0001", "vm-0002"],
        "contributors": [contributor()],
        "explanation": "vm-0001: system.cpu.utilization was 0.9, expected 0.4",
    }
    return Incident(**values | changes)


def contributor(**changes: Any) -> Contributor:
    values: dict[str, Any] = {
        "resource": "vm-0001",
        "metric": "system.cpu.utilization",
        "attributes": {"cpu": "0"},
        "unit": "1",
        "window_end_ms": START_MS + WINDOW_MS,
        "actual": 0.9,
        "expected": 0.4,
        "lower": 0.3,
        "upper": 0.5,
        "direction": "high",
        "score": 62.4,
    }
    return Contributor(**values | changes)


_INTEGERS = st.integers(min_value=-(2**63), max_value=2**63 - 1)
_FLOATS = st.floats(allow_nan=False, allow_infinity=False)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_PLAIN = {str: _TEXTS, int: _INTEGERS, float: _FLOATS, bool: st.booleans(), NoneType: st.none()}


def any_of(hint: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for any value of a record type or of the type of one of its fields."""
    arguments = get_args(hint)
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        return st.builds(hint, **{item.name: any_of(hints[item.name]) for item in fields(hint)})
    match get_origin(hint) or hint:
        case kind if kind in (Union, UnionType):
            return st.one_of([any_of(argument) for argument in arguments])
        case kind if kind is Literal:
            return st.sampled_from(arguments)
        case kind if kind is list:
            return st.lists(any_of(arguments[0]), max_size=3)
        case kind if kind is dict:
            return st.dictionaries(any_of(arguments[0]), any_of(arguments[1]), max_size=3)
        case kind:
            return _PLAIN[kind]
