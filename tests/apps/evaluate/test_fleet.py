"""Roll-up to resources over a fleet."""

from __future__ import annotations

import numpy as np
import pytest

from apps.evaluate.fleet import resource_surprise
from models.interface import Floats
from models.rollup import combine


def noise(seed: int, rows: int = 300, series: int = 20) -> Floats:
    return np.log10(np.random.default_rng(seed).random((rows, series)))


def test_a_fleet_is_judged_in_event_time() -> None:
    ends = [np.arange(300) * 5000, np.arange(300) * 5000 + 2500]
    together = resource_surprise(ends, [noise(1), noise(2)])
    swapped = resource_surprise(ends[::-1], [noise(2), noise(1)])
    np.testing.assert_array_equal(together[0], swapped[1])
    np.testing.assert_array_equal(together[1], swapped[0])


def test_the_future_changes_nothing() -> None:
    ends = [np.arange(300) * 5000]
    later = noise(1)
    later[200:] -= 5
    [plain], [disturbed] = resource_surprise(ends, [noise(1)]), resource_surprise(ends, [later])
    np.testing.assert_array_equal(plain[:200], disturbed[:200])
    assert disturbed[200] > plain[200]


def test_missing_values_are_no_members() -> None:
    first = noise(3, rows=1)
    first[0, 5:] = np.nan
    alone = first[:, :5]
    ends = [np.array([5000])]
    np.testing.assert_array_equal(resource_surprise(ends, [first])[0], resource_surprise(ends, [alone])[0])


def test_clean_resources_are_calibrated() -> None:
    ends = [np.arange(3000) * 5000] * 4
    found = np.concatenate([part[500:] for part in resource_surprise(ends, [noise(s, 3000) for s in range(4)])])
    assert (found >= 2).mean() == pytest.approx(0.01, abs=0.005)


def test_combination_is_the_job_s() -> None:
    ends = [np.array([5000])]
    [[found]] = resource_surprise(ends, [np.full((1, 1), -30.0)])
    assert found > 5
    assert combine(np.array([-30.0]), np.array([0]), np.array([1]))[0][0] == pytest.approx(-30.0)
