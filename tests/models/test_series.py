"""The models of single series: honest p, the same bytes for any cut, unbroken by bad values, not blinded by spikes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.interface import LOG10_P_FLOOR, Block, Floats, Likelihood
from models.series import LayoutError, SeriesState, score_then_learn

MINUTE_MS = 60_000
Generator = Callable[[np.random.Generator, int], Floats]


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(over="raise", invalid="raise", divide="raise"):
        warnings.simplefilter("error")
        yield


def judge(kind: Likelihood, values: Floats, weight: float = 1.0, classes: Floats | None = None) -> Floats:
    """Run values of shape (windows, series) through the model; log10 p, same shape."""
    state = SeriesState()
    size = values.shape[1]
    state.grow(np.full(size, kind), np.arange(size) if classes is None else classes)
    return np.array([verdict.log10_p for verdict in score_then_learn(state, blocks_of(values, weight))])


def blocks_of(values: Floats, weight: float = 1.0) -> list[Block]:
    rows = np.arange(values.shape[1])
    return [Block((i + 1) * MINUTE_MS, rows, row, np.full(len(row), weight)) for i, row in enumerate(values)]


def _beta_binomial(rng: np.random.Generator, size: int) -> Floats:
    return rng.binomial(200, rng.beta(0.1 * 49, 0.9 * 49, size)).astype(float)


@pytest.mark.parametrize(
    ("kind", "weight", "draw"),
    [
        (Likelihood.GAUGE, 1.0, lambda rng, n: rng.normal(100.0, 5.0, n)),
        (Likelihood.COUNT, 60.0, lambda rng, n: rng.poisson(10.0, n).astype(float)),
        (Likelihood.COUNT, 60.0, lambda rng, n: rng.negative_binomial(10, 0.5, n).astype(float)),
        (Likelihood.RATIO, 200.0, _beta_binomial),
    ],
    ids=["normal", "poisson", "negative-binomial", "beta-binomial"],
)
def test_false_alarms_come_at_the_stated_rate(kind: Likelihood, weight: float, draw: Generator) -> None:
    rng = np.random.default_rng(7)
    values = np.array([draw(rng, 200) for _ in range(1_500)])
    log10_p = judge(kind, values, weight)[100:]
    assert 0.5 <= np.mean(log10_p <= -3) / 1e-3 <= 2.0


@pytest.mark.parametrize("draw", ["t", "lognormal"])
def test_heavy_tails_are_learned(draw: str) -> None:
    rng = np.random.default_rng(5)
    values = rng.standard_t(4, (3_000, 100)) if draw == "t" else rng.lognormal(3.0, 1.0, (3_000, 100))
    late = judge(Likelihood.GAUGE, values)[1_000:]
    assert np.mean(late <= -3) <= 5e-3
    assert np.mean(late <= -4) <= 1.2e-3


def test_first_window_of_a_series_of_a_known_class_is_judged_widely() -> None:
    rng = np.random.default_rng(2)
    known = rng.normal(50.0, 2.0, (200, 20))
    state = SeriesState()
    state.grow(np.full(20, Likelihood.GAUGE), np.zeros(20))
    score_then_learn(state, blocks_of(known))
    state.grow(np.full(2, Likelihood.GAUGE), np.zeros(2))
    (verdict,) = score_then_learn(
        state, [Block(201 * MINUTE_MS, np.array([20, 21]), np.array([51.0, 5_000.0]), np.ones(2))]
    )
    assert verdict.log10_p[0] > -1
    assert verdict.log10_p[1] < -3
    assert 45 < verdict.expected[0] < 55


@pytest.mark.parametrize("kind", list(Likelihood))
def test_nothing_is_known_of_the_first_series_of_a_class(kind: Likelihood) -> None:
    state = SeriesState()
    state.grow([kind], [0])
    (verdict,) = score_then_learn(state, [Block(MINUTE_MS, np.array([0]), np.array([3.0]), np.array([60.0]))])
    assert verdict.log10_p[0] == 0
    assert np.isnan(verdict.expected[0])
    assert verdict.observations[0] == 0


# ---- the same bytes ------------------------------------------------------------------------------------------------


def _mixed(windows: int, seed: int) -> tuple[SeriesState, list[Block]]:
    """Return a state of all kinds, and windows in which some series are missing and gaps occur."""
    rng = np.random.default_rng(seed)
    state = SeriesState()
    state.grow(np.arange(9) % 3, np.arange(9) % 3)
    blocks, end_ms = [], 0
    for _ in range(windows):
        end_ms += MINUTE_MS * int(rng.integers(1, 4))
        rows = np.flatnonzero(rng.random(9) < 0.8)
        value = np.where(rows % 3 == 0, rng.normal(5, 2, len(rows)), rng.poisson(4, len(rows)))
        blocks.append(Block(end_ms, rows, value, np.full(len(rows), 60.0)))
    return state, blocks


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1_000), cuts=st.sets(st.integers(1, 39), max_size=8))
def test_any_cut_of_the_windows_gives_the_same_bytes(seed: int, cuts: set[int]) -> None:
    whole, blocks = _mixed(40, seed)
    pieces, _ = _mixed(40, seed)
    expected = score_then_learn(whole, blocks)
    bounds = [0, *sorted(cuts), len(blocks)]
    actual = []
    for begin, end in pairwise(bounds):
        pieces = SeriesState.from_bytes(pieces.to_bytes())
        actual += score_then_learn(pieces, blocks[begin:end])
    assert pieces.to_bytes() == whole.to_bytes()
    for one, other in zip(expected, actual, strict=True):
        for name in vars(one):
            assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name


def test_another_layout_is_refused() -> None:
    blob = bytearray(SeriesState().to_bytes())
    blob[0] += 1
    with pytest.raises(LayoutError, match="layout 2"):
        SeriesState.from_bytes(blob)


def test_forgotten_series_leave_the_others_alone() -> None:
    state, blocks = _mixed(20, 1)
    score_then_learn(state, blocks)
    kept = state.keep(np.arange(9) != 4)
    assert kept.describe(4) == state.describe(5)
    kept.reset(np.array([4]), np.array([Likelihood.COUNT]))
    assert kept.describe(4) == {}


# ---- bad values ----------------------------------------------------------------------------------------------------

extreme = st.sampled_from([0.0, 5e-324, 1e-300, -1e-300, 1.0, -1.0, 1e15, 1e300, -1e300, 1.7976931348623157e308])


@settings(max_examples=100, deadline=None)
@given(kind=st.sampled_from(list(Likelihood)), values=st.lists(extreme | st.floats(-1e9, 1e9), min_size=1, max_size=60))
def test_no_value_breaks_a_model(kind: Likelihood, values: list[float]) -> None:
    state = SeriesState()
    state.grow([kind], [0])
    blocks = blocks_of(np.array(values)[:, None], weight=60.0)
    for verdict in score_then_learn(state, blocks):
        assert LOG10_P_FLOOR <= verdict.log10_p[0] <= 0
    assert np.isfinite(state.matrix).all()


def test_gap_of_years_breaks_nothing() -> None:
    state, blocks = _mixed(20, 3)
    score_then_learn(state, blocks)
    late = Block(blocks[-1].end_ms + 10 * 365 * 86_400_000, np.arange(9), np.ones(9), np.full(9, 60.0))
    (verdict,) = score_then_learn(state, [late])
    assert np.isfinite(verdict.log10_p).all()


# ---- change --------------------------------------------------------------------------------------------------------


def test_gap_widens_the_prediction() -> None:
    values = np.random.default_rng(3).normal(10.0, 1.0, (200, 1))
    widths = []
    for gap in (1, 3 * 1_440):
        state = SeriesState()
        state.grow([Likelihood.GAUGE], [0])
        blocks = blocks_of(values)
        late = Block(blocks[-1].end_ms + gap * MINUTE_MS, np.array([0]), np.array([10.0]), np.ones(1))
        *_, verdict = score_then_learn(state, [*blocks, late])
        widths.append(float(verdict.upper[0] - verdict.lower[0]))
    assert widths[1] > widths[0]


def test_constant_that_stays_is_no_surprise_and_one_that_changes_is() -> None:
    values = np.full((500, 3), 37.0)
    values[:, 1] += np.linspace(0, 1e-9, 500)
    values[400:, 2] = 38.0
    log10_p = judge(Likelihood.GAUGE, values)
    assert (log10_p[:, :2] > -2).all()
    assert LOG10_P_FLOOR < log10_p[400, 2] < -3
    assert (log10_p[430:, 2] > -3).all()


@pytest.mark.parametrize(
    ("kind", "weight", "before", "after"),
    [(Likelihood.GAUGE, 1.0, 0.0, 5.0), (Likelihood.GAUGE, 1.0, 0.0, 1e6), (Likelihood.COUNT, 60.0, 20.0, 200.0)],
    ids=["5 sigma", "1e6 sigma", "tenfold count"],
)
def test_level_shift_alarms_at_once_and_stops_within_15_windows(
    kind: Likelihood, weight: float, before: float, after: float
) -> None:
    rng = np.random.default_rng(4)
    level = np.where(np.arange(700) < 600, before, after)[:, None]
    noise = rng.normal(0.0, 1.0, (700, 100))
    values = level + noise if kind == Likelihood.GAUGE else rng.poisson(np.broadcast_to(level, (700, 100)))
    alarms = judge(kind, values.astype(float), weight) <= -4
    assert alarms[600].mean() > 0.35
    assert alarms[600:602].any(axis=0).mean() > 0.5
    assert alarms[615:].mean() < 1e-2


@pytest.mark.parametrize("size", [8.0, 1e3, 1e9])
def test_one_spike_does_not_blind(size: float) -> None:
    values = np.random.default_rng(6).normal(0.0, 1.0, (900, 100))
    values[600] += size
    values[700] += 25.0
    log10_p = judge(Likelihood.GAUGE, values)
    assert (log10_p[600] <= -5).mean() > 0.95
    assert (log10_p[700] <= -4).mean() > 0.95
    assert (log10_p[660:700] <= -4).mean() < 1e-3


def test_a_leak_is_found_while_it_goes_on() -> None:
    rng = np.random.default_rng(8)
    minutes = np.arange(2_200)
    growth = np.exp(np.clip((minutes - 2_000) / 180, 0.0, None))
    load = 50 + 10 * np.sin(2 * np.pi * minutes / 1_440)
    values = (load * growth)[:, None] * np.exp(0.03 * rng.normal(0.0, 1.0, (2_200, 40)))
    found = judge(Likelihood.GAUGE, values)[2_000:2_090] <= -6
    assert found.any(axis=0).mean() > 0.8
