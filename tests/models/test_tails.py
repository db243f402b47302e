"""The tail equals SciPy's where SciPy has it, and goes on where it underflows."""

from __future__ import annotations

import numpy as np
from scipy import stats

from models.tails import negative_binomial_log_pmf, negative_binomial_upper


def test_negative_binomial_equals_scipy() -> None:
    y, mean, shape = (a.ravel() for a in np.meshgrid([0, 1, 5, 30, 200], [0.3, 4.0, 50.0], [0.4, 10.0, 1e5]))
    law = stats.nbinom(shape, shape / (shape + mean))
    np.testing.assert_allclose(negative_binomial_log_pmf(y, shape, mean), law.logpmf(y), rtol=1e-7, atol=1e-9)
    upper = law.sf(y - 1) - law.pmf(y) / 2
    exact = upper > 1e-250
    np.testing.assert_allclose(10 ** negative_binomial_upper(y, shape, mean)[exact], upper[exact], rtol=1e-6)


def test_negative_binomial_goes_on_beyond_underflow() -> None:
    y = np.array([1500.0, 1600.0, 2000.0])
    deep = negative_binomial_upper(y, np.full(3, 50.0), np.full(3, 20.0))
    assert np.isfinite(deep).all()
    assert (np.diff(deep) <= 0).all()
