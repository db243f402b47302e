from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from apps.simulator.randomness import binomial, key_of, normal, poisson, smooth, two_uniforms, uniform

COUNTERS = np.arange(200_000)


def test_values_depend_on_key_and_counter_only() -> None:
    key = key_of(1, "vm", "cpu")
    whole = uniform(key, COUNTERS)

    assert (uniform(key, COUNTERS[500:700]) == whole[500:700]).all()
    assert not (uniform(key + 1, COUNTERS) == whole).any()


def test_uniforms_and_normals_have_their_distributions() -> None:
    assert stats.kstest(uniform(7, COUNTERS), "uniform").pvalue > 1e-3
    assert stats.kstest(normal(8, COUNTERS), "norm").pvalue > 1e-3


def test_neighbouring_keys_and_counters_are_uncorrelated() -> None:
    first, second = two_uniforms(9, COUNTERS)
    following = uniform(10, COUNTERS)
    base = uniform(9, COUNTERS)

    for one, other in ((first, second), (base, following), (base[1:], base[:-1])):
        assert abs(np.corrcoef(one, other)[0, 1]) < 5 / np.sqrt(COUNTERS.size)


def test_smooth_wanders_slowly_and_has_unit_variance() -> None:
    hour_ms = 3_600_000
    values = smooth(3, np.arange(0, 4000 * hour_ms, hour_ms // 4), hour_ms)

    assert abs(values.std() - 1.0) < 0.05
    assert np.corrcoef(values[1:], values[:-1])[0, 1] > 0.7
    assert abs(np.corrcoef(values[12:], values[:-12])[0, 1]) < 0.05


@given(rate=st.floats(0.0, 200.0))
def test_poisson_has_mean_and_variance_of_its_rate(rate: float) -> None:
    counts = poisson(uniform(11, COUNTERS[:20_000]), np.full(20_000, rate))

    assert (counts >= 0).all()
    assert (counts == np.rint(counts)).all()
    assert abs(counts.mean() - rate) <= 6 * np.sqrt(rate / 20_000) + 0.02
    assert abs(counts.var() - rate) <= 0.08 * rate + 0.02


@given(trials=st.integers(0, 2_000), share=st.floats(0.0, 1.0))
def test_binomial_stays_within_its_trials(trials: int, share: float) -> None:
    successes = binomial(uniform(12, COUNTERS[:5_000]), np.full(5_000, float(trials)), np.full(5_000, share))

    assert ((successes >= 0) & (successes <= trials)).all()
    assert (successes == np.rint(successes)).all()
    # Few failures are drawn as Poisson counts and cut off at the trials, which moves the mean a little.
    assert abs(successes.mean() - trials * share) <= 0.5 + 0.12 * np.sqrt(trials) + 0.1 * min(trials, 20)
