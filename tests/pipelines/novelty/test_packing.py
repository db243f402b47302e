"""Parcels and sections survive the way through bytes."""

from __future__ import annotations

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.novelty.packing import Column, Place, RecordColumn, join_sections, split_sections
from pipelines.novelty.state import LAYOUT, BucketState, StateLayoutError
from tests.pipelines.novelty.log import control, counter, end_of, fold, marker, parcel, ratio, record, rule, series
from topics.controls import Rule, Weekly, control_of
from topics.records import Inventory


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_sections_come_back_as_they_were(sections: list[bytes]) -> None:
    assert [bytes(section) for section in split_sections(join_sections(sections))] == sections


def test_a_parcel_holds_records_controls_and_markers() -> None:
    found = [series(0, "cpu", 0.5, attributes={"b": "2", "a": "1"}), ratio(0, "drops", 1, 10)]
    packed = parcel([
        (7, record("vm-1", 0, found, service="upf")), (8, record("vm-2", 0, found)), (9, control(0, "vm-2", "smf")),
        (10, marker(0)),
    ])  # fmt: skip
    assert packed.resources == ["vm-1", "vm-2"]
    assert packed.places == [Place("upf"), Place()]
    assert len(packed.shapes) == 1
    assert packed.shapes[0].split(b"\n")[0] == b'["cpu",{"a":"1","b":"2"},"gauge","1"]'
    assert packed.records[:, RecordColumn.SERIES].tolist() == [2, 2]
    assert packed.values[:, Column.MEAN].tolist() == [0.5, 0.1, 0.5, 0.1]
    assert np.isnan(packed.values[0, Column.TOTAL])
    assert [(each.end_ms, each.offset) for each in packed.controls] == [(end_of(0), 9)]
    assert control_of(orjson.loads(packed.controls[0].content)) == Inventory("vm-2", "smf")
    assert [each.end_ms for each in packed.markers] == [end_of(0)]
    assert packed.last_end_ms == end_of(0)


def test_the_state_comes_back_as_it_was() -> None:
    log = [record("vm-1", 0, [series(0, "cpu", 0.5), counter(0, "packets", 1, 2)], region="north"), marker(0)]
    nights = Rule("nights", resource="db-*", weekly=[Weekly(["sat"], 60, 90)], note="backup")
    stored = fold([control(0, "vm-9", "smf"), rule(0, nights), rule(0, Rule("all")), *log]).stored
    assert stored is not None
    state = BucketState.from_bytes(stored)
    assert state.to_bytes() == stored
    assert state.inventory == {"vm-9": Place("smf")}
    assert state.rules_by_id() == (Rule("all"), nights)
    assert state.place(0) == Place(None, "north")


def test_a_state_in_another_layout_is_refused() -> None:
    stored = BucketState().to_bytes()
    changed = stored.replace(b"[%d," % LAYOUT, b"[%d," % (LAYOUT + 1), 1)
    with pytest.raises(StateLayoutError, match="new generation"):
        BucketState.from_bytes(changed)
