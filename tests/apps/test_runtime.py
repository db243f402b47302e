"""A checkpoint keeps the settings it was made with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from apps.runtime import SettingsRefusedError, verify_checkpoint
from pipelines.parameters import NoveltyParameters, StatisticsParameters, TimeRules


def test_same_result_settings_continue(tmp_path: Path) -> None:
    parameters = NoveltyParameters()
    verify_checkpoint(tmp_path, parameters)
    verify_checkpoint(tmp_path, replace(parameters, batch_records=1))


def test_changed_result_settings_are_refused_with_the_way_out(tmp_path: Path) -> None:
    verify_checkpoint(tmp_path, StatisticsParameters())
    with pytest.raises(SettingsRefusedError) as refusal:
        verify_checkpoint(tmp_path, StatisticsParameters(time=TimeRules(window_s=5)))
    assert "time" in str(refusal.value)
    assert "new generation" in str(refusal.value)
