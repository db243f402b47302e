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
from models.rollup import TailState, broaden, calibrate, combine, surprising
from models.series import SeriesState, score_then_learn

WINDOW_MS = 5_000
FALSE_SPAN_S = 300.0
WARMUP_WINDOWS = 20


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
    for place, (block, verdict) in enumerate(zip(blocks, score_then_learn(state, blocks), strict=True)):
        log10_p[place, block.rows] = verdict.log10_p
    return log10_p


def resource_log10_p(routers: list[Router], calibrated: bool) -> dict[str, Floats]:
    """Return log10 p of every router and window; breadth and calibration are pooled over the routers given."""
    state = TailState()
    found = {router.name: np.zeros(len(router.ends_ms)) for router in routers}
    evidence = [_evidence(router) for router in routers]
    for window in range(max(len(combined) for combined, _, _ in evidence)):
        there = [place for place, (combined, _, _) in enumerate(evidence) if window < len(combined)]
        columns = (np.array([evidence[place][part][window] for place in there]) for part in range(3))
        log10_p = broaden(state, *columns)
        if calibrated:
            log10_p = calibrate(state, log10_p)
        for place, value in zip(there, log10_p.tolist(), strict=True):
            found[routers[place].name][window] = value
    return found


def _evidence(router: Router) -> tuple[Floats, NDArray[np.intp], NDArray[np.intp]]:
    log10_p = series_log10_p(router)
    last = np.cumsum(np.full(len(log10_p), log10_p.shape[1]))
    first = last - log10_p.shape[1]
    combined, _ = combine(log10_p.ravel(), first, last)
    return combined, surprising(log10_p.ravel(), first, last), last - first


@dataclass
class Outcome:
    """Events found, their delays, and false alarms: in a quiet span, and on routers beside the labelled one."""

    delays_s: list[float]
    quiet: int = 0
    beside: int = 0

    def add(self, router: Router, alarms_s: Floats, events: list[Event]) -> None:
        """Count one router's alarms."""
        own = [event for event in events if event.node == router.name]
        for event in own:
            hits = alarms_s[(alarms_s >= event.start_s) & (alarms_s <= event.end_s + WINDOW_MS / 1000)]
            self.delays_s += [float(hits[0]) - event.start_s] if len(hits) else []
        last_s = -np.inf
        for alarm_s in alarms_s.tolist():
            if not _during(alarm_s, own) and alarm_s - last_s >= FALSE_SPAN_S:
                last_s = alarm_s
                self.beside += _during(alarm_s, events)
                self.quiet += not _during(alarm_s, events)


def _during(alarm_s: float, events: list[Event]) -> bool:
    return any(event.start_s <= alarm_s <= event.end_s + WINDOW_MS / 1000 for event in events)


def score(routers: list[Router], events: list[Event], log10_p: dict[str, Floats], level: float) -> Outcome:
    """Score alarms at log10 p <= level after the warm-up."""
    outcome = Outcome([])
    for router in routers:
        alarm = log10_p[router.name] <= level
        alarm[:WARMUP_WINDOWS] = False
        outcome.add(router, router.ends_ms[alarm] / 1000, events)
    return outcome


def main() -> None:
    """Print events found and false alarms by level."""
    folder = data_folder()
    events = read_events(folder)
    routers = [read_router(path) for path in sorted((folder / "by_node" / "bgpclear_first").glob("*.csv.gz"))]
    for calibrated in (False, True):
        print("with tail calibration" if calibrated else "without tail calibration")
        log10_p = resource_log10_p(routers, calibrated)
        for level in (-2.0, -3.0, -3.5, -4.0, -5.0, -5.5, -6.0, -8.0, -10.0):
            outcome = score(routers, events, log10_p, level)
            delays = np.array(outcome.delays_s or [np.nan])
            print(
                f"  log10 p <= {level:5.1f}: {len(outcome.delays_s):2d} of {len(events)} events, delay median "
                f"{np.median(delays):4.1f} s, longest {delays.max():4.1f} s; alarms in quiet spans {outcome.quiet}, "
                f"on other routers during an event {outcome.beside}"
            )


if __name__ == "__main__":
    main()
