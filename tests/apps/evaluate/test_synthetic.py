"""The synthetic series are what they say, and the measures count what they say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import log_ndtr

from apps.evaluate.baselines import Normal
from apps.evaluate.disturbances import SHIFTS, shift, spike
from apps.evaluate.interface import Scores
from apps.evaluate.recordings import Recording
from apps.evaluate.synthetic import DAY, FAMILIES, clean, clean_resource_level, false_alarms
from models.interface import Floats, Likelihood

LN10 = np.log(10)


@dataclass(frozen=True)
class Oracle:
    """Knows location and scale of a series from its first day: exact p of normal noise; alarms at p <= 1e-4.

    `adopts_after`: it takes a mean of so many windows more than three deviations away for a new regime.
    """

    level: float = 4.0
    adopts_after: int = 10**9

    def detect(self, recordings: Sequence[Recording]) -> list[Scores]:
        return [self._detect(recording.values) for recording in recordings]

    def _detect(self, values: Floats) -> Scores:
        z = (values - values[:DAY].mean(axis=0)) / values[:DAY].std(axis=0)
        log10_p = (log_ndtr(-np.abs(z)) + np.log(2)) / LN10
        run = np.zeros(values.shape)
        for row in range(1, len(run)):
            run[row] = np.where(z[row] > 2, run[row - 1] + 1, 0)
        regime = np.maximum.accumulate(run >= self.adopts_after, axis=0).astype(float)
        return Scores(-log10_p, -log10_p, -log10_p.min(axis=1), log10_p, regime)


@pytest.mark.parametrize("name", FAMILIES)
def test_same_arguments_same_values_and_other_seeds_other_values(name: str) -> None:
    first, again, other = clean(name, 50, 4), clean(name, 50, 4), clean(name, 50, 4, seed=1)
    np.testing.assert_array_equal(first.values, again.values)
    assert (first.values != other.values).any()
    assert first.values.shape == (50, 4)
    assert np.isfinite(first.values).all()


def test_kinds() -> None:
    counts, ratios = clean("overdispersed counts", 500, 40), clean("ratios", 500, 40)
    assert (counts.likelihood, counts.weight) == (Likelihood.COUNT, 300.0)
    assert (ratios.likelihood, ratios.weight) == (Likelihood.RATIO, 200.0)
    assert (counts.values == np.floor(counts.values)).all()
    assert ((ratios.values >= 0) & (ratios.values <= 200)).all()
    plain = clean("counts", 500, 40).values
    assert np.median(plain.var(axis=0) / plain.mean(axis=0)) == pytest.approx(1.0, abs=0.1)
    assert np.median(counts.values.var(axis=0) / counts.values.mean(axis=0)) > 1.5


def standardised(name: str) -> Floats:
    values = clean(name, 10 * DAY, 100).values
    return np.asarray((values - values.mean(axis=0)) / values.std(axis=0))


def lagged(values: Floats, lag: int) -> float:
    return float(np.median((values[lag:] * values[:-lag]).mean(axis=0)))


def test_gauges_have_the_dependence_they_are_named_for() -> None:
    assert abs(lagged(standardised("iid"), 1)) < 0.01
    assert lagged(standardised("AR(1)"), 1) == pytest.approx(0.8, abs=0.02)
    assert lagged(standardised("seasonal"), DAY) > 0.8 > lagged(standardised("seasonal"), DAY // 2)
    assert lagged(standardised("random walk"), 1) > 0.98
    assert np.median((standardised("heavy tails") ** 4).mean(axis=0)) > 4  # 3 for a normal


def test_a_calibrated_detector_has_ratio_one() -> None:
    found = false_alarms(Oracle(), "iid", rows=11 * DAY, series=200)
    assert found.ratio[1e-3] == pytest.approx(1.0, abs=0.15)
    assert found.ratio[1e-4] == pytest.approx(1.0, abs=0.5)
    # It alarms at p <= 1e-4, 288 windows a day.
    assert found.per_day == pytest.approx(288 * 1e-4 * found.ratio[1e-4], rel=1e-9)


def test_heavy_tails_are_seen_as_false_alarms_of_a_normal() -> None:
    assert false_alarms(Oracle(), "heavy tails", rows=6 * DAY, series=50).ratio[1e-4] > 10


def test_adoption_is_counted_within_twelve_windows_of_the_shift_or_of_the_spike_s_end() -> None:
    patient, hasty, late = Oracle(adopts_after=9), Oracle(adopts_after=3), Oracle(adopts_after=16)
    assert shift(patient, 8, series=30).adopted == 30
    assert shift(late, 8, series=30).adopted == 0
    assert spike(patient, 5, series=30).adopted == 0
    # The spikes of 5 deviations are not always above 2 in all five windows, those of 20 are.
    assert spike(hasty, 5, series=30).adopted > 20
    assert spike(hasty, 1, series=30).adopted == 0


def test_alarms_of_a_detector_that_never_adopts() -> None:
    found = shift(Oracle(), 8, series=20)
    assert found.alarmed == found.series == 20
    assert found.mean_alarms > 250
    assert found.at_most_ten == 0.0


def test_a_spike_alarms_while_it_lasts() -> None:
    found = spike(Oracle(), 3, series=300)
    assert 2.0 < found.mean_alarms < 3.1
    assert found.at_most_ten == 1.0


def test_without_regimes_adoption_is_unknown() -> None:
    assert shift(Normal(), 8, series=5).adopted is None


def test_spread_changes_by_the_factor() -> None:
    assert SHIFTS["deviation x 3"](Oracle()).mean_alarms > 2 * SHIFTS["variance x 3"](Oracle()).mean_alarms > 0


def test_level_is_what_the_share_of_clean_windows_reaches() -> None:
    one, two = clean_resource_level(Normal(), 1e-1), clean_resource_level(Normal(), 1e-2)
    assert 0 < one < two
    assert two == clean_resource_level(Normal(), 1e-2)
