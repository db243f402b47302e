"""The NAB score: by hand, at its ends, and under changes that must not matter."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.evaluate.datasets import load_nab
from apps.evaluate.nab import (
    PROFILES,
    Profile,
    by_category,
    leave_one_category_out,
    normalised,
    refitted,
    score_at,
    sweep,
)
from apps.evaluate.nab_rows import all_files, corpus, probation
from apps.evaluate.recordings import NabFile
from models.interface import Floats
from tests.apps.evaluate.corpora import DATA, nab_file, needs_data

STANDARD = PROFILES[0]


def scores_of(files: list[NabFile], fired: dict[int, dict[int, float]]) -> list[Floats]:
    scores = [np.zeros(len(file.recording.end_ms)) for file in files]
    for file, rows in fired.items():
        for row, score in rows.items():
            scores[file][row] = score
    return scores


def rescored(files: list[NabFile], fired: dict[int, dict[int, float]], threshold: float = 1.0) -> float:
    rows = corpus(files)
    return score_at(all_files(rows), rows.line_up(scores_of(files, fired)), threshold, STANDARD).score


def sigmoid(x: float) -> float:
    return float(2 / (1 + np.exp(5 * x)) - 1)


@pytest.mark.parametrize("profile", PROFILES)
def test_null_detector_scores_zero(profile: Profile) -> None:
    files = [nab_file(100, (40, 49), (70, 79)), nab_file(50)]
    rows = corpus(files)
    fit = refitted(all_files(rows), rows.line_up([np.full(100, np.nan), np.full(50, np.nan)]), profile)
    assert (fit.threshold, fit.score, fit.hits) == (np.inf, 0.0, 0)


@pytest.mark.parametrize("profile", PROFILES)
def test_perfect_detector_scores_hundred(profile: Profile) -> None:
    files = [nab_file(100, (40, 49), (70, 79)), nab_file(50)]
    rows = corpus(files)
    fit = refitted(all_files(rows), rows.line_up(scores_of(files, {0: {40: 1.0, 70: 1.0}})), profile)
    assert fit.score == pytest.approx(100.0, abs=1e-12)
    assert (fit.hits, fit.false) == (2, 0)


def test_a_late_detection_is_worth_less() -> None:
    # The last row of a span of 10: x = -1/10.
    late = rescored([nab_file(100, (40, 49))], {0: {49: 1.0}})
    assert late == pytest.approx(100 * (sigmoid(-0.1) / sigmoid(-1.0) + 1) / 2)


def test_only_the_best_detection_of_a_span_counts() -> None:
    file = nab_file(100, (40, 49))
    assert rescored([file], {0: {43: 1.0, 44: 1.0, 48: 2.0}}) == rescored([file], {0: {43: 1.0}})


@pytest.mark.parametrize(
    ("row", "cost"),
    [
        (30, 0.11),  # before any span
        (50, -0.11 * sigmoid(1 / 9)),  # the row after the span
        (58, -0.11 * sigmoid(1.0)),
        (76, -0.11 * sigmoid(3.0)),  # exactly three widths behind
        (77, 0.11),
    ],
)
def test_a_false_row_costs_by_its_distance_behind_the_span(row: int, cost: float) -> None:
    found = rescored([nab_file(100, (40, 49))], {0: {40: 1.0}})
    assert found - rescored([nab_file(100, (40, 49))], {0: {40: 1.0, row: 1.0}}) == pytest.approx(50 * cost)


def test_the_span_before_decides_even_next_to_the_following_one() -> None:
    files = [nab_file(200, (40, 49), (180, 189))]
    with_false = {0: {40: 1.0, 180: 1.0, 179: 1.0}}
    assert 100 - rescored(files, with_false) == pytest.approx(25 * 0.11)


def test_every_false_row_counts() -> None:
    files = [nab_file(100, (90, 99))]
    costs = [100 - rescored(files, {0: {90: 1.0, **dict.fromkeys(range(20, 20 + n), 1.0)}}) for n in (1, 2, 7)]
    assert costs == pytest.approx([5.5, 11.0, 38.5])


def test_rows_in_probation_do_not_count() -> None:
    assert (probation(100), probation(4999), probation(20_000)) == (15, 749, 750)
    files = [nab_file(100, (40, 49))]
    assert rescored(files, {0: {14: 1.0, 40: 1.0}}) == pytest.approx(100.0)
    assert rescored(files, {0: {15: 1.0, 40: 1.0}}) < 100.0


def test_a_span_in_probation_is_missed_and_still_counts() -> None:
    assert rescored([nab_file(100, (5, 9), (40, 49))], {0: {5: 1.0, 40: 1.0}}) == pytest.approx(50.0)


def test_rows_of_one_window_share_its_score() -> None:
    # Rows 40 and 41 carry the same timestamp: one window.
    window_of_row = np.append(np.arange(41), np.arange(40, 99))
    plain = nab_file(100, (60, 69))
    file = NabFile(nab_file(99).recording, "a", window_of_row, plain.anomalies)
    assert 100 - rescored([file], {0: {59: 1.0, 40: 1.0}}) == pytest.approx(2 * 5.5)


def test_threshold_that_maximises_is_found_among_all_scores() -> None:
    rng = np.random.default_rng(7)
    files = [nab_file(300, (100, 119), (200, 219), category=name) for name in "abc"]
    rows = corpus(files)
    scores = rows.line_up([rng.integers(0, 40, 300).astype(float) for _ in files])
    part = all_files(rows)
    for profile in PROFILES:
        best = max(score_at(part, scores, threshold, profile).score for threshold in [*range(41), np.inf])
        assert refitted(part, scores, profile).score == pytest.approx(best, abs=1e-12)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=60, max_size=60), st.integers(10, 50), st.integers(1, 8))
def test_the_sweep_agrees_with_every_single_threshold(values: list[int], first: int, width: int) -> None:
    rows = corpus([nab_file(60, (first, min(first + width, 59)))])
    scores = rows.line_up([np.array(values, float)])
    part = all_files(rows)
    for profile in PROFILES:
        thresholds, raws = sweep(part, scores, profile)
        singly = [score_at(part, scores, threshold, profile).score for threshold in thresholds.tolist()]
        assert [normalised(raw, 1, profile) for raw in raws.tolist()] == pytest.approx(singly, abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_only_the_order_of_scores_matters(seed: int) -> None:
    rng = np.random.default_rng(seed)
    files = [nab_file(120, (50, 61), category="a"), nab_file(80, (30, 41), category="b")]
    rows = corpus(files)
    scores = [rng.normal(size=120), rng.normal(size=80)]
    part = all_files(rows)
    plain = refitted(part, rows.line_up(scores), STANDARD)
    warped = refitted(part, rows.line_up([np.exp(2 * score) for score in scores]), STANDARD)
    assert (plain.score, plain.hits, plain.false) == (warped.score, warped.hits, warped.false)


def test_order_of_files_does_not_matter() -> None:
    rng = np.random.default_rng(3)
    files = [nab_file(120, (50, 61), category="a"), nab_file(80, (30, 41), category="b"), nab_file(60, category="a")]
    scores = [rng.normal(size=len(file.recording.end_ms)) for file in files]
    there, back = corpus(files), corpus(files[::-1])
    expected = refitted(all_files(there), there.line_up(scores), STANDARD).score
    assert refitted(all_files(back), back.line_up(scores[::-1]), STANDARD).score == pytest.approx(expected, abs=1e-9)


def test_categories_are_judged_at_the_threshold_of_the_others() -> None:
    # In category b everything is ten times larger: a threshold for a fires all over b.
    a, b = nab_file(100, (40, 49), category="a"), nab_file(100, (40, 49), category="b")
    rows = corpus([a, b])
    quiet = scores_of([a, b], {0: {40: 5.0}, 1: {40: 50.0}})
    scores = rows.line_up([quiet[0], np.maximum(quiet[1], 10.0)])
    assert by_category(rows, scores, 5.0, STANDARD)["a"].score == pytest.approx(100.0)
    held_out = leave_one_category_out(rows, scores, STANDARD)
    assert held_out.categories["a"].score == 0.0  # b's threshold is 50
    worst = held_out.categories["b"]  # a's threshold is 5: all rows of b fire
    assert worst.threshold == 5.0
    assert worst.false == 75
    assert held_out.mean == pytest.approx(worst.score / 2)
    assert held_out.pooled == pytest.approx(worst.score / 2)  # as many spans in both


@needs_data("nab")
def test_profiles_and_files_are_those_of_the_data() -> None:
    stored = json.loads((DATA / "nab" / "config" / "profiles.json").read_text())
    costs = [entry["CostMatrix"] for entry in stored.values()]
    assert [(cost["tpWeight"], cost["fnWeight"], cost["fpWeight"]) for cost in costs] == [
        (profile.true_positive, profile.false_negative, profile.false_positive) for profile in PROFILES
    ]


@needs_data("nab")
def test_perfect_detector_on_the_data_and_speed_of_a_sweep() -> None:
    files = load_nab(DATA / "nab")
    rows = corpus(files)
    scores = [np.zeros(len(file.recording.end_ms)) for file in files]
    for score, file in zip(scores, files, strict=True):
        score[[file.window_of_row[first] for first, _ in file.anomalies]] = 1.0
    begin = time.process_time()
    fit = refitted(all_files(rows), rows.line_up(scores), STANDARD)
    assert time.process_time() - begin < 1.0
    assert fit.score == pytest.approx(100.0, abs=1e-9)
    assert (fit.hits, fit.false) == (rows.spans, 0)
