"""F1 with a limited delay, the rule of the AIOps Challenge 2018.

A labelled segment is found when a row up to `delay` rows after its first is detected; then all its rows are true
positives, otherwise all are false negatives. Every detected row outside is a false positive. Rows of all KPIs are added
up: one threshold for all of them, fitted on the train halves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from apps.evaluate.recordings import Flags
from apps.evaluate.vus import segments
from models.interface import Floats

#: Rows after the first of a segment in which it must be found.
DELAY: Final = 7


@dataclass(frozen=True)
class Outcome:
    """Rows counted at a threshold."""

    threshold: float
    true_positive: int
    false_positive: int
    false_negative: int

    @property
    def precision(self) -> float:
        """Share of detected rows that are true, 0 without any."""
        return self.true_positive / max(self.true_positive + self.false_positive, 1)

    @property
    def recall(self) -> float:
        """Share of labelled rows found."""
        return self.true_positive / max(self.true_positive + self.false_negative, 1)

    @property
    def f1(self) -> float:
        """Harmonic mean of both: 2 TP / (2 TP + FP + FN)."""
        return 2 * self.true_positive / max(2 * self.true_positive + self.false_positive + self.false_negative, 1)


@dataclass(frozen=True)
class Pool:
    """What decides the outcome, of several KPIs.

    Attributes:
        trigger: Highest score in the rows in which a segment must be found, per segment.
        length: Its rows.
        outside: Scores of all rows without a label.
    """

    trigger: Floats
    length: NDArray[np.intp]
    outside: Floats


def pool(labels: Sequence[Flags], scores: Sequence[Floats], delay: int = DELAY) -> Pool:
    """Collect the segments and quiet rows of KPIs; a NaN score is never detected."""
    triggers, lengths, outside = [], [], []
    for label, raw in zip(labels, scores, strict=True):
        score = np.where(np.isnan(raw), -np.inf, raw)
        spans = segments(label)
        triggers += [score[first : min(first + delay, last) + 1].max() for first, last in spans.tolist()]
        lengths += (spans[:, 1] - spans[:, 0] + 1).tolist()
        outside.append(score[~label])
    return Pool(np.array(triggers), np.array(lengths, np.intp), np.concatenate(outside))


def outcome(rows: Pool, threshold: float) -> Outcome:
    """Count at one threshold: a row is detected when its score reaches it."""
    found = int(rows.length[rows.trigger >= threshold].sum())
    false = int((rows.outside >= threshold).sum())
    return Outcome(threshold, found, false, int(rows.length.sum()) - found)


def fit(rows: Pool) -> Outcome:
    """Return the outcome at the threshold with the highest F1; the largest such threshold."""
    # F1 is highest where a threshold falls on a segment's trigger: anything else only adds false rows.
    candidates = np.unique(rows.trigger[rows.trigger > -np.inf])[::-1]
    if not len(candidates):
        return outcome(rows, np.inf)
    order = np.argsort(-rows.trigger, kind="stable")
    reached = np.searchsorted(-rows.trigger[order], -candidates, side="right")
    found = np.cumsum(rows.length[order])[reached - 1]
    quiet = np.sort(rows.outside)
    false = len(quiet) - np.searchsorted(quiet, candidates, side="left")
    f1 = 2 * found / (found + rows.length.sum() + false)
    return outcome(rows, float(candidates[np.argmax(f1)]))
