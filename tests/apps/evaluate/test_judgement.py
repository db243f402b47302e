"""Scores under the rules of each data set: which rows count, and which threshold is whose."""

from __future__ import annotations

import numpy as np
import pytest

from apps.evaluate.judgement import judge_cisco, judge_kpi, judge_nab, judge_smd
from apps.evaluate.recordings import Event, Fleet, Kpi, Machine, Recording
from tests.apps.evaluate.corpora import nab_file, recording


def test_nab_profiles_and_level() -> None:
    files = [nab_file(100, (40, 49), category=name) for name in "ab"]
    scores = [np.where(np.arange(100) == 40, 3.0, 0.0) for _ in files]
    found = judge_nab(files, scores, 3.5)
    assert list(found) == ["standard", "low FP", "low FN"]
    assert [entry.refitted.score for entry in found.values()] == pytest.approx([100.0] * 3)
    assert [entry.honest.mean for entry in found.values()] == pytest.approx([100.0] * 3)
    assert [entry.at_level.score for entry in found.values()] == [0.0] * 3


def test_kpi_threshold_comes_from_the_train_halves() -> None:
    label = np.zeros(200, np.bool_)
    label[[50, 150]] = True
    scores = np.zeros(200)
    scores[50], scores[150], scores[160] = 5.0, 9.0, 6.0  # 5 is best for the train half, 9 would be for the test half
    found = judge_kpi([Kpi(recording(200), label, 100)], [scores], 7.0)
    assert (found.honest.threshold, found.honest.f1) == (5.0, pytest.approx(2 / 3))
    assert (found.oracle.threshold, found.oracle.f1) == (9.0, 1.0)
    assert (found.at_level.threshold, found.at_level.f1) == (7.0, 1.0)


def test_smd_train_part_is_not_scored() -> None:
    label = np.arange(300) >= 250
    machine = Machine(recording(500, name="machine-1"), label, 200)
    score = np.concatenate([np.full(200, 9.0), label])
    worst = np.concatenate([np.full(200, 9.0), ~label])
    assert judge_smd([machine], [score])["machine-1"] > 0.8
    assert judge_smd([machine], [worst])["machine-1"] < 0.2


def test_cisco_rules_at_one_threshold() -> None:
    end_ms = 5000 * np.arange(200)
    routers = tuple(Recording(name, end_ms, np.zeros((200, 1)), ("m",)) for name in "ab")
    fleet = Fleet(routers, (Event("a", 500, 600, 0),))
    score = np.where((end_ms == 510_000) | (end_ms == 515_000), 2.0, 0.0)
    found = judge_cisco(fleet, [score, score / 2], 1.0)
    assert found.spatial[2].delay_s == 10.0
    assert found.temporal[2].f1 == 1.0
    assert found.temporal[3].f1 == 0.0
    assert found.places == found.places_at_alarm == (1,)
    deaf = judge_cisco(fleet, [score, score / 2], 1.5)
    assert deaf.spatial[2].recall == 0.0
    assert deaf.places_at_alarm == (None,)
