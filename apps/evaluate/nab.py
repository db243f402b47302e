"""The score of the Numenta Anomaly Benchmark, from its formula.

With `s(x) = 2 / (1 + exp(5 x)) - 1`, a labelled span of rows l..r, w = r - l + 1 of them:

    a detection in row i of it is worth            A_TP s(-(r - i + 1) / w) / s(-1)
    a detection outside costs                      A_FP s((i - r) / (w - 1)),   r and w of the span before it;
                                                   A_FP when that is more than 3 widths ago, or none came before
    raw score                                      sum over spans of the best detection in it (-A_FN when there is
                                                   none) + sum over all detections outside
    score                                          100 (raw + A_FN N) / (A_TP N + A_FN N)

A row is detected when its score reaches the threshold. The first min(15 %, 750) rows of a file do not count.
The benchmark takes the threshold that maximises the raw score of each profile on the labels it scores
(`refitted`); `leave_one_category_out` takes it from the other categories.
Source: Lavin and Ahmad (2015), "Evaluating Real-time Anomaly Detection Algorithms", and numenta/NAB.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from apps.evaluate.nab_rows import Corpus, Part
from models.interface import Floats


@dataclass(frozen=True)
class Profile:
    """Weights of a true positive, a false negative and a false positive."""

    name: str
    true_positive: float
    false_negative: float
    false_positive: float


PROFILES: Final = (
    Profile("standard", 1.0, 1.0, 0.11),
    Profile("low FP", 1.0, 1.0, 0.22),
    Profile("low FN", 1.0, 2.0, 0.11),
)


@dataclass(frozen=True)
class Fit:
    """A threshold and the score it gives; `hits` of the spans found, `false` rows detected outside."""

    threshold: float
    score: float
    hits: int
    false: int


@dataclass(frozen=True)
class LeaveOneOut:
    """Scores on categories with the threshold fitted on the others.

    Attributes:
        categories: Score of each category, at the threshold of the others.
        mean: Mean of them.
        pooled: Score of all files together, each at its category's threshold.
    """

    categories: Mapping[str, Fit]
    mean: float
    pooled: float


# ---- scores ----------------------------------------------------------------------------------------------------------


def normalised(raw: float, spans: int, profile: Profile) -> float:
    """Bring a raw score to 0 for no detection at all and 100 for the best; NaN without a span."""
    worst, best = -profile.false_negative * spans, profile.true_positive * spans
    return 100 * (raw - worst) / (best - worst) if spans else float("nan")


def sweep(part: Part, scores: Floats, profile: Profile) -> tuple[Floats, Floats]:
    """Return raw scores at all thresholds that matter.

    Args:
        part: Rows, with as many of them as `scores`.
        scores: Of its rows.
        profile: Weights.

    Returns:
        Thresholds, falling: infinity (nothing fires), then every distinct score; and the raw score at each.
    """
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    change = np.where(
        part.span[order] >= 0, _gains(part, order, profile), profile.false_positive * np.minimum(part.worth[order], 0.0)
    )
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True)) if len(ordered) else np.empty(0, np.intp)
    ends = ends[np.isfinite(ordered[ends]) | (ordered[ends] > 0)]
    nothing = -profile.false_negative * part.spans
    return np.append(np.inf, ordered[ends]), np.append(nothing, nothing + np.cumsum(change)[ends])


def _gains(part: Part, order: NDArray[np.intp], profile: Profile) -> Floats:
    """Return what each row inside a span adds to the raw score when rows fire in an order; 0 outside."""
    gain = np.zeros(len(order))
    inside = np.flatnonzero(part.span[order] >= 0)
    span = part.span[order[inside]]
    grouped = inside[np.argsort(span, kind="stable")]
    span = part.span[order[grouped]]
    worth = profile.true_positive * part.worth[order[grouped]]
    # A running maximum per span, in one pass: each span is lifted above the one before.
    lift = span * (4.0 * profile.true_positive)
    best = np.maximum.accumulate(worth + lift) - lift
    first = np.append(True, span[1:] != span[:-1]) if len(span) else np.empty(0, np.bool_)
    before = np.where(first, -profile.false_negative, np.append(0.0, best[:-1])) if len(span) else best
    gain[grouped] = best - before
    return gain


def raw_score(part: Part, scores: Floats, threshold: float, profile: Profile) -> float:
    """Return the raw score at one threshold."""
    fired = scores >= threshold
    best = np.full(int(part.span.max(initial=-1)) + 1, -np.inf)
    inside = fired & (part.span >= 0)
    np.maximum.at(best, part.span[inside], part.worth[inside])
    found = best[best > -np.inf]
    missed = part.spans - len(found)
    outside = float(part.worth[fired & (part.span < 0)].sum())
    gained = profile.true_positive * float(found.sum())
    return gained - profile.false_negative * missed + profile.false_positive * outside


def score_at(part: Part, scores: Floats, threshold: float, profile: Profile) -> Fit:
    """Return the score at one threshold."""
    fired = scores >= threshold
    hits = len(np.unique(part.span[fired & (part.span >= 0)]))
    false = int((fired & (part.span < 0)).sum())
    raw = raw_score(part, scores, threshold, profile)
    return Fit(threshold, normalised(raw, part.spans, profile), hits, false)


def refitted(part: Part, scores: Floats, profile: Profile) -> Fit:
    """Return the score at the threshold that maximises it; the largest such threshold."""
    thresholds, raws = sweep(part, scores, profile)
    return score_at(part, scores, float(thresholds[np.argmax(raws)]), profile)


def by_category(rows: Corpus, scores: Floats, threshold: float, profile: Profile) -> dict[str, Fit]:
    """Return each category's own score at one threshold."""
    parts = {name: rows.part(rows.of_category(name)) for name in rows.categories}
    return {name: score_at(part, scores[part.chosen], threshold, profile) for name, part in parts.items()}


def leave_one_category_out(rows: Corpus, scores: Floats, profile: Profile) -> LeaveOneOut:
    """Score each category at the threshold that is best for the others.

    Args:
        rows: The corpus.
        scores: Of its rows, as `line_up` gives them.
        profile: Weights.
    """
    found: dict[str, Fit] = {}
    raw = 0.0
    for name in rows.categories:
        own = rows.of_category(name)
        others, held_out = rows.part(~own), rows.part(own)
        threshold = refitted(others, scores[others.chosen], profile).threshold
        found[name] = score_at(held_out, scores[held_out.chosen], threshold, profile)
        raw += raw_score(held_out, scores[held_out.chosen], threshold, profile)
    mean = float(np.mean([fit.score for fit in found.values()]))
    return LeaveOneOut(found, mean, normalised(raw, rows.spans, profile))
