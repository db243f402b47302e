"""Volume under the surface of precision and recall (VUS-PR), by TSB-AD's rule.

For every buffer w = 0..W, labelled segments are widened by floor(w / 2) on both sides with weight
sqrt(1 - distance / w). At 250 thresholds, the scores at evenly spaced ranks:

    TP        sum of the weights of predicted points
    recall    min(TP / ((P + L) / 2), 1) x share of widened segments that are touched;
              P = labelled points, L = P + weights of predicted points in the margins
    precision TP / predicted points

Average precision over thresholds, then mean over w. W is the period of a series by its autocorrelation, 125 if none.
Source: Paparrizos et al. (2022), "Volume under the surface", VLDB; Liu and Paparrizos (2024), TSB-AD, NeurIPS.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from apps.evaluate.recordings import Flags
from models.interface import Floats

_THRESHOLDS: Final = 250
_LONGEST_LAG: Final = 400
_FIRST_LAG: Final = 3
_MOST_ROWS: Final = 20_000
_LEAST_PLACE: Final = 3
_LARGEST_PLACE: Final = 300
#: W of a series without a period.
NO_PERIOD: Final = 125

Segments = NDArray[np.intp]


def period(values: Floats) -> int:
    """Return the lag of the highest local maximum of a series' autocorrelation, 125 if there is none that counts.

    Args:
        values: Shape (n,); the first 20,000 are looked at.
    """
    correlation = _autocorrelation(values[:_MOST_ROWS])[_FIRST_LAG:]
    inner = correlation[1:-1]
    peaks = 1 + np.flatnonzero((inner > correlation[:-2]) & (inner > correlation[2:]))
    if not len(peaks):
        return NO_PERIOD
    # Of equal peaks the last one, as a stable ascending sort read backwards gives it.
    best = int(peaks[len(peaks) - 1 - np.argmax(correlation[peaks][::-1])])
    return best + _FIRST_LAG if _LEAST_PLACE <= best <= _LARGEST_PLACE else NO_PERIOD


def _autocorrelation(values: Floats) -> Floats:
    """Return lags 0 to 400; zeros for a constant."""
    centred = values - values.mean()
    size = 1 << (2 * len(values) - 1).bit_length()
    spectrum = np.fft.rfft(centred, size)
    products = np.fft.irfft(spectrum * np.conj(spectrum), size)[: min(_LONGEST_LAG + 1, len(values))]
    return np.asarray(products / products[0] if products[0] > 0 else np.zeros_like(products))


def segments(label: Flags) -> Segments:
    """Return first and last row of each run of labelled rows, shape (segments, 2)."""
    edges = np.diff(np.concatenate([[0], label.astype(np.int8), [0]]))
    return np.stack([np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1], axis=1)


def vus_pr(label: Flags, scores: Floats, longest: int) -> float:
    """Return VUS-PR in [0, 1].

    Args:
        label: Anomalous rows, at least one, shape (n,).
        scores: Higher is more anomalous; NaN counts as lowest, shape (n,).
        longest: Widest buffer W, rows.

    Raises:
        ValueError: No row is labelled.
    """
    if not label.any():
        message = "VUS-PR needs at least one labelled row"
        raise ValueError(message)
    scores = np.where(np.isnan(scores), -np.inf, scores)
    order = np.argsort(-scores, kind="stable")
    thresholds = scores[order][np.linspace(0, len(scores) - 1, _THRESHOLDS).astype(np.intp)]
    predicted = np.searchsorted(-scores[order], -thresholds, side="right")
    spans = segments(label)
    ranking = _Ranking(scores, order, thresholds, predicted)
    return float(np.mean([_average_precision(label, spans, ranking, width) for width in range(longest + 1)]))


class _Ranking:
    """Scores, their falling order, the thresholds, and how many rows reach each."""

    def __init__(self, scores: Floats, order: Segments, thresholds: Floats, predicted: Segments) -> None:
        self.scores, self.order = scores, order
        self.thresholds, self.predicted = thresholds, predicted
        #: Place of each row in the order.
        self.rank = np.empty(len(order), np.intp)
        self.rank[order] = np.arange(len(order))

    def sum_of_predicted(self, weight: Floats) -> Floats:
        """Add up the weights of the rows that reach each threshold."""
        return np.asarray(np.cumsum(weight[self.order])[self.predicted - 1])

    def share_touched(self, spans: Segments) -> Floats:
        """Return the share of spans with a row that reaches each threshold."""
        highest = np.array([self.scores[first : last + 1].max() for first, last in spans.tolist()])
        return np.asarray((highest[:, None] >= self.thresholds).mean(axis=0))


def _average_precision(label: Flags, spans: Segments, ranking: _Ranking, width: int) -> float:
    weight = _widened(label, spans, width)
    positive = ranking.sum_of_predicted(weight)
    margin = ranking.sum_of_predicted(np.where(label, 0.0, weight))
    labelled = (2 * label.sum() + margin) / 2
    recall = np.minimum(positive / labelled, 1.0) * ranking.share_touched(_joined(spans, len(label), width // 2))
    return float(np.diff(recall, prepend=0.0) @ (positive / ranking.predicted))


def _widened(label: Flags, spans: Segments, width: int) -> Floats:
    """Return the weight of each row."""
    weight = label.astype(np.float64)
    reach = np.arange(1, width // 2 + 1)
    slope = np.sqrt(1 - reach / width) if width else np.empty(0)
    for first, last in spans.tolist():
        after = last + reach
        inside = after < len(weight)
        weight[after[inside]] += slope[inside]
        before = first - reach
        weight[before[before >= 0]] += slope[before >= 0]
    return np.minimum(weight, 1.0)


def _joined(spans: Segments, size: int, reach: int) -> Segments:
    """Widen segments and join those that meet."""
    first, last = spans[:, 0] - reach, spans[:, 1] + reach
    apart = last[:-1] < first[1:]
    kept = np.stack([first[np.append(True, apart)], last[np.append(apart, True)]], axis=1)
    return np.asarray(np.clip(kept, 0, size - 1))
