"""Who is silent is judged against how often each one reports, in event time."""

from __future__ import annotations

import numpy as np
import pytest

from models.reporting import ReportingState, judge_then_learn, silent_since

MINUTE_MS = 60_000


def _follow(reported: np.ndarray, limit: float = 3.0) -> tuple[np.ndarray, ReportingState]:
    state = ReportingState()
    rows = [judge_then_learn(state, (i + 1) * MINUTE_MS, row, limit) for i, row in enumerate(reported)]
    return np.isfinite(np.array(rows)), state


def test_silence_is_measured_in_own_intervals() -> None:
    windows = np.arange(100)
    every, fifth = windows < 60, (windows % 5 == 0) & (windows < 60)
    silent, state = _follow(np.stack([every, fifth], axis=1))
    assert not silent[:60].any()
    assert np.flatnonzero(silent[:, 0])[0] == 59 + 4
    assert np.flatnonzero(silent[:, 1])[0] == 55 + 16
    assert silent_since(state).tolist() == [60 * MINUTE_MS, 56 * MINUTE_MS]


def test_longer_silence_is_less_probable() -> None:
    state = ReportingState()
    for i in range(20):
        judge_then_learn(state, i * MINUTE_MS, np.array([True]), 3.0)
    p = [judge_then_learn(state, i * MINUTE_MS, np.array([False]), 3.0)[0] for i in range(20, 40)]
    heard = [value for value in p if np.isfinite(value)]
    assert heard == sorted(heard, reverse=True)
    assert heard[0] <= -4


def test_an_outage_does_not_teach_that_a_resource_reports_rarely() -> None:
    windows = np.arange(200)
    silent, _ = _follow(((windows < 100) | ((windows >= 150) & (windows < 160)))[:, None])
    assert silent[104:150].all()
    assert not silent[150:160].any()
    assert silent[164:].all()


def test_who_reported_too_rarely_is_not_missed() -> None:
    silent, _ = _follow((np.arange(50) < 2)[:, None])
    assert not silent.any()


def test_newcomers_join_and_state_survives_as_bytes() -> None:
    state = ReportingState()
    judge_then_learn(state, MINUTE_MS, np.array([True]), 3.0)
    judge_then_learn(state, 2 * MINUTE_MS, np.array([True, True, False]), 3.0)
    assert len(state) == 3
    assert ReportingState.from_bytes(state.to_bytes()).to_bytes() == state.to_bytes()
    assert len(state.keep(np.array([True, False, True]))) == 2
    with pytest.raises(ValueError, match="layout"):
        ReportingState.from_bytes(b"\x09" + state.to_bytes()[1:])
