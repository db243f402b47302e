"""Episodes: one alarm for one stretch of surprise, however many windows it lasts.

An episode opens at a strict level, is held open at a weaker one (hysteresis) and closes after a quiet stretch of event
time. Everything here is a function of event time and tail probabilities: no clock, no state of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

#: A second surprising window within this many windows counts as confirmation ("2 of 3").
CONFIRMATION_WINDOWS: Final = 3

#: What breadth adds to an episode's score: one severity band for every doubling of the scope's reach.
SCOPE_BONUS: Final = {"resource": 0.0, "service": 15.0, "region": 25.0, "cloud": 35.0}

#: Highest score of a brief episode of a single resource: the top of Elastic's band `minor`.
BRIEF_SCORE_LIMIT: Final = 49.9


@dataclass(frozen=True)
class Levels:
    """Decimal logarithms of the tail probabilities at which an episode opens and is held open.

    Attributes:
        single: One window at or below this opens.
        pair: Two of three windows at or below this open.
        hold: A window at or below this keeps an open episode open.
        group: A group test at or below this makes the group the scope.
    """

    single: float
    pair: float
    hold: float
    group: float

    def hold_for(self, members: int) -> float:
        """Return the hold level of an episode of many members, each of which has its chance to be surprising."""
        return max(self.hold - math.log10(max(members, 1)), self.single)


def opens(history: Sequence[tuple[int, float]], end_ms: int, window_ms: int, levels: Levels) -> bool:
    """Tell whether the window ending at `end_ms` opens an episode.

    Args:
        history: (window end, log10 p) of one resource's latest surprising windows, in order; may hold `end_ms`.
        end_ms: End of the window judged.
        window_ms: Length of a window.
        levels: The levels.
    """
    now = [log10_p for at_ms, log10_p in history if at_ms == end_ms]
    if not now:
        return False
    if now[0] <= levels.single:
        return True
    earlier = end_ms - CONFIRMATION_WINDOWS * window_ms
    return now[0] <= levels.pair and any(
        earlier < at_ms < end_ms and log10_p <= levels.pair for at_ms, log10_p in history
    )


def closes(last_evidence_end_ms: int, end_ms: int, close_after_ms: int) -> bool:
    """Tell whether an episode without evidence since `last_evidence_end_ms` is over at `end_ms`."""
    return end_ms - last_evidence_end_ms >= close_after_ms


def episode_score(peak: float, scope: str, lasted_ms: int, brief_ms: int) -> float:
    """Return the 0-100 score of an episode: the peak, raised by breadth, capped while it is one brief resource.

    A restart is a short silence and a counter reset of one resource: as improbable as a failure, but over in minutes.

    Args:
        peak: Highest score of a window, 0-100.
        scope: One of `SCOPE_BONUS`.
        lasted_ms: From the start of the first to the end of the last window with evidence.
        brief_ms: Shorter than this is brief.
    """
    if scope == "resource" and lasted_ms < brief_ms:
        return min(peak, BRIEF_SCORE_LIMIT)
    return min(100.0, peak + SCOPE_BONUS[scope])


def next_pace(pace: int, longest: int) -> int:
    """Return the number of windows until the next minor update: doubling, so that updates stay few."""
    return min(2 * pace, longest)


def recent(history: Iterable[tuple[int, float]], after_ms: int) -> list[tuple[int, float]]:
    """Return the part of a history later than `after_ms`."""
    return [entry for entry in history if entry[0] > after_ms]
