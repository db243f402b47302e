"""Detection on the Cisco telemetry data, offline: series models, roll-up and calibration without Kafka and Spark.

    python -m benchmarks.cisco_offline            # needs the data in $KAPPA_DATA or ../shared/data

Eleven routers, eleven labelled events (BGP sessions cleared). Every column is fed as a gauge in 5 s windows, exactly
as the novelty job would. Scoring follows the data set's authors: an event is found when its router alarms between
Start and End; in the quiet span after it, an alarm is false, at most one per 300 s.
"""

from __future__ import annotations

import csv
import gzip
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.interface import Block, Floats, Likelihood
from models.series import SeriesState, score_then_learn

WINDOW_MS = 5_000
MEMORY_S = 86_400.0
FALSE_SPAN_S = 300.0


@dataclass(frozen=True)
class Router:
    """Telemetry of one router: window ends in ms, shape (w,); window means, shape (w, columns), NaN where missing."""

    name: str
    columns: list[str]
    ends_ms: NDArray[np.int64]
    values: Floats


@dataclass(frozen=True)
class Event:
    """A labelled event on one router, epoch seconds."""

    node: str
    start_s: float
    end_s: float


def data_folder() -> Path:
    """Return the folder of the data set; leave with a message if it is not there."""
    folder = Path(os.environ.get("KAPPA_DATA", "../shared/data")) / "cisco_telemetry"
    if not folder.is_dir():
        sys.exit(f"no Cisco telemetry in {folder}: set KAPPA_DATA to the folder that holds cisco_telemetry/")
    return folder


def read_router(path: Path) -> Router:
    """Read one wide file and average its rows per window."""
    with gzip.open(path, "rt", newline="") as lines:
        header, *rows = list(csv.reader(lines))
    table = np.array([[float(cell) if cell else np.nan for cell in row] for row in rows])
    time_ms = (table[:, header.index("time")] * 1000).astype(np.int64)
    kept = [place for place, name in enumerate(header) if name not in ("", "time")]
    ends, window = np.unique(time_ms // WINDOW_MS, return_inverse=True)
    present = np.isfinite(table[:, kept])
    sums, counts = np.zeros((len(ends), len(kept))), np.zeros((len(ends), len(kept)))
    np.add.at(sums, window, np.where(present, table[:, kept], 0.0))
    np.add.at(counts, window, present)
    with np.errstate(invalid="ignore"):
        means = sums / counts
    name = path.name.removesuffix(".csv.gz")
    return Router(name, [header[place] for place in kept], (ends + 1) * WINDOW_MS, means)


def read_events(folder: Path) -> list[Event]:
    """Read the ground truth."""
    with (folder / "ground_truth" / "bgpclear_first.txt").open() as lines:
        return [Event(row["Node"], float(row["Start"]), float(row["End"])) for row in csv.DictReader(lines)]


def series_log10_p(router: Router) -> Floats:
    """Return log10 p of every series and window, 0 where a value is missing, shape (w, columns)."""
    state = SeriesState()
    size = len(router.columns)
    state.grow(np.full(size, Likelihood.GAUGE), np.arange(size))
    blocks = []
    for end_ms, values in zip(router.ends_ms.tolist(), router.values, strict=True):
        rows = np.flatnonzero(np.isfinite(values))
        blocks.append(Block(end_ms, rows, values[rows], np.ones(len(rows))))
    log10_p = np.zeros(router.values.shape)
    for place, (block, verdict) in enumerate(zip(blocks, score_then_learn(state, blocks, MEMORY_S), strict=True)):
        log10_p[place, block.rows] = verdict.log10_p
    return log10_p
