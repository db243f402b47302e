"""Result settings are told from operation settings, and a change of results changes the fingerprint."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipelines.parameters import (
    IncidentParameters,
    IndexerParameters,
    NoveltyParameters,
    StatisticsParameters,
    TimeRules,
    result_settings,
    settings_fingerprint,
)


def test_operation_settings_are_left_out() -> None:
    assert "batch_points" not in result_settings(StatisticsParameters())
    assert "refresh_interval" not in result_settings(IndexerParameters())
    assert "expiry_s" in result_settings(NoveltyParameters())


def test_fingerprint_ignores_how_the_work_is_done() -> None:
    before = NoveltyParameters()
    assert settings_fingerprint(before) == settings_fingerprint(replace(before, batch_records=7))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (StatisticsParameters(), StatisticsParameters(time=TimeRules(lateness_s=31))),
        (NoveltyParameters(), NoveltyParameters(buckets=9)),
        (IncidentParameters(), IncidentParameters(false_incidents_per_day=2.0)),
    ],
)
def test_fingerprint_changes_with_results(before: object, after: object) -> None:
    assert settings_fingerprint(before) != settings_fingerprint(after)


def test_watermark_runs_lateness_and_slack_behind_arrival() -> None:
    rules = TimeRules(lateness_s=30, future_s=10, slack_s=2)
    newest_tick_s = 1_000 + rules.future_s
    assert newest_tick_s - rules.watermark_delay_s == 1_000 - 30 - 2


@pytest.mark.parametrize("mistake", [{"window_s": 0}, {"lateness_s": -1}, {"future_s": -1}, {"slack_s": -1}])
def test_impossible_times_are_refused(mistake: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must"):
        TimeRules(**mistake)
