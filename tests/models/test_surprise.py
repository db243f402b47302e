"""Surprises equal SciPy's tails where SciPy has them, and stay finite and ordered beyond."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from models.surprise import MOST, of_beta_binomial, of_negative_binomial, of_normal, of_student


@pytest.mark.parametrize("z", [0.0, 0.5, 3.0, 8.0, 24.9, 25.1, 36.0])
def test_normal_equals_scipy(z: float) -> None:
    expected = -(stats.norm.logsf(z) + math.log(2)) / math.log(10)
    assert of_normal(z) == pytest.approx(expected, rel=2e-5, abs=1e-12)


@pytest.mark.parametrize("df", [3.0, 10.0, 30.0, 2_000.0])
@pytest.mark.parametrize("t", [0.5, 2.0, 4.0, 6.0])
def test_student_is_close_to_scipy(t: float, df: float) -> None:
    expected = -(stats.t.logsf(t, df) + math.log(2)) / math.log(10)
    assert of_student(t * t, df) == pytest.approx(expected, rel=0.03)


def _mid(law: stats.rv_discrete, y: float) -> float:
    lower, upper = law.cdf(y) - law.pmf(y) / 2, law.sf(y - 1) - law.pmf(y) / 2
    # Where SciPy's difference of two sums has lost its digits there is nothing to compare with.
    return float(-math.log10(min(2 * max(min(lower, upper), 1e-300), 1.0)))


@pytest.mark.parametrize("mean", [0.05, 4.0, 50.0])
@pytest.mark.parametrize("shape", [0.4, 10.0, 1e5])
@pytest.mark.parametrize("y", [0.0, 1.0, 5.0, 30.0, 120.0])
def test_negative_binomial_equals_scipy(y: float, shape: float, mean: float) -> None:
    expected = _mid(stats.nbinom(shape, shape / (shape + mean)), y)
    if expected < 12:
        assert of_negative_binomial(y, shape, mean) == pytest.approx(expected, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("trials", [10, 60, 700])
@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (3.0, 40.0), (200.0, 100.0)])
def test_beta_binomial_equals_scipy(trials: int, a: float, b: float) -> None:
    law = stats.betabinom(trials, a, b)
    for y in (0, 1, trials // 3, trials - 1, trials):
        expected = _mid(law, y)
        if expected < 12:
            assert of_beta_binomial(float(y), float(trials), a, b) == pytest.approx(expected, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("shape", [0.1, 50.0, 1e9])
def test_a_count_further_off_is_more_surprising(shape: float) -> None:
    found = [of_negative_binomial(y, shape, 20.0) for y in (30.0, 100.0, 1e3, 1e4, 1e6, 1e9, 1e14)]
    assert all(np.diff(found) >= 0)
    assert found[-1] <= MOST


amount = st.floats(1e-12, 1e14)


@given(y=st.floats(0, 1e14), shape=st.floats(1e-12, 1e15), mean=amount)
def test_no_count_breaks_it(y: float, shape: float, mean: float) -> None:
    assert 0 <= of_negative_binomial(y, shape, mean) <= MOST


@given(share=st.floats(0, 1), trials=st.floats(1e-12, 1e12), a=st.floats(1e-9, 1e12), b=st.floats(1e-9, 1e12))
def test_no_ratio_breaks_it(share: float, trials: float, a: float, b: float) -> None:
    assert 0 <= of_beta_binomial(share * trials, trials, a, b) <= MOST
