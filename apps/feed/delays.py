"""Delay models: how long after its event time a point arrives. Seeded; how a file is cut in chunks changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

Shape = Literal["constant", "uniform", "exponential"]

_FORMS: Final = "constant:SECONDS (or just SECONDS), uniform:FROM:TO, exponential:MEAN; all in seconds, none negative"


@dataclass(frozen=True)
class DelayModel:
    """Delay in seconds: `low` always, or uniform in [low, high], or exponential with mean `high`."""

    shape: Shape = "constant"
    low_s: float = 0.0
    high_s: float = 0.0

    @property
    def smallest_ms(self) -> int:
        """Smallest delay that can be drawn."""
        return round(self.low_s * 1000)

    def draw_ms(self, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """Return the next `count` delays in milliseconds."""
        if self.shape == "constant":
            return np.full(count, self.smallest_ms, dtype=np.int64)
        # One uniform number per point, so that chunk sizes do not change what a point gets.
        share = generator.random(count)
        if self.shape == "uniform":
            delay_s = self.low_s + share * (self.high_s - self.low_s)
        else:
            delay_s = -self.high_s * np.log1p(-share)
        return np.rint(delay_s * 1000).astype(np.int64)


def parse_delay(text: str) -> DelayModel:
    """Return the model a text names, for example `2`, `uniform:0:5`, `exponential:1.5`.

    Raises:
        ValueError: The text names none; the message lists the forms.
    """
    shape, *numbers = text.split(":") if ":" in text else ("constant", text)
    try:
        model = _model(shape, [float(number) for number in numbers])
    except ValueError as unreadable:
        message = f"delay {text!r} is not one of {_FORMS}"
        raise ValueError(message) from unreadable
    return model


def _model(shape: str, numbers: list[float]) -> DelayModel:
    match shape, numbers:
        case "constant", [value] if 0 <= value < np.inf:
            return DelayModel("constant", value, value)
        case "uniform", [low, high] if 0 <= low <= high < np.inf:
            return DelayModel("uniform", low, high)
        case "exponential", [mean] if 0 <= mean < np.inf:
            return DelayModel("exponential", 0.0, mean)
    raise ValueError(shape)
