"""Hysteresis: what opens, holds, closes, and how severe it is."""

from __future__ import annotations

import math

import pytest

from models.episodes import BRIEF_SCORE_LIMIT, Levels, closes, episode_score, next_pace, opens, recent

MINUTE_MS = 60_000
LEVELS = Levels(single=-5.0, pair=-3.0, hold=-2.5, group=-6.0)


@pytest.mark.parametrize(
    ("history", "opened"),
    [
        ([(10, -5.0)], True),
        ([(10, -4.9)], False),
        ([(10, -3.0), (9, -3.0)], True),
        ([(10, -3.0), (8, -3.0)], True),
        ([(10, -3.0), (7, -9.0)], False),  # too long ago to confirm
        ([(10, -2.9), (9, -9.0)], False),  # the window itself must be surprising
        ([(9, -9.0)], False),
        ([], False),
    ],
)
def test_opens(history: list[tuple[int, float]], opened: bool) -> None:
    in_ms = sorted((window * MINUTE_MS, log10_p) for window, log10_p in history)
    assert opens(in_ms, 10 * MINUTE_MS, MINUTE_MS, LEVELS) is opened


def test_many_members_need_stronger_evidence_each_to_hold() -> None:
    assert LEVELS.hold_for(1) == LEVELS.hold
    assert LEVELS.hold_for(8) == pytest.approx(LEVELS.hold - math.log10(8))
    assert LEVELS.hold_for(10**6) == LEVELS.single


def test_closes_after_a_quiet_stretch_of_event_time() -> None:
    assert not closes(10 * MINUTE_MS, 14 * MINUTE_MS, 5 * MINUTE_MS)
    assert closes(10 * MINUTE_MS, 15 * MINUTE_MS, 5 * MINUTE_MS)


def test_score_is_capped_while_brief_and_raised_by_breadth() -> None:
    brief_ms = 10 * MINUTE_MS
    assert episode_score(100.0, "resource", brief_ms - 1, brief_ms) == BRIEF_SCORE_LIMIT
    assert episode_score(30.0, "resource", 0, brief_ms) == 30.0
    assert episode_score(80.0, "resource", brief_ms, brief_ms) == 80.0
    broad = [episode_score(40.0, scope, 0, brief_ms) for scope in ("resource", "service", "region", "cloud")]
    assert broad == sorted(set(broad))
    assert episode_score(90.0, "cloud", 0, brief_ms) == 100.0


def test_pace_doubles_up_to_the_longest() -> None:
    paces = [1]
    for _ in range(7):
        paces.append(next_pace(paces[-1], 60))
    assert paces == [1, 2, 4, 8, 16, 32, 60, 60]


def test_recent_keeps_what_is_later() -> None:
    assert recent([(1, -2.0), (2, -3.0), (3, -4.0)], 1) == [(2, -3.0), (3, -4.0)]
