"""Clean series of eight kinds, made by seeded generators: how often a detector alarms when there is nothing to find.

Windows of five minutes. Locations and scales differ by orders of magnitude between series.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.random import Generator
from scipy.signal import lfilter

from apps.evaluate.interface import Detector, Scores
from apps.evaluate.recordings import Recording
from models.interface import Floats, Likelihood

WINDOW_S: Final = 300
DAY: Final = 86_400 // WINDOW_S
#: Windows at the start in which nothing is counted.
WARMUP: Final = DAY
#: Nominal false-alarm rates that are measured.
LEVELS: Final = (1e-3, 1e-4)
SEED: Final = 20_160_519
_TRIALS_RATIO: Final = 200.0


# ---- clean families --------------------------------------------------------------------------------------------------


def _iid(rng: Generator, rows: int, series: int) -> Floats:
    return rng.standard_normal((rows, series))


def _autoregressive(rng: Generator, rows: int, series: int) -> Floats:
    return np.asarray(lfilter([1.0], [1.0, -0.8], rng.standard_normal((rows, series)), axis=0))


def _seasonal(rng: Generator, rows: int, series: int) -> Floats:
    """A day with a plateau and a second harmonic, shifted per series, with noise."""
    phase = 2 * np.pi * (np.arange(rows)[:, None] / DAY + rng.random(series))
    day = np.tanh(3 * np.sin(phase)) + 0.5 * np.cos(2 * phase)
    return np.asarray(rng.uniform(2, 6, series) * day + rng.standard_normal((rows, series)))


def _counts(rng: Generator, rows: int, series: int) -> Floats:
    return rng.poisson(_log_uniform(rng, 0.5, 100, series), (rows, series)).astype(np.float64)


def _overdispersed(rng: Generator, rows: int, series: int) -> Floats:
    """Negative binomial: a Poisson rate that is itself gamma distributed."""
    shape = _log_uniform(rng, 2, 20, series)
    rate = rng.gamma(shape, _log_uniform(rng, 2, 100, series) / shape, (rows, series))
    return rng.poisson(rate).astype(np.float64)


def _ratios(rng: Generator, rows: int, series: int) -> Floats:
    """Successes of 200 trials; the probability varies a little (intra-class correlation .02)."""
    mean = _log_uniform(rng, 0.01, 0.5, series)
    both = 1 / 0.02 - 1
    probability = rng.beta(mean * both, (1 - mean) * both, (rows, series))
    return rng.binomial(int(_TRIALS_RATIO), probability).astype(np.float64)


def _heavy_tails(rng: Generator, rows: int, series: int) -> Floats:
    return rng.standard_t(4, (rows, series))


def _random_walk(rng: Generator, rows: int, series: int) -> Floats:
    return np.asarray(np.cumsum(rng.standard_normal((rows, series)), axis=0))


def _log_uniform(rng: Generator, low: float, high: float, size: int) -> Floats:
    return np.asarray(np.exp(rng.uniform(np.log(low), np.log(high), size)))


@dataclass(frozen=True)
class Family:
    """A kind of clean series: its generator (rng, rows, series), and how its values are distributed."""

    make: Callable[[Generator, int, int], Floats]
    likelihood: Likelihood = Likelihood.GAUGE
    weight: float = 1.0


FAMILIES: Final[Mapping[str, Family]] = {
    "iid": Family(_iid),
    "AR(1)": Family(_autoregressive),
    "seasonal": Family(_seasonal),
    "counts": Family(_counts, Likelihood.COUNT, WINDOW_S),
    "overdispersed counts": Family(_overdispersed, Likelihood.COUNT, WINDOW_S),
    "ratios": Family(_ratios, Likelihood.RATIO, _TRIALS_RATIO),
    "heavy tails": Family(_heavy_tails),
    "random walk": Family(_random_walk),
}


def clean(name: str, rows: int, series: int, seed: int = SEED) -> Recording:
    """Return series of a family; the same arguments give the same values.

    Args:
        name: Of the family.
        rows: Windows.
        series: Number of series.
        seed: Of the generator.
    """
    family = FAMILIES[name]
    rng = np.random.default_rng([seed, list(FAMILIES).index(name)])
    values = family.make(rng, rows, series)
    if family.likelihood == Likelihood.GAUGE:
        values = _log_uniform(rng, 1e-3, 1e6, series) * (values + rng.normal(0, 100, series))
    end_ms = 1000 * WINDOW_S * np.arange(1, rows + 1)
    names = tuple(f"s{place:04d}" for place in range(series))
    return Recording(name, end_ms, values, names, family.likelihood, family.weight)


@dataclass(frozen=True)
class FalseAlarms:
    """False alarms on clean series, after the first day.

    Attributes:
        ratio: Share of windows with p at or below a level over that level, by level; NaN if it gives no p.
        per_day: Alarms per series and day at the detector's own level.
    """

    ratio: Mapping[float, float]
    per_day: float


def false_alarms(detector: Detector, name: str, rows: int = 11 * DAY, series: int = 300) -> FalseAlarms:
    """Measure a detector on a clean family."""
    [scores] = detector.detect([clean(name, rows, series)])
    alarms = int((scores.alarm[WARMUP:] >= detector.level).sum())
    return FalseAlarms({level: _ratio(scores, level) for level in LEVELS}, alarms / (series * (rows - WARMUP) / DAY))


def _ratio(scores: Scores, level: float) -> float:
    if scores.log10_p is None:
        return float("nan")
    return float((scores.log10_p[WARMUP:] <= np.log10(level)).mean() / level)


# ---- the level of a resource's alarm, without labels -----------------------------------------------------------------

#: Share of a clean resource's windows that reach the level: what the novelty job reports (`report_p`).
RESOURCE_RATE: Final = 1e-2
_RESOURCES: Final = 24
_RESOURCE_ROWS: Final = 1_500
_SERIES_PER_FAMILY: Final = 12


def clean_resource_level(detector: Detector, rate: float = RESOURCE_RATE) -> float:
    """Return the evidence that a share of the windows of clean resources reaches: a threshold chosen without labels.

    A resource has twelve series of each family, all fed as gauges, as data without metadata are.

    Args:
        detector: The detector.
        rate: That share.
    """
    scores = detector.detect([_clean_resource(number) for number in range(_RESOURCES)])
    return float(np.quantile(np.concatenate([score.resource[WARMUP:] for score in scores]), 1 - rate))


def _clean_resource(number: int) -> Recording:
    parts = [clean(name, _RESOURCE_ROWS, _SERIES_PER_FAMILY, SEED + 1 + number) for name in FAMILIES]
    values = np.concatenate([part.values for part in parts], axis=1)
    names = tuple(f"{part.resource} {name}" for part in parts for name in part.series)
    return Recording(f"clean-{number}", parts[0].end_ms, values, names)
