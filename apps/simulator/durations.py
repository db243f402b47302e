"""Durations as people write them: 2d, 12h, 90m, 45s, 0."""

from __future__ import annotations

import re
from typing import Final

_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_FORM: Final = re.compile(r"(\d+(?:\.\d+)?)([smhd])")


def parse_duration_ms(text: str) -> int:
    """Return the milliseconds that a text names.

    Raises:
        ValueError: The text names no duration.
    """
    if text.strip() == "0":
        return 0
    found = _FORM.fullmatch(text.strip())
    if found is None:
        message = f"{text!r} is no duration: write a number and a unit, for example 2d, 12h, 90m, 45s, or 0"
        raise ValueError(message)
    return round(float(found[1]) * _UNITS_MS[found[2]])
