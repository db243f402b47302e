from __future__ import annotations

import json
from pathlib import Path

import pytest

from apps.settings import STACK_FILE, load_running_settings, load_settings


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kappa.toml").write_text("[time]\nlateness_s = 7\nwindow_s = 33\n")
    return tmp_path


def remember(folder: Path, **environment: str) -> None:
    (folder / ".kappa").mkdir()
    (folder / ".kappa" / STACK_FILE).write_text(json.dumps({"environment": environment}))


def test_without_a_stack_file_the_settings_are_those_of_the_installation(folder: Path) -> None:
    assert load_running_settings().model_dump() == load_settings().model_dump()


def test_the_running_stack_holds_over_the_file_and_below_the_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(folder, KAPPA_TIME__ARRIVAL="history", KAPPA_TIME__WINDOW_S="5", KAPPA_TIME__SLACK_S="4")
    monkeypatch.setenv("KAPPA_TIME__SLACK_S", "9")
    time = load_running_settings().time
    assert (time.arrival, time.window_s, time.lateness_s, time.slack_s) == ("history", 5, 7, 9)


def test_an_unreadable_stack_file_names_the_way_out(folder: Path) -> None:
    (folder / ".kappa").mkdir()
    (folder / ".kappa" / STACK_FILE).write_text("{")
    with pytest.raises(ValueError, match="kappa down"):
        load_running_settings()
