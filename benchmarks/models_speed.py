"""Speed of the series models on one core, in CPU time: series-windows per second, in both shapes that occur.

    python -m benchmarks.models_speed

wide: live and large, one window of 10,000 series per call. narrow: catch-up of a small fleet, 2,880 windows of 60
series in one call.
"""

from __future__ import annotations

import platform
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.interface import Block, Likelihood
from models.series import SeriesState, score_then_learn

WINDOW_MS = 60_000
REPEATS = 3


def machine() -> str:
    """Describe the processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    return f"{model}, Python {platform.python_version()}, NumPy {np.__version__}"


def draw(kind: Likelihood, windows: int, series: int) -> NDArray[np.float64]:
    """Draw ordinary values, shape (windows, series)."""
    rng = np.random.default_rng(1)
    if kind == Likelihood.GAUGE:
        return rng.normal(100.0, 5.0, (windows, series))
    if kind == Likelihood.COUNT:
        return rng.poisson(10.0, (windows, series)).astype(np.float64)
    return rng.binomial(200, rng.beta(5, 45, (windows, series))).astype(np.float64)


def measure(kind: Likelihood, windows: int, series: int, per_call: int) -> float:
    """Return the best CPU time of several runs, in seconds, after a warm-up of 20 windows."""
    weight = 200.0 if kind == Likelihood.RATIO else 60.0
    rows, values = np.arange(series), draw(kind, windows + 20, series)
    blocks = [Block((i + 1) * WINDOW_MS, rows, row, np.full(series, weight)) for i, row in enumerate(values)]
    best = np.inf
    for _ in range(REPEATS):
        state = SeriesState()
        state.grow(np.full(series, kind), rows)
        score_then_learn(state, blocks[:20])
        begin = time.process_time()
        for first in range(20, len(blocks), per_call):
            score_then_learn(state, blocks[first : first + per_call])
        best = min(best, time.process_time() - begin)
    return float(best)


def main() -> None:
    """Print the table."""
    print(machine())
    for shape, windows, series, per_call in (("wide", 20, 10_000, 1), ("narrow", 2_880, 60, 2_880)):
        for kind in Likelihood:
            seconds = measure(kind, windows, series, per_call)
            rate, step_ms = windows * series / seconds, seconds / windows * 1e3
            print(f"{shape:6} {kind.name.lower():5} {rate:12,.0f} series-windows/s  {step_ms:8.3f} ms per window")


if __name__ == "__main__":
    main()
