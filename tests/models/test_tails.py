"""Tails equal SciPy's where SciPy has them, and go on where it underflows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from models.tails import (
    beta_binomial_log_pmf,
    beta_binomial_two_sided,
    negative_binomial_log_pmf,
    negative_binomial_two_sided,
    negative_binomial_upper,
    student_tail,
)


def test_student_tail_equals_scipy() -> None:
    t, df = np.meshgrid(np.linspace(-20, 20, 41), [0.5, 1.0, 3.3, 30.0, 1000.0])
    expected = stats.t.logsf(np.abs(t), df) / np.log(10)
    np.testing.assert_allclose(student_tail(t, df), expected, rtol=1e-9)


def test_student_tail_goes_on_beyond_underflow() -> None:
    t = np.array([36.0, 36.5, 37.0])
    deep = student_tail(t, np.full(3, 1e5))
    assert (np.diff(deep) < 0).all()
    np.testing.assert_allclose(deep[0], stats.t.logsf(36.0, 1e5) / np.log(10), rtol=1e-3)


def test_negative_binomial_equals_scipy() -> None:
    y, mean, shape = (a.ravel() for a in np.meshgrid([0, 1, 5, 30, 200], [0.3, 4.0, 50.0], [0.4, 10.0, 1e5]))
    law = stats.nbinom(shape, shape / (shape + mean))
    np.testing.assert_allclose(negative_binomial_log_pmf(y, shape, mean), law.logpmf(y), rtol=1e-7, atol=1e-9)
    lower, upper = law.cdf(y) - law.pmf(y) / 2, law.sf(y - 1) - law.pmf(y) / 2
    expected = 2 * np.minimum(lower, upper)
    exact = expected > 1e-250
    actual = negative_binomial_two_sided(y.astype(float), shape, mean)
    np.testing.assert_allclose(10 ** actual[exact], np.minimum(expected, 1)[exact], rtol=1e-7)
    np.testing.assert_allclose(10 ** negative_binomial_upper(y, shape, mean)[exact], upper[exact], rtol=1e-6)


def test_negative_binomial_goes_on_beyond_underflow() -> None:
    y = np.array([1500.0, 1600.0, 2000.0])
    deep = negative_binomial_two_sided(y, np.full(3, 50.0), np.full(3, 20.0))
    assert np.isfinite(deep).all()
    assert (np.diff(deep) <= 0).all()


@pytest.mark.parametrize("trials", [10, 60, 700])
@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (3.0, 40.0), (200.0, 100.0)])
def test_beta_binomial_equals_scipy_where_it_matters(trials: int, a: float, b: float) -> None:
    y = np.arange(trials + 1.0)
    law = stats.betabinom(trials, a, b)
    full = np.full(len(y), 1.0)
    np.testing.assert_allclose(beta_binomial_log_pmf(y, full * trials, full * a, full * b), law.logpmf(y), rtol=1e-7)
    pmf = law.pmf(y)
    below, above = np.cumsum(pmf) - pmf / 2, np.cumsum(pmf[::-1])[::-1] - pmf / 2
    expected = np.minimum(2 * np.minimum(below, above), 1)
    far = np.abs(y - law.mean()) > 2 * law.std()
    actual = 10 ** beta_binomial_two_sided(y, full * trials, full * a, full * b)
    np.testing.assert_allclose(actual[far], expected[far], rtol=1e-7)


@pytest.mark.parametrize("trials", [1.0, 1e3, 1e12])
def test_beta_binomial_is_finite_at_the_borders(trials: float) -> None:
    y = np.array([0.0, trials])
    a, b = np.array([1e-9, 1e9]), np.array([1e9, 1e-9])
    for first, second in ((a, b), (b, a)):
        assert np.isfinite(beta_binomial_two_sided(y, np.full(2, trials), first, second)).all()
