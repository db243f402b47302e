"""Precision as the stated wish: DecayLORD, a level for each window that spends more after a discovery.

Online control of the false discovery rate with memory (Rebjock, Kurt, Januschowski and Callot, *Online false discovery
rate control for anomaly detection in time series*, NeurIPS 2021). Test number t is done at the level

    alpha_t = alpha eta max(g_t, 1 - d) + alpha sum_j d^(t - tau_j) g_(t - tau_j)

with tau_j the number of the j-th discovery and g a series that adds up to 1 (that of LORD++). It controls
E[V_d / (R_d + eta)], false over all discoveries, both forgotten at the rate d per test; 1 - d bounds alpha_t from
below, so that a long quiet time does not end all power. d = 1 - 1 / (tests within the memory): a fixed d of .99 would
give every test of a large fleet a level of at least alpha / 100.

Here the tests of one window share one level, the mean of those they would have in a row without a discovery among
them: which resource comes first makes no difference, as much is spent, and discoveries of one window, which depend on
each other, do not raise each other's level.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np

#: eta: discoveries that are taken for granted, so that the first one may be false.
ETA: Final = 1.0
#: Windows of the fleet after which a discovery counts by 1/e.
MEMORY_WINDOWS: Final = 100
#: Discoveries remembered; older ones have lost their weight long before, or the fleet burns.
KEPT_DISCOVERIES: Final = 400

_SCALE: Final = 0.0772
_TABLE: Final = 4096


def spending(test: int) -> float:
    """Return g of a test or of a lag, counted from 1: .0772 ln(max(j, 2)) / (j exp(sqrt(ln j)))."""
    return _SCALE * math.log(max(test, 2)) / (test * math.exp(math.sqrt(math.log(test))))


_SPENT: Final = np.concatenate([[0.0], np.cumsum([spending(test) for test in range(1, _TABLE + 1)])])


def spent(tests: int) -> float:
    """Return the sum of g over the first so many tests; beyond a table by its integral (error below 1e-9)."""
    if tests <= _TABLE:
        return float(_SPENT[tests])
    return float(_SPENT[_TABLE]) + _integral(tests + 0.5) - _integral(_TABLE + 0.5)


def _integral(test: float) -> float:
    root = math.sqrt(math.log(test))
    return -2 * _SCALE * math.exp(-root) * (root**3 + 3 * root**2 + 6 * root + 6)


@dataclass
class Discoveries:
    """Everything that is remembered.

    Attributes:
        tests: Tests done so far.
        found: Number of the last test of the window of each discovery, the latest ones, ascending.
    """

    tests: int = 0
    found: list[int] = field(default_factory=list)

    def level(self, tests: int, precision: float) -> float:
        """Return the level of each test of the next window.

        Args:
            tests: Tests in the window; at least one is assumed.
            precision: Wanted share of true ones among the discoveries, in (0, 1).
        """
        size = max(tests, 1)
        forget = 1.0 / (MEMORY_WINDOWS * size)
        alpha = 1.0 - precision
        base = ETA * max(self._mean(self.tests, size), forget)
        rewards = (self._reward(self.tests - number, size, forget) for number in self.found)
        return min(alpha * (base + math.fsum(rewards)), alpha)

    def learn(self, tests: int, discoveries: int) -> None:
        """Take in a window: so many tests were done, so many of them were discoveries."""
        self.tests += max(tests, 1)
        self.found = [*self.found, *[self.tests] * discoveries][-KEPT_DISCOVERIES:]

    def _reward(self, lag: int, size: int, forget: float) -> float:
        return math.exp((lag + (size + 1) / 2) * math.log1p(-forget)) * self._mean(lag, size)

    @staticmethod
    def _mean(before: int, size: int) -> float:
        return (spent(before + size) - spent(before)) / size
