"""Levels spend the stated rate; group tests keep their level; the scope is the smallest place that explains."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from models.episodes import CONFIRMATION_WINDOWS
from models.fleet import (
    GROUP_SHARE,
    PAIR_SHARE,
    SINGLE_SHARE,
    Count,
    Group,
    GroupRates,
    GroupRule,
    Persistence,
    Place,
    affected_places,
    alarm_levels,
    candidate_places,
    count_tail,
    log10_of,
)

MINUTE_MS = 60_000


@given(st.floats(0.01, 100), st.integers(1, 100_000), st.integers(1, 1_000), st.sampled_from([10_000, 60_000, 900_000]))
def test_the_ways_to_open_together_spend_the_stated_rate(b: float, resources: int, groups: int, window_ms: int) -> None:
    levels = alarm_levels(b, resources, groups, window_ms, report_log10=0.0)
    windows = 86_400_000 / window_ms
    single = 10**levels.single * resources * windows
    pair = (CONFIRMATION_WINDOWS - 1) * 10 ** (2 * levels.pair) * resources * windows
    group = 10**levels.group * groups * windows
    if single < resources * windows:  # else every window opens, and no level spends as much
        assert single + pair + group == pytest.approx(b, rel=1e-6)
    assert pytest.approx(1.0) == SINGLE_SHARE + PAIR_SHARE + GROUP_SHARE
    assert levels.single <= levels.hold


@given(st.floats(0.0, 0.9), st.integers(1, 10_000))
def test_lasting_surprise_lowers_the_level_of_confirmation(persistence: float, resources: int) -> None:
    independent = alarm_levels(1.0, resources, 1, MINUTE_MS, -2.0)
    levels = alarm_levels(1.0, resources, 1, MINUTE_MS, -2.0, persistence)
    pair, per_window = 10**levels.pair, 10**levels.pair * (2 * 10**levels.pair + persistence)
    assert levels.pair <= independent.pair
    if pair < 0.01 * (1 - 1e-9):
        assert per_window * resources * 1440 == pytest.approx(PAIR_SHARE)


def test_persistence_is_what_exceeds_chance() -> None:
    persistence = Persistence(chance=0.02)
    assert persistence.excess == 0.0
    persistence.learn(100_000, 30_000)
    assert persistence.excess == pytest.approx(0.28, rel=0.01)
    persistence.decay(1e-9)
    assert persistence.excess == pytest.approx(0.0, abs=1e-3)


def test_no_level_is_above_what_is_reported() -> None:
    levels = alarm_levels(1e6, 10, 3, MINUTE_MS, report_log10=-2.0)
    assert max(levels.single, levels.pair, levels.hold) <= -2.0


def test_log10_of_an_underflow() -> None:
    assert log10_of(0.0) == -300.0
    assert log10_of(1.0) == 0.0


# ---- group rates -----------------------------------------------------------------------------------------------------


def test_the_tail_is_scipys() -> None:
    assert count_tail(8, 5, 0.03, 0.0) == pytest.approx(stats.binom.sf(4, 8, 0.03))
    assert count_tail(8, 5, 0.03, 0.1) == pytest.approx(stats.betabinom.sf(4, 8, 0.27, 8.73))
    assert count_tail(8, 0, 0.03, 0.1) == 1.0


def _learned(correlation: float, rate: float, seed: int) -> GroupRates:
    """Return rates learned from groups of 8 with this truth."""
    generator = np.random.default_rng(seed)
    rates = GroupRates(nominal=0.03)
    precision = (1 - correlation) / correlation
    for share in generator.beta(rate * precision, (1 - rate) * precision, size=20_000):
        rates.learn(8, int(generator.binomial(8, share)))
    return rates


@pytest.mark.parametrize("correlation", [0.01, 0.1, 0.3])
def test_rate_and_correlation_are_learned(correlation: float) -> None:
    rates = _learned(correlation, rate=0.06, seed=1)
    assert rates.rate == pytest.approx(0.06, rel=0.15)
    assert rates.correlation == pytest.approx(correlation, rel=0.3, abs=0.01)


def test_a_learned_tail_is_met_as_often_as_it_says() -> None:
    rates = _learned(0.1, rate=0.06, seed=2)
    generator = np.random.default_rng(3)
    draws = generator.binomial(8, generator.beta(0.06 * 9, 0.94 * 9, size=200_000))
    for count in (2, 3, 4):
        said = 10 ** rates.log10_tail(8, count)
        assert np.mean(draws >= count) == pytest.approx(said, rel=0.3)


def test_the_rate_is_never_below_the_nominal_one_and_fades_back_to_it() -> None:
    quiet = GroupRates(nominal=0.03)
    for _ in range(10_000):
        quiet.learn(8, 0)
    assert quiet.rate == 0.03
    noisy = _learned(0.1, rate=0.2, seed=4)
    noisy.decay(1e-6)
    assert noisy.rate == pytest.approx(0.03, abs=1e-3)


# ---- scopes ----------------------------------------------------------------------------------------------------------


def _rule(level: float = -5.0) -> GroupRule:
    return GroupRule(share=0.3, minimum=3, level=level, rates=GroupRates(nominal=0.03))


@pytest.mark.parametrize(
    ("count", "affected"),
    [
        (Count(8, 8, 8), True),
        (Count(8, 3, 3), True),
        (Count(8, 2, 2), False),  # fewer than the minimum
        (Count(20, 4, 4), False),  # less than the share
        (Count(8, 3, 0), False),  # three of eight weak ones may be chance
        (Count(8, 8, 0), True),  # eight of eight are not
        (Count(0, 0, 0), False),
    ],
)
def test_the_group_rule(count: Count, affected: bool) -> None:
    assert _rule()(count) is affected


def _counts(affected: Mapping[Group, int]) -> dict[Group, Count]:
    groups = [(service, region) for service in ("a", "b", "c") for region in ("n", "s")]
    return {group: Count(10, affected.get(group, 0), affected.get(group, 0)) for group in groups}


@pytest.mark.parametrize(
    ("affected", "places"),
    [
        ({}, []),
        ({("a", "n"): 10}, [Place("service", "a", "n")]),
        ({("a", "n"): 10, ("a", "s"): 10}, [Place("service", "a", None)]),
        ({("a", "n"): 8, ("b", "n"): 8, ("c", "n"): 8}, [Place("region", None, "n")]),
        ({("a", "n"): 10, ("b", "s"): 10}, [Place("service", "a", "n"), Place("service", "b", "s")]),
        ({(s, r): 6 for s in "abc" for r in "ns"}, [Place("cloud")]),
        ({("a", "n"): 1, ("b", "n"): 1, ("c", "n"): 1}, []),
    ],
)
def test_affected_places(affected: dict[Group, int], places: list[Place]) -> None:
    assert affected_places(_counts(affected), _rule()) == places


def test_places_without_names_belong_to_the_cloud_only() -> None:
    assert candidate_places([(None, None)]) == [Place("cloud")]
    assert affected_places({(None, None): Count(11, 6, 6)}, _rule()) == [Place("cloud")]


def test_a_service_without_a_region() -> None:
    counts: dict[Group, Count] = {("a", None): Count(8, 8, 8), ("b", None): Count(40)}
    assert affected_places(counts, _rule()) == [Place("service", "a", None)]


def test_a_wider_place_covers_a_narrower_one() -> None:
    assert Place("cloud").covers(Place("resource", None, None))
    assert Place("region", None, "n").covers(Place("service", "a", "n"))
    assert not Place("region", None, "n").covers(Place("service", "a", None))
    assert not Place("service", "a", "n").covers(Place("cloud"))
