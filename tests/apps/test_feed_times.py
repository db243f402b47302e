from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.feed.times import TimeUnit, detect_unit, parse_time_ns, to_ns

NS_PER: dict[TimeUnit, int] = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
#: 1973 (where a count of milliseconds is too large for seconds) to 2200.
SECONDS = st.integers(min_value=100_000_000, max_value=7_258_118_400)
UNITS = st.sampled_from(sorted(NS_PER))


@given(moments=st.lists(SECONDS, min_size=1), unit=UNITS, as_text=st.booleans(), data=st.data())
def test_whole_numbers_are_exact_in_every_unit_and_the_unit_is_found(
    moments: list[int], unit: TimeUnit, as_text: bool, data: st.DataObject
) -> None:
    finer = 10**9 // NS_PER[unit]
    counts = [moment * finer + data.draw(st.integers(0, finer - 1)) for moment in moments]
    column = pa.array([str(count) for count in counts]) if as_text else pa.array(counts, pa.int64())
    times, valid = to_ns(column, unit)
    assert detect_unit(column) == unit
    assert times.tolist() == [count * NS_PER[unit] for count in counts]
    assert valid.all()


@given(st.lists(st.integers(min_value=10**17, max_value=7 * 10**18), min_size=1), st.sampled_from(["T", " "]))
def test_iso_times_are_exact_to_the_nanosecond(moments: list[int], between: str) -> None:
    texts = [str(np.datetime64(moment, "ns")).replace("T", between) + "Z" for moment in moments]
    column = pa.array(texts)
    times, valid = to_ns(column, "iso")
    assert detect_unit(column) == "iso"
    assert times.tolist() == moments
    assert valid.all()


@given(st.integers(min_value=10**15, max_value=4 * 10**15), UNITS.filter(lambda unit: unit in ("s", "ms")))
def test_fractions_are_kept_to_the_microsecond(microseconds: int, unit: TimeUnit) -> None:
    per_us = NS_PER[unit] // 1000
    text = f"{microseconds // per_us}.{microseconds % per_us:0{len(str(per_us)) - 1}d}"
    for column in (pa.array([text]), pa.array([float(text)])):
        times, valid = to_ns(column, unit)
        assert (times[0], valid[0]) == (microseconds * 1000, True)


def test_what_is_no_time_is_invalid_and_does_not_disturb_its_neighbours() -> None:
    texts = ["1498754078", "", "yesterday", None, "nan", "-5", "1e400", "99999999999999999999", "1498754079.5"]
    times, valid = to_ns(pa.array(texts), "s")
    assert valid.tolist() == [True, False, False, False, False, False, False, False, True]
    assert times[[0, -1]].tolist() == [1498754078 * 10**9, 14987540795 * 10**8]


def test_zones_are_respected_and_a_time_without_zone_is_utc() -> None:
    texts = ["2017-06-29T18:34:38+02:00", "2017-06-29 16:34:38", "2017-06-29T16:34:38Z", "2017-13-45", "2017-06-29"]
    times, valid = to_ns(pa.array(texts), "iso")
    assert times[:3].tolist() == [1498754078 * 10**9] * 3
    assert valid.tolist() == [True, True, True, False, True]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_arrow_timestamps_need_no_guess(unit: str) -> None:
    moment = datetime(2017, 6, 29, 16, 34, 38, tzinfo=UTC)
    column = pa.array([moment, None], pa.timestamp(unit, "UTC"))  # type: ignore[arg-type,unused-ignore]
    times, valid = to_ns(column, "iso")
    assert detect_unit(column) == "iso"
    assert times.tolist() == [1498754078 * 10**9, 0]
    assert valid.tolist() == [True, False]


def test_a_column_without_times_has_no_unit() -> None:
    assert detect_unit(pa.array(["leaf1", None, ""])) is None


def test_a_single_time_is_parsed_or_refused_with_an_example() -> None:
    assert parse_time_ns("2017-06-29T16:34:38Z") == 1498754078 * 10**9
    with pytest.raises(ValueError, match="write it like"):
        parse_time_ns("noon")
