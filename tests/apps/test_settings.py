"""Settings come from file and environment, and contradictions are refused with the way out."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from apps.settings import load_settings


@pytest.fixture(autouse=True)
def _empty_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_environment_overrides_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kappa.toml").write_text("[time]\nwindow_s = 15\nlateness_s = 5\n")
    monkeypatch.setenv("KAPPA_TIME__WINDOW_S", "20")
    settings = load_settings()
    assert (settings.time.window_s, settings.time.lateness_s) == (20, 5)


def test_shared_settings_reach_every_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAPPA_TIME__WINDOW_S", "20")
    monkeypatch.setenv("KAPPA_NOVELTY__BUCKETS", "16")
    settings = load_settings()
    assert settings.statistics_parameters().time.window_s == 20
    assert (settings.incident_parameters().window_s, settings.incident_parameters().buckets) == (20, 16)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("KAPPA_INCIDENTS__BUCKETS", "3", r"set by \[novelty\] buckets"),
        ("KAPPA_NOVELTY__EXPIRY_S", "30", "expiry_s"),
        ("KAPPA_KAFKA__DERIVED_PARTITIONS", "99", "must not exceed"),
        ("KAPPA_GENERATION", "G 1", "pattern"),
        ("KAPPA_TIME__WINDOW_S", "-5", "window_s must be positive"),
        ("KAPPA_INCIDENTS__TARGET_PRECISION", "90", "target_precision must lie between 0 and 1"),
        ("KAPPA_INCIDENTS__FALSE_INCIDENTS_PER_DAY", "0", "false_incidents_per_day must be positive"),
    ],
)
def test_contradictions_are_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str, sentence: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ValidationError, match=sentence):
        load_settings()


def test_a_number_and_a_share_of_false_incidents_exclude_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kappa.toml").write_text("[incidents]\nfalse_incidents_per_day = 2.0\n")
    monkeypatch.setenv("KAPPA_INCIDENTS__TARGET_PRECISION", "0.9")
    with pytest.raises(ValidationError, match="Remove one of them"):
        load_settings()
    (tmp_path / "kappa.toml").write_text("")
    assert load_settings().incident_parameters().target_precision == 0.9


def test_unknown_names_in_the_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "kappa.toml").write_text("[kafka]\nbootstrap = 'x:1'\n")
    with pytest.raises(ValidationError, match=r"kafka\.bootstrap"):
        load_settings()


def test_secrets_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAPPA_ELASTICSEARCH__PASSWORD", "hunter2")
    assert "hunter2" not in repr(load_settings())
