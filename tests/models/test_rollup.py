"""From series to resources: combined p valid under dependence, deep tails kept, calibration not poisoned."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from models.interface import Floats
from models.rollup import TailState, broaden, calibrate, combine, score_0_100, surprising

LN10 = np.log(10)


def _groups(count: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    first = np.arange(count) * size
    return first, first + size


def _two_sided(z: Floats) -> Floats:
    return np.asarray((np.log(2) + stats.norm.logsf(np.abs(z))) / LN10)


def test_score_is_linear_between_the_bands() -> None:
    scores = score_0_100(np.array([0.0, -2.0, -3.0, -4.0, -6.0, -8.0, -12.0, -300.0]))
    assert scores.tolist() == [0, 0, 12.5, 25, 50, 75, 100, 100]


def test_combination_equals_the_formula() -> None:
    p = np.random.default_rng(1).uniform(1e-6, 0.98, (50, 5))
    combined, share = combine(np.log10(p).ravel(), *_groups(50, 5))
    expected = 0.5 - np.arctan(np.tan((0.5 - p) * np.pi).mean(axis=1)) / np.pi
    np.testing.assert_allclose(10**combined, expected, rtol=1e-9)
    np.testing.assert_allclose(share.reshape(50, 5).sum(axis=1), 1.0)


def test_combination_of_deep_tails_is_their_bonferroni() -> None:
    combined, share = combine(np.array([-299.0, -1.0, -200.0, -0.1]), np.array([0, 2]), np.array([2, 4]))
    np.testing.assert_allclose(combined, [-299 + np.log10(2), -200 + np.log10(2)], rtol=1e-9)
    np.testing.assert_allclose(share, [1, 0, 1, 0], atol=1e-12)


def test_groups_without_members_and_certain_members() -> None:
    combined, share = combine(np.zeros(3), np.array([0, 0]), np.array([0, 3]))
    assert combined[0] == 0
    assert -0.01 < combined[1] <= 0
    np.testing.assert_allclose(share, 1 / 3)


@pytest.mark.parametrize("rho", [0.0, 0.7])
def test_combination_keeps_its_level_under_dependence(rho: float) -> None:
    rng = np.random.default_rng(11)
    z = np.sqrt(rho) * rng.standard_normal((200_000, 1)) + np.sqrt(1 - rho) * rng.standard_normal((200_000, 6))
    combined, _ = combine(_two_sided(z).ravel(), *_groups(200_000, 6))
    assert np.mean(combined <= -3) / 1e-3 <= 1.5


def _calibrated(draws: Floats) -> tuple[Floats, TailState]:
    state = TailState()
    return np.array([calibrate(state, window) for window in draws]), state


def test_calibration_leaves_honest_p_alone() -> None:
    rng = np.random.default_rng(2)
    result, _ = _calibrated(np.log10(rng.uniform(size=(4_000, 60))))
    assert 0.7 <= np.mean(result[1_000:] <= -3) / 1e-3 <= 1.3


def test_calibration_corrects_heavy_tails() -> None:
    rng = np.random.default_rng(2)
    raw = _two_sided(rng.standard_t(4, (4_000, 60)) / np.sqrt(2))
    result, _ = _calibrated(raw)
    before, after = (np.mean(log10_p[1_000:] <= -3) / 1e-3 for log10_p in (raw, result))
    assert before > 8
    assert after < before / 2.5


def test_anomalies_do_not_poison_the_calibration() -> None:
    draws = np.log10(np.random.default_rng(3).uniform(size=(3_000, 20)))
    draws[1_000:2_000, :3] = -40.0
    _, state = _calibrated(draws)
    assert calibrate(state, np.array([-40.0]))[0] < -12
    assert calibrate(state, np.array([-6.0]))[0] < -4


def _broad(hits: np.ndarray, size: int) -> Floats:
    state = TailState()
    nothing = np.zeros(hits.shape[1])
    return np.array([broaden(state, nothing, window, np.full(len(window), size)) for window in hits])


def test_breadth_keeps_its_level_and_sees_many_mild_surprises() -> None:
    rng = np.random.default_rng(4)
    rates = rng.beta(0.01 * 60, 0.99 * 60, (2_000, 20))
    hits = rng.binomial(200, rates)
    log10_p = _broad(hits, 200)[200:]
    assert np.mean(log10_p <= -3) / 1e-3 <= 1.5
    hits[-1, 0] = 60
    assert _broad(hits, 200)[-1, 0] < -5


def test_surprising_members_are_counted_per_group() -> None:
    assert surprising(np.array([-2.0, -1.9, -50.0]), np.array([0, 1, 3]), np.array([1, 3, 3])).tolist() == [1, 1, 0]


def test_state_survives_as_bytes() -> None:
    rng = np.random.default_rng(5)
    _, state = _calibrated(np.log10(rng.uniform(size=(300, 10))))
    copy = TailState.from_bytes(state.to_bytes())
    assert copy.to_bytes() == state.to_bytes()
    window = np.log10(rng.uniform(size=10))
    assert calibrate(copy, window).tobytes() == calibrate(state, window).tobytes()
    blob = bytearray(state.to_bytes())
    blob[0] += 1
    with pytest.raises(ValueError, match="layout"):
        TailState.from_bytes(blob)
