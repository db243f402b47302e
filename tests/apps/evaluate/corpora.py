"""Small data sets for the tests of the evaluation."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from apps.evaluate.recordings import NabFile, Recording

DATA: Final = Path(os.environ.get("KAPPA_DATA", "../shared/data"))


def needs_data(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        not (DATA / name).is_dir(), reason=f"no {DATA / name}: set KAPPA_DATA to the folder that holds {name}/"
    )


def recording(rows: int, series: int = 1, name: str = "r") -> Recording:
    end_ms = 60_000 * np.arange(1, rows + 1)
    return Recording(name, end_ms, np.zeros((rows, series)), tuple(f"m{place}" for place in range(series)))


def nab_file(rows: int, *anomalies: tuple[int, int], category: str = "a") -> NabFile:
    return NabFile(recording(rows), category, np.arange(rows), anomalies)
