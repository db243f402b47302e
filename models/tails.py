"""Upper tail of the negative binomial as a decimal logarithm, exact where doubles reach and asymptotic beyond.

Elementwise over arrays; for single values in compiled code see `models.surprise`.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy import special

from models.interface import LOG10_P_FLOOR, Floats

_LN10: Final = float(np.log(10.0))
LOG10_2: Final = float(np.log10(2.0))
#: Below this the exact function loses digits or underflows.
_SMALLEST_EXACT: Final = 1e-280


def negative_binomial_log_pmf(y: Floats, shape: Floats, mean: Floats) -> Floats:
    """Return ln P(Y = y) of the negative binomial; variance = mean + mean^2 / shape."""
    share = mean / (mean + shape)
    coefficient = -special.betaln(shape, y + 1) - np.log(shape + y)
    return np.asarray(coefficient + shape * np.log1p(-share) + special.xlogy(y, share))


def negative_binomial_upper(y: Floats, shape: Floats, mean: Floats) -> Floats:
    """Return log10 of the upper mid-p, P(Y > y) + P(y) / 2; arguments as in `negative_binomial_log_pmf`."""
    share = mean / (mean + shape)
    log_pmf = negative_binomial_log_pmf(y, shape, mean)
    tail = np.where(y > 0, special.betainc(np.maximum(y, 1e-12), shape, share), 1.0)
    upper = np.log10(np.maximum(tail - np.minimum(np.exp(np.minimum(log_pmf, 0.0)), tail) / 2, 1e-300))
    ratio = np.clip((shape + y) / (y + 1) * share, 0.0, 1 - 1e-12)
    deep = (log_pmf - np.log1p(-ratio)) / _LN10
    return np.clip(np.where(tail < _SMALLEST_EXACT, deep, upper), LOG10_P_FLOOR, 0.0)
