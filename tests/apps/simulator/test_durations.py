from __future__ import annotations

import pytest

from apps.simulator.durations import parse_duration_ms


@pytest.mark.parametrize(
    ("text", "expected_ms"), [("0", 0), ("45s", 45_000), ("1.5h", 5_400_000), ("90m", 5_400_000), ("2d", 172_800_000)]
)
def test_durations_are_read(text: str, expected_ms: int) -> None:
    assert parse_duration_ms(text) == expected_ms


@pytest.mark.parametrize("text", ["", "2", "-1h", "2 days", "forever"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no duration"):
        parse_duration_ms(text)
