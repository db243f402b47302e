"""What every detector must keep: score before learn, nothing from the future, recordings apart; and that it detects."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from apps.evaluate.baselines import filtered
from apps.evaluate.detectors import DETECTORS
from apps.evaluate.interface import Scores
from apps.evaluate.recordings import Recording
from models.interface import Floats

ROWS = 400


def noise(name: str = "r", seed: int = 1) -> Recording:
    values = np.random.default_rng(seed).normal(50, 2, (ROWS, 3))
    values[::7, 1] = np.nan  # not in row 355
    return Recording(name, 60_000 * np.arange(1, ROWS + 1), values, ("a", "b", "c"))


def with_spike(row: int, height: float) -> Recording:
    plain = noise()
    values = plain.values.copy()
    values[row, :] += height
    return replace(plain, values=values)


def until(scores: Scores, row: int) -> list[Floats]:
    return [scores.surprise[:row], scores.alarm[:row], scores.resource[:row]]


@pytest.fixture(params=sorted(DETECTORS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_shapes_and_missing_values(name: str) -> None:
    [scores] = DETECTORS[name]().detect([noise()])
    assert scores.surprise.shape == scores.alarm.shape == (ROWS, 3)
    assert scores.resource.shape == (ROWS,)
    present = np.isfinite(noise().values)
    assert np.isfinite(scores.surprise[present]).all()
    assert np.isnan(scores.surprise[~present]).all()
    assert np.isfinite(scores.resource).all()


def test_a_spike_is_scored_before_it_is_learned(name: str) -> None:
    [scores] = DETECTORS[name]().detect([with_spike(355, 40.0)])
    assert (scores.resource[300:355] > scores.resource[355]).mean() < 0.05
    if name != "half-space-trees":  # which scores what lies at the edge of the noise nearly as high
        assert (scores.alarm[355] >= DETECTORS[name]().level).all()


def test_the_future_changes_nothing(name: str) -> None:
    [scores] = DETECTORS[name]().detect([noise()])
    [other] = DETECTORS[name]().detect([with_spike(355, 40.0)])
    for before, after in zip(until(scores, 355), until(other, 355), strict=True):
        np.testing.assert_array_equal(before, after)


def test_other_recordings_change_nothing(name: str) -> None:
    shifted = replace(noise("s", 2), end_ms=noise().end_ms + 30_000)
    same_times = noise("t", 3)
    together = DETECTORS[name]().detect([noise(), shifted, same_times])
    for recording, found in zip((noise(), shifted, same_times), together, strict=True):
        [alone] = DETECTORS[name]().detect([recording])
        for expected, actual in zip(until(alone, ROWS), until(found, ROWS), strict=True):
            np.testing.assert_array_equal(actual, expected)


def test_twice_the_same(name: str) -> None:
    [first], [second] = (DETECTORS[name]().detect([noise()]) for _ in range(2))
    for one, other in zip(until(first, ROWS), until(second, ROWS), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_constant_says_nothing(name: str) -> None:
    constant = replace(noise(), values=np.full((ROWS, 3), 7.0))
    [scores] = DETECTORS[name]().detect([constant])
    if name != "half-space-trees":  # whose score of a point in full cells is not 0
        assert scores.surprise[60:].max() < 0.5
    assert not (scores.alarm[60:] >= DETECTORS[name]().level).any()


def test_filter_keeps_what_exceeds_the_last_eighty() -> None:
    surprise = np.random.default_rng(0).normal(size=(300, 2))
    expected = [
        [value if value > max(surprise[max(0, row - 80) : row, column], default=-np.inf) else 0.0]
        for column in range(2)
        for row, value in enumerate(surprise[:, column].tolist())
    ]
    np.testing.assert_array_equal(filtered(surprise).T.ravel(), np.array(expected).ravel())
