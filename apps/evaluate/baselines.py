"""Baselines behind the same interface.

- `gaussian`, `half-space-trees`: river's GaussianScorer and HalfSpaceTrees.
- `normal`: a normal distribution of level and of difference over the last windows, exponentially weighted.

Their alarm is their surprise where it exceeds all of the last 80 windows, 0 elsewhere: without such a filter they score
next to nothing on NAB.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from river import anomaly, preprocessing
from scipy.ndimage import maximum_filter1d
from scipy.signal import lfilter
from scipy.special import log_ndtr

from apps.evaluate.interface import Scores
from apps.evaluate.recordings import Recording
from apps.evaluate.resources import evidence
from models.interface import Floats

_LN10: Final = float(np.log(10.0))
#: Windows whose surprise an alarm of a baseline must exceed.
_FILTER: Final = 80
_WARMUP: Final = 30
_MOST: Final = 16.0


class Gaussian:
    """river's GaussianScorer per series: a normal distribution of all values so far."""

    level: float = 4.0
    together: int = 1

    def detect(self, recordings: Sequence[Recording]) -> list[Scores]:
        """Score all series, one after the other."""
        return [self._detect(recording) for recording in recordings]

    def _detect(self, recording: Recording) -> Scores:
        surprise = np.stack([_gaussian(values) for values in recording.values.T], axis=1)
        return Scores(surprise, filtered(surprise), evidence(surprise, recording.values), -surprise)


def _gaussian(values: Floats) -> Floats:
    scorer = anomaly.GaussianScorer(window_size=None, grace_period=_WARMUP)
    found = np.full(len(values), np.nan)
    for place, value in enumerate(values.tolist()):
        if math.isfinite(value):
            # With no spread yet river calls every value an outlier, also the one there has always been.
            constant = scorer.gaussian.sigma == 0 and value == scorer.gaussian.mu
            found[place] = 0.0 if constant else scorer.score_one(None, value)
            scorer.learn_one(None, value)
    # The score is 1 - p.
    return np.asarray(-np.log10(np.maximum(1 - found, 10**-_MOST)))


class HalfSpaceTrees:
    """river's HalfSpaceTrees over all series of the resource, each scaled to its range so far; one score for all."""

    level: float = 0.98
    together: int = 1

    def detect(self, recordings: Sequence[Recording]) -> list[Scores]:
        """Score the resources; every series carries its resource's score."""
        return [self._detect(recording) for recording in recordings]

    def _detect(self, recording: Recording) -> Scores:
        score = _half_space_trees(recording)
        surprise = np.where(np.isfinite(recording.values), score[:, None], np.nan)
        return Scores(surprise, filtered(surprise), score)


def _half_space_trees(recording: Recording) -> Floats:
    trees = anomaly.HalfSpaceTrees(n_trees=25, height=8, window_size=250, seed=42)
    scaler = preprocessing.MinMaxScaler()
    found = np.zeros(len(recording.values))
    for place, values in enumerate(recording.values.tolist()):
        features = {name: value for name, value in zip(recording.series, values, strict=True) if math.isfinite(value)}
        # The ranges must know a value before it is scaled, or it leaves the unit cube.
        scaler.learn_one(features)
        scaled = scaler.transform_one(features)
        found[place] = trees.score_one(scaled)
        trees.learn_one(scaled)
    return found


class Normal:
    """Exponentially weighted normal of level and difference, the larger surprise of both."""

    level: float = 4.0
    together: int = 1
    memory: float = 500.0

    def detect(self, recordings: Sequence[Recording]) -> list[Scores]:
        """Score all series of a recording at once; a missing value repeats the one before."""
        return [self._detect(recording) for recording in recordings]

    def _detect(self, recording: Recording) -> Scores:
        values = _filled(recording.values)
        difference = np.diff(values, axis=0, prepend=values[:1])
        surprise = np.maximum(self._surprise(values), self._surprise(difference))
        surprise[:_WARMUP] = 0.0
        surprise[~np.isfinite(recording.values)] = np.nan
        return Scores(surprise, filtered(surprise), evidence(surprise, recording.values), -surprise)

    def _surprise(self, values: Floats) -> Floats:
        """Return -log10 p of each value by the mean and variance before it."""
        centred = values - values[0]
        mean, square = self._mean(centred), self._mean(centred * centred)
        variance = np.maximum(square - mean * mean, 1e-12 * square)
        deviation = np.abs(centred[1:] - mean[:-1])
        scale = np.sqrt(variance[:-1])
        z = np.divide(deviation, scale, out=np.where(deviation > 0, np.inf, 0.0), where=scale > 0)
        found = -(log_ndtr(-np.minimum(z, 1e3)) + np.log(2)) / _LN10
        return np.concatenate([np.zeros((1, values.shape[1])), np.maximum(found, 0.0)])

    def _mean(self, values: Floats) -> Floats:
        kept = 1 - 1 / self.memory
        weight = lfilter([1.0], [1.0, -kept], np.ones(len(values)))
        return np.asarray(lfilter([1.0], [1.0, -kept], values, axis=0) / weight[:, None])


def _filled(values: Floats) -> Floats:
    """Return values with the last one before in place of a missing one; 0 before the first."""
    present = np.isfinite(values)
    latest = np.maximum.accumulate(np.where(present, np.arange(len(values))[:, None], -1), axis=0)
    return np.where(latest < 0, 0.0, values[latest, np.arange(values.shape[1])])


def filtered(surprise: Floats) -> Floats:
    """Return surprise where it exceeds that of all of the last 80 windows, 0 elsewhere."""
    known = np.nan_to_num(surprise, nan=0.0)
    before = np.concatenate([np.full((1, known.shape[1]), -np.inf), known[:-1]])
    recent = maximum_filter1d(before, _FILTER, axis=0, origin=_FILTER // 2 - 1, mode="constant", cval=-np.inf)
    return np.where(known > recent, known, 0.0)
