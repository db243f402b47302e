"""Control records come back from their JSON as they were."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings

from tests.topics.examples import any_of
from topics.controls import CONTROL_TYPES, Control, Interval, Rule, Weekly, control_of
from topics.records import Inventory, OperatorVerdict, Subject


@settings(max_examples=200, deadline=None)
@given(any_of(Control))
def test_a_control_record_comes_back_as_it_was(control: Any) -> None:
    assert control_of(orjson.loads(orjson.dumps(control))) == control


def test_every_type_has_a_name_of_its_own() -> None:
    assert sorted(CONTROL_TYPES) == ["inventory", "rule", "rule_removal", "verdict"]


def test_unknown_fields_are_left_out_and_null_is_the_default() -> None:
    found = control_of(
        {
            "type": "rule",
            "id": "r1",
            "colour": "red",
            "skip_learning": None,
            "intervals": None,
            "weekly": [{"days": ["sun"], "start_minute": 60, "duration_minutes": 90, "zone": "UTC"}],
        }
    )
    assert found == Rule("r1", weekly=[Weekly(["sun"], 60, 90)])
    assert control_of({"type": "rule", "id": "r1", "intervals": [{"start_ms": 1, "end_ms": 2}]}) == Rule(
        "r1", intervals=[Interval(1, 2)]
    )


def test_what_is_no_text_is_read_as_text_as_in_the_parser() -> None:
    assert control_of({"type": "inventory", "resource": 7}) == Inventory("7")
    assert control_of({"type": "verdict", "verdict": "wrong", "subjects": [{"resource": 7}]}) == OperatorVerdict(
        "wrong", subjects=[Subject("7")]
    )


@pytest.mark.parametrize("content", [{"type": "party"}, {"type": "rule"}, {}])
def test_what_is_no_control_record_is_refused(content: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError)):
        control_of(content)
