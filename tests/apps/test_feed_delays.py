from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.feed.delays import DelayModel, parse_delay


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("2", DelayModel("constant", 2, 2)),
        ("constant:0.5", DelayModel("constant", 0.5, 0.5)),
        ("uniform:1:5", DelayModel("uniform", 1, 5)),
        ("exponential:1.5", DelayModel("exponential", 0, 1.5)),
    ],
)
def test_forms(text: str, model: DelayModel) -> None:
    assert parse_delay(text) == model


@pytest.mark.parametrize("text", ["-1", "soon", "uniform:5:1", "uniform:1", "exponential:nan", "normal:0:1", ""])
def test_other_texts_are_refused_with_the_forms(text: str) -> None:
    with pytest.raises(ValueError, match="exponential:MEAN"):
        parse_delay(text)


@given(
    text=st.sampled_from(["2", "uniform:0.5:5", "exponential:1.5"]),
    cuts=st.lists(st.integers(0, 50), max_size=6),
    seed=st.integers(0, 2**32),
)
def test_chunks_do_not_change_what_a_point_gets(text: str, cuts: list[int], seed: int) -> None:
    model = parse_delay(text)
    generator = np.random.default_rng(seed)
    in_chunks = [delay for count in cuts for delay in model.draw_ms(count, generator).tolist()]
    at_once = model.draw_ms(sum(cuts), np.random.default_rng(seed)).tolist()
    assert in_chunks == at_once
    assert all(delay >= model.smallest_ms for delay in at_once)


def test_shapes_have_the_stated_mean_and_bounds() -> None:
    generator = np.random.default_rng(7)
    exponential = parse_delay("exponential:1.5").draw_ms(100_000, generator)
    uniform = parse_delay("uniform:1:5").draw_ms(100_000, generator)
    assert exponential.mean() == pytest.approx(1500, rel=0.02)
    assert (uniform.min(), uniform.max()) == (1000, 5000)
    assert uniform.mean() == pytest.approx(3000, rel=0.01)
