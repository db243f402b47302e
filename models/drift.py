"""Persistent misfit: cumulative sums of clipped standardised residuals, so that no series is locked out of learning.

A level or a spread that has changed for good would be learned only over the memory of the model, and alarm all the
while. Three one-sided cumulative sums (Page, 1954) per series watch the residuals z, clipped to +-3:

    up <- max(0, up + z - 1/2)    down <- max(0, down - z - 1/2)    spread <- max(0, spread + |z| - 1.3)

One that passes its limit means that the past no longer describes the present: the model keeps what it knows at the
weight of five windows. A few outliers are not enough, whatever their size.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from models.interface import Floats

SUMS: Final = 3
#: What is left of a model's weight, in windows, once the past no longer describes the present.
WEIGHT_LEFT: Final = 5.0
_CLIP: Final = 3.0
_SLACK: Final = np.array([0.5, 0.5, 1.3])
_LIMIT: Final = np.array([15.0, 15.0, 12.0])


def watch(sums: Floats, z: Floats) -> NDArray[np.bool_]:
    """Add one window's residuals to the sums, in place; return where the past no longer holds (the sums restart).

    Args:
        sums: up, down and spread, shape (3, ...).
        z: Standardised residuals, shape (...).
    """
    shape = (SUMS,) + (1,) * z.ndim
    clipped = np.clip(z, -_CLIP, _CLIP)
    sums += np.stack([clipped, -clipped, np.abs(clipped)])
    sums -= _SLACK.reshape(shape)
    np.maximum(sums, 0.0, out=sums)
    changed = (sums > _LIMIT.reshape(shape)).any(axis=0)
    if changed.any():
        sums[:, changed] = 0.0
    return np.asarray(changed)
