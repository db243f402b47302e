from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from apps.feed.writer import TickGrid
from pipelines.parameters import TimeRules

RULES = TimeRules(window_s=10, lateness_s=3, future_s=2, slack_s=1)


def ticks(grid: TickGrid, arrivals_ms: list[int]) -> list[int]:
    return [tick for arrival in arrivals_ms for tick in grid.due(arrival)]


def test_ticks_stand_at_the_first_arrival_and_where_windows_close() -> None:
    # Window [10, 20) closes at 20 + 3 + 1 = 24 s.
    assert ticks(TickGrid(RULES), [21_500, 21_500, 26_000, 45_000]) == [21_500, 24_000, 34_000, 44_000]


def test_a_first_arrival_on_the_grid_gets_one_tick() -> None:
    assert ticks(TickGrid(RULES), [24_000, 24_000, 34_000]) == [24_000, 34_000]


def test_the_clock_closes_the_window_of_the_farthest_tolerated_point() -> None:
    arrival_ms = 25_000
    farthest_window_end_s = 25 + RULES.future_s + RULES.window_s
    assert TickGrid(RULES).closing_ms(arrival_ms) == 1000 * (farthest_window_end_s + RULES.lateness_s + RULES.slack_s)


@given(st.lists(st.integers(0, 10**6), min_size=1).map(sorted), st.integers(1, 30))
def test_ticks_never_go_back_and_never_pass_the_record_they_precede(arrivals: list[int], spacing_s: int) -> None:
    grid = TickGrid(RULES, spacing_s)
    seen: list[int] = []
    for arrival in arrivals:
        seen += grid.due(arrival)
        assert seen[-1] <= arrival < (grid.next_ms or 0) <= arrival + 1000 * spacing_s
    assert seen == sorted(set(seen))
    assert len(seen) <= grid.count(arrivals[0], arrivals[-1])
