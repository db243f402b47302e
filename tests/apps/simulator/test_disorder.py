from __future__ import annotations

import json

import numpy as np
import pytest

from apps.simulator.disorder import FATES, DisorderRates, broken, from_the_future, journeys
from pipelines.parameters import TimeRules

COUNTERS = np.arange(200_000)
RULES = TimeRules(lateness_s=30, future_s=10)
VALUE = b'{"resource":"vm-1","metric":"cpu","time_ns":1763690400123000000,"value":0.4}'


def test_fates_come_at_their_rates() -> None:
    rates = DisorderRates(0.1, 0.02, 0.01, 0.005, 0.005)
    fate = journeys(1, COUNTERS, rates, RULES).fate
    share = {name: float((fate == number).mean()) for number, name in enumerate(FATES)}

    wanted = {"out_of_order": 0.1, "duplicate": 0.02, "late": 0.01, "future": 0.005, "malformed": 0.005}
    assert all(share[name] == pytest.approx(rate, rel=0.1) for name, rate in wanted.items())


@pytest.mark.parametrize("lateness_s", [0, 2, 30, 600])
def test_only_what_is_meant_to_be_late_is_late(lateness_s: int) -> None:
    journey = journeys(1, COUNTERS, DisorderRates(late=0.01, duplicate=0.05), TimeRules(lateness_s=lateness_s))
    late = journey.fate == FATES.index("late")

    assert (journey.delay_ms[late] > lateness_s * 1000).all()
    assert (journey.delay_ms[~late] <= 0.7 * lateness_s * 1000).all()
    assert (journey.delay_ms >= 0).all()
    assert (journey.second_ms[~late] <= 0.7 * lateness_s * 1000).all()
    assert (journey.second_ms >= journey.delay_ms)[~late].all()


def test_the_future_is_farther_than_what_is_tolerated() -> None:
    journey = journeys(1, COUNTERS, DisorderRates(), RULES)

    assert (journey.shift_ns // 1_000_000 - journey.second_ms > RULES.future_s * 1000).all()
    moved = json.loads(from_the_future(VALUE, 1763690400123000000, 60_000_000_000))
    assert moved == json.loads(VALUE) | {"time_ns": 1763690460123000000}


def test_broken_records_cannot_be_read_as_points() -> None:
    for way in range(8):
        assert not _is_point(broken(VALUE, (way + 0.5) / 8))


def test_every_way_of_breaking_differs() -> None:
    assert len({broken(VALUE, (way + 0.5) / 8) for way in range(8)}) == 8


def _is_point(value: bytes) -> bool:
    try:
        record = json.loads(value.decode(), parse_constant=lambda _: None)
    except (UnicodeDecodeError, json.JSONDecodeError):
        return False
    return isinstance(record, dict) and "resource" in record and isinstance(record["time_ns"], int)


def test_rates_that_are_no_shares_are_refused() -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        DisorderRates(late=-0.1)
    with pytest.raises(ValueError, match="must not be negative and not exceed 1"):
        DisorderRates(duplicate=0.6, out_of_order=0.6)
