"""DecayLORD: the share of false discoveries on simulated p, no loss of power with time, exact bookkeeping."""

from __future__ import annotations

import itertools
from dataclasses import asdict

import numpy as np
import pytest
from scipy import stats

from models.precision import KEPT_DISCOVERIES, MEMORY_WINDOWS, Discoveries, spending, spent

PRECISION = 0.9
HOSTS, WINDOWS, BURST = 1000, 1000, 5


def simulated(
    rate: float, seed: int, windows: int = WINDOWS, hosts: int = HOSTS
) -> tuple[list[int], list[int], list[int]]:
    """Return true and false discoveries and anomalous tests per window: bursts of five windows, five deviations up."""
    draw = np.random.default_rng(seed)
    state, left = Discoveries(), np.zeros(hosts, dtype=np.int64)
    true, false, there = [], [], []
    for _ in range(windows):
        left[draw.random(hosts) < rate / BURST] = BURST
        anomalous = left > 0
        found = stats.norm.sf(draw.standard_normal(hosts) + 5.0 * anomalous) <= state.level(hosts, PRECISION)
        state.learn(hosts, int(found.sum()))
        left[anomalous] -= 1
        true.append(int((found & anomalous).sum()))
        false.append(int((found & ~anomalous).sum()))
        there.append(int(anomalous.sum()))
    return true, false, there


@pytest.mark.parametrize(("rate", "seed"), [(1e-3, 1), (1e-3, 2), (1e-2, 3)])
def test_false_discoveries_stay_below_their_share_and_power_does_not_fade(rate: float, seed: int) -> None:
    true, false, there = simulated(rate, seed)
    assert sum(false) / (sum(false) + sum(true)) <= 0.15
    for part in (slice(0, 300), slice(700, 1000)):
        assert sum(true[part]) / sum(there[part]) >= 0.8


def test_a_long_quiet_time_leaves_a_level_to_live_on() -> None:
    state = Discoveries()
    for _ in range(10_000):
        state.learn(HOSTS, 0)
    assert state.level(HOSTS, PRECISION) == pytest.approx(0.1 / (MEMORY_WINDOWS * HOSTS))
    quiet = state.level(HOSTS, PRECISION)
    state.learn(HOSTS, 1)
    assert state.level(HOSTS, PRECISION) > 10 * quiet


def test_without_anomalies_there_are_few_false_discoveries() -> None:
    _, false, _ = simulated(0.0, 4)
    assert sum(false) <= 4  # 0.1 per memory of 100 windows, and the beginning


def test_the_level_of_a_window_is_the_mean_of_its_tests_levels() -> None:
    state = Discoveries(tests=5000, found=[3000, 4800, 4800])
    size, d = 40, 1 - 1 / (MEMORY_WINDOWS * 40)
    levels = [
        0.1 * (max(spending(test), 1 - d) + sum(d ** (test - tau) * spending(test - tau) for tau in state.found))
        for test in range(5001, 5041)
    ]
    assert state.level(size, PRECISION) == pytest.approx(np.mean(levels), rel=2e-3)


def test_g_is_summed_exactly_also_beyond_the_table() -> None:
    exact = list(itertools.accumulate(spending(test) for test in range(1, 20_001)))
    for tests in (1, 2, 4096, 4097, 5000, 20_000):
        assert spent(tests) == pytest.approx(exact[tests - 1], rel=1e-9)
    assert spent(0) == 0.0
    assert spent(10**15) < 1.0


def test_the_level_never_passes_the_wanted_share_and_the_state_is_bounded() -> None:
    state = Discoveries()
    for _ in range(50):
        state.learn(3, 300)
        assert 0 < state.level(3, PRECISION) <= 0.1
    assert len(state.found) == KEPT_DISCOVERIES
    assert Discoveries(**asdict(state)) == state
