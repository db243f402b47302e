"""Delay-limited F1 by hand, and its fitted threshold against every other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.evaluate.delay_f1 import fit, outcome, pool

LABEL = np.array([row in range(10, 30) or row in range(40, 43) for row in range(60)])


def fired(*rows: int) -> np.ndarray:
    scores = np.zeros(60)
    scores[list(rows)] = 1.0
    return scores


@pytest.mark.parametrize(
    ("rows", "counted"),
    [
        ((17,), (20, 0, 3)),  # the eighth row: seven after the first
        ((18,), (0, 0, 23)),  # too late, and no false positive either
        ((10, 18, 41), (23, 0, 0)),
        ((9, 10, 30, 59), (20, 3, 3)),
        ((44,), (0, 1, 23)),  # within seven rows of a start, but the segment is over
    ],
)
def test_by_hand(rows: tuple[int, ...], counted: tuple[int, int, int]) -> None:
    found = outcome(pool([LABEL], [fired(*rows)]), 1.0)
    assert (found.true_positive, found.false_positive, found.false_negative) == counted


def test_f1() -> None:
    found = outcome(pool([LABEL], [fired(9, 10, 30, 59)]), 1.0)
    assert found.f1 == pytest.approx(2 * (20 / 23) * (20 / 23) / (40 / 23))


def test_null_and_perfect_detector() -> None:
    assert fit(pool([LABEL], [np.full(60, np.nan)])).f1 == 0.0
    assert fit(pool([LABEL], [LABEL.astype(float)])).f1 == 1.0


def test_rows_of_several_kpis_are_added_up() -> None:
    both = outcome(pool([LABEL, LABEL], [fired(10), fired(40, 50)]), 1.0)
    assert (both.true_positive, both.false_positive, both.false_negative) == (23, 1, 23)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=60, max_size=60))
def test_the_fit_is_the_best_threshold(values: list[int]) -> None:
    rows = pool([LABEL], [np.array(values, float)])
    assert fit(rows).f1 == pytest.approx(max(outcome(rows, threshold).f1 for threshold in range(11)))
