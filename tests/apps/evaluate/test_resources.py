"""The evidence of a resource, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from apps.evaluate.resources import evidence, smoothed


def test_mean_over_the_metrics_that_have_changed() -> None:
    # The first changes in the second window, the second in the third, the third never.
    values = np.array([[1.0, 5.0, 7.0], [2.0, 5.0, 7.0], [2.0, 6.0, 7.0], [2.0, 6.0, 7.0]])
    surprise = np.array([[9.0, 9.0, 9.0], [3.0, 9.0, 9.0], [1.0, 6.0, 9.0], [4.0, np.nan, 9.0]])
    assert evidence(surprise, values).tolist() == [0.0, 1.0, 2.0, 1.0]


def test_the_first_value_is_the_first_one_present() -> None:
    values = np.array([[np.nan], [3.0], [np.nan], [3.0], [4.0]])
    assert evidence(np.full((5, 1), 5.0), values).tolist() == [0.0, 0.0, 0.0, 0.0, 3.0]


def test_what_comes_later_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    surprise, values = rng.exponential(2.0, (50, 4)), rng.integers(0, 2, (50, 4)).astype(float)
    np.testing.assert_array_equal(evidence(surprise, values)[:20], evidence(surprise[:20], values[:20]))


def test_smoothing_is_an_exponential_mean_from_zero() -> None:
    assert smoothed(np.array([8.0, 0.0, 8.0]), 4).tolist() == pytest.approx([2.0, 1.5, 3.125])
