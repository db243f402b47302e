"""What a detector is given and what it says: recordings in, scores out, each window scored before it is learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from apps.evaluate.recordings import Recording
from models.interface import Floats


@dataclass(frozen=True)
class Scores:
    """What a detector says about a recording.

    Attributes:
        surprise: For ranking, higher is more anomalous; NaN where there is no value; shape (n, series).
        alarm: Shaped for alarms, which it raises from the detector's `level` on; likewise.
        resource: Evidence of each window that the resource is anomalous, shape (n,).
        log10_p: Decimal logarithm of the calibrated p of each value; None if the detector gives none; (n, series).
        regime: Number of the regime each series lives in; None if the detector knows no regimes; (n, series).
    """

    surprise: Floats
    alarm: Floats
    resource: Floats
    log10_p: Floats | None = None
    regime: Floats | None = None


class Detector(Protocol):
    """Scores recordings, without looking ahead; what it says of one does not depend on the others."""

    @property
    def level(self) -> float:
        """Alarm score from which on it alarms by default."""

    @property
    def together(self) -> int:
        """How many recordings it works on best at once."""

    def detect(self, recordings: Sequence[Recording]) -> list[Scores]:
        """Score all windows of the recordings."""
