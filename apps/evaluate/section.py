"""What the sections of the report share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from apps.evaluate.interface import Scores
from models.interface import Floats

#: Scores of all recordings, in order, by name of the detector.
Found = Mapping[str, Sequence[Scores]]
#: A level or threshold by name of the detector.
Levels = Mapping[str, float]


def one_series(scores: Sequence[Scores], output: str) -> list[Floats]:
    """Return an output (`surprise` or `alarm`) of recordings of one series, each of shape (n,)."""
    return [getattr(score, output)[:, 0] for score in scores]


def three(values: Sequence[float]) -> str:
    """Return values as one cell."""
    return " / ".join(f"{value:.1f}" for value in values)


def first_of(found: Mapping[str, object]) -> str:
    """Return the detector whose plots are shown."""
    return next(iter(found))
