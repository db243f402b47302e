"""VUS-PR: against the rule written out point by point, at its ends, and for a random score."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.evaluate.datasets import load_smd
from apps.evaluate.recordings import Flags
from apps.evaluate.vus import NO_PERIOD, period, segments, vus_pr
from models.interface import Floats
from tests.apps.evaluate.corpora import DATA, needs_data


def flags(text: str) -> Flags:
    return np.array([mark == "#" for mark in text])


def written_out(label: Flags, scores: Floats, longest: int) -> float:
    """The rule, one buffer, threshold and point at a time."""
    size, spans = len(label), [tuple(span) for span in segments(label).tolist()]
    ranked = sorted(scores.tolist(), reverse=True)
    thresholds = [ranked[int(rank)] for rank in np.linspace(0, size - 1, 250)]
    areas = []
    for width in range(longest + 1):
        half = width // 2
        weight = [1.0 if on else 0.0 for on in label]
        zone: list[int] = []  # number of the widened segment each point lies in; overlapping ones are one
        for row in range(size):
            if not label[row]:
                near = [row - last for _, last in spans if 0 < row - last <= half]
                near += [first - row for first, _ in spans if 0 < first - row <= half]
                weight[row] = min(1.0, sum((1 - distance / width) ** 0.5 for distance in near))
        groups: list[tuple[int, int]] = []
        for first, last in spans:
            if groups and groups[-1][1] >= first - half:
                groups[-1] = (groups[-1][0], last + half)
            else:
                groups.append((first - half, last + half))
        area, before = 0.0, 0.0
        for threshold in thresholds:
            zone = [row for row in range(size) if scores[row] >= threshold]
            positive = sum(weight[row] for row in zone)
            margin = sum(weight[row] for row in zone if not label[row])
            touched = sum(any(first <= row <= last for row in zone) for first, last in groups) / len(groups)
            recall = min(positive / ((2 * label.sum() + margin) / 2), 1.0) * touched
            area += (recall - before) * positive / len(zone)
            before = recall
        areas.append(area)
    return float(np.mean(areas))


def test_segments_reach_the_ends() -> None:
    assert segments(flags("##..#.##")).tolist() == [[0, 1], [4, 4], [6, 7]]
    assert segments(flags("...")).tolist() == []


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 7), st.booleans())
def test_equals_the_rule_written_out(seed: int, longest: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    label = rng.random(40) < 0.2
    label[rng.integers(40)] = True
    scores = rng.integers(0, 5, 40).astype(float) if ties else rng.normal(size=40)
    assert vus_pr(label, scores, longest) == pytest.approx(written_out(label, scores, longest), abs=1e-12)


def test_perfect_ranking_without_a_buffer_is_one() -> None:
    label = flags("." * 300 + "#" * 30 + "." * 300)
    assert vus_pr(label, label.astype(float), 0) == pytest.approx(1.0)


def test_constant_score_is_the_labelled_share() -> None:
    label = flags("." * 30 + "#" * 10 + "." * 60)
    assert vus_pr(label, np.zeros(100), 0) == pytest.approx(0.1)


def test_only_ranks_matter_and_nan_is_lowest() -> None:
    rng = np.random.default_rng(1)
    label = flags("." * 50 + "#" * 10 + "." * 40)
    scores = rng.normal(size=100)
    scores[:5] = -50.0
    missing = np.where(scores == -50.0, np.nan, scores)
    assert vus_pr(label, scores, 10) == vus_pr(label, np.exp(scores), 10) == vus_pr(label, missing, 10)


def test_reversed_in_time_is_the_same() -> None:
    rng = np.random.default_rng(2)
    label, scores = flags("#" * 5 + "." * 50 + "#" * 10 + "." * 35), rng.normal(size=100)
    assert vus_pr(label[::-1], scores[::-1], 12) == pytest.approx(vus_pr(label, scores, 12))


def test_needs_a_label() -> None:
    with pytest.raises(ValueError, match="labelled"):
        vus_pr(np.zeros(5, np.bool_), np.zeros(5), 3)


@pytest.mark.parametrize("lag", [12, 60, 288])
def test_period_of_a_sine(lag: int) -> None:
    assert period(np.sin(2 * np.pi * np.arange(20 * lag) / lag)) == lag


def test_no_period() -> None:
    assert period(np.full(500, 3.0)) == NO_PERIOD
    assert period(np.arange(500.0)) == NO_PERIOD


@needs_data("smd")
def test_random_score_on_the_machines() -> None:
    """Random scores, independently computed with TSB-AD's own function: .027, .078, .059, .045."""
    rng = np.random.default_rng(0)
    for machine, expected in zip(load_smd(DATA / "smd"), (0.027, 0.078, 0.059, 0.045), strict=True):
        longest = period(machine.recording.values[machine.train :, 0])
        assert vus_pr(machine.label, rng.random(len(machine.label)), longest) == pytest.approx(expected, abs=0.01)
