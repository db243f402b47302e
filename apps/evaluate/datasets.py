"""Readers of the labelled data sets: how each source is brought to rising windows.

- **Times.** A NAB or KPI row is stamped with the start of its interval, so its window ends one usual interval (the most
  frequent step) later. SMD has no times: row i ends at minute i + 1. A Cisco row is a reading of that instant.
- **Repeated and backward timestamps** (NAB): rows are put in order of time; rows with one timestamp are one window with
  their mean, as the statistics job would make of them. `NabFile.window_of_row` leads from the file's rows, which the
  NAB rule counts, to windows.
- **Gaps** stay gaps: no row is invented, the next window simply ends later.
- **Missing values** are NaN.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from numpy.typing import NDArray

from apps.evaluate.recordings import DataError, Event, Fleet, Integers, Kpi, Machine, NabFile, Recording
from models.interface import Floats

SMD_MACHINES: Final = ("1-2", "2-1", "2-7", "3-4")
_MINUTE_MS: Final = 60_000
_CISCO_TIMES: Final = ("", "time")


# ---- NAB -------------------------------------------------------------------------------------------------------------


def load_nab(folder: Path) -> list[NabFile]:
    """Read all files of the folder that have an entry in the labels, in order of category and name.

    Raises:
        DataError: No labels, or no file.
    """
    labels = _existing(folder / "labels" / "combined_windows.json")
    windows = json.loads(labels.read_text())
    paths = sorted((folder / "data").glob("*/*.csv*"))
    files = [_nab_file(path, windows[name]) for path in paths if (name := _nab_name(path)) in windows]
    if not files:
        message = f"no labelled CSV file in {folder / 'data'}/<category>/"
        raise DataError(message)
    return files


def _nab_name(path: Path) -> str:
    return f"{path.parent.name}/{path.name.removesuffix('.gz')}"


def _nab_file(path: Path, spans: Sequence[tuple[str, str]]) -> NabFile:
    table = pd.read_csv(path)
    time_ms = _milliseconds(table["timestamp"])
    value = table["value"].to_numpy(np.float64)
    starts, window_of_row = np.unique(time_ms, return_inverse=True)
    recording = Recording(
        _nab_name(path).removesuffix(".csv"), starts + usual_step(starts), _means(value, window_of_row), ("value",)
    )
    ends = [_milliseconds(pd.Series(list(span))) for span in spans]
    anomalies = tuple((_row_at(time_ms, first), _row_at(time_ms, last)) for first, last in ends)
    return NabFile(recording, _category(path.parent.name), window_of_row, anomalies)


def _category(folder: str) -> str:
    return "artificial" if folder.startswith("artificial") else folder


def _milliseconds(times: pd.Series) -> Integers:
    return np.asarray(pd.to_datetime(times).to_numpy("datetime64[ms]").astype(np.int64))


def _row_at(time_ms: Integers, wanted: int) -> int:
    """Return the first row with that timestamp."""
    return int(np.flatnonzero(time_ms == wanted)[0])


def usual_step(times: Integers) -> int:
    """Return the most frequent difference of rising times, the smallest if several are."""
    steps, counts = np.unique(np.diff(times), return_counts=True)
    return int(steps[np.argmax(counts)])


def _means(value: Floats, window: NDArray[np.intp]) -> Floats:
    """Return the mean of the finite values of each window, NaN without one, shape (windows, 1)."""
    finite = np.isfinite(value)
    counts = np.bincount(window, finite)
    sums = np.bincount(window, np.where(finite, value, 0.0))
    return np.asarray(np.where(counts > 0, sums / np.maximum(counts, 1), np.nan))[:, None]


# ---- KPI -------------------------------------------------------------------------------------------------------------


def load_kpi(folder: Path) -> list[Kpi]:
    """Read all KPIs of the folder, in order of their names.

    Raises:
        DataError: No Parquet file there.
    """
    paths = sorted(folder.glob("*.parquet"))
    if not paths:
        message = f"no KPI (<id>.parquet) in {folder}"
        raise DataError(message)
    return [_kpi(path) for path in paths]


def _kpi(path: Path) -> Kpi:
    table = pq.read_table(path).to_pandas().sort_values("timestamp", kind="stable")
    table = table.drop_duplicates("timestamp")
    start_s = table["timestamp"].to_numpy(np.int64)
    recording = Recording(
        path.stem, 1000 * (start_s + usual_step(start_s)), table["value"].to_numpy(np.float64)[:, None], ("value",)
    )
    train = int((table["part"].astype(str) == "train").sum())
    return Kpi(recording, table["label"].to_numpy() > 0, train)


# ---- SMD -------------------------------------------------------------------------------------------------------------


def load_smd(folder: Path, machines: Sequence[str] = SMD_MACHINES) -> list[Machine]:
    """Read machines, the train part before the test part.

    Args:
        folder: Holds machine-<name>_train.parquet and machine-<name>_test.parquet.
        machines: Their names, for example `1-2`.

    Raises:
        DataError: A machine is not there.
    """
    return [_machine(folder, name) for name in machines]


def smd_machines(folder: Path) -> list[str]:
    """Return the names of all machines in the folder, in order.

    Raises:
        DataError: There is none.
    """
    names = sorted(path.name[len("machine-") : -len("_test.parquet")] for path in folder.glob("machine-*_test.parquet"))
    if not names:
        message = f"no machine-<name>_test.parquet in {folder}"
        raise DataError(message)
    return names


def _machine(folder: Path, name: str) -> Machine:
    train, test = (
        pq.read_table(_existing(folder / f"machine-{name}_{part}.parquet")).to_pandas() for part in ("train", "test")
    )
    series = [column for column in train.columns if column != "label"]
    values = np.concatenate([part[series].to_numpy(np.float64) for part in (train, test)])
    end_ms = _MINUTE_MS * np.arange(1, len(values) + 1)
    recording = Recording(f"machine-{name}", end_ms, values, tuple(series))
    return Machine(recording, test["label"].to_numpy() > 0, len(train))


# ---- Cisco -----------------------------------------------------------------------------------------------------------


def load_cisco(folder: Path, name: str = "bgpclear_first") -> Fleet:
    """Read one data set's routers and ground truth.

    Args:
        folder: Holds by_node/<name>/<router>.csv.gz and ground_truth/<name>.txt.
        name: Name of the data set.

    Raises:
        DataError: It is not there.
    """
    truth = _existing(folder / "ground_truth" / f"{name}.txt")
    paths = sorted((folder / "by_node" / name).glob("*.csv.gz"))
    if not paths:
        message = f"no router (<name>.csv.gz) in {folder / 'by_node' / name}"
        raise DataError(message)
    return Fleet(tuple(_router(path) for path in paths), tuple(_events(truth)))


def cisco_names(folder: Path) -> list[str]:
    """Return the names of the data sets in the folder that have a ground truth, in order.

    Raises:
        DataError: None has.
    """
    names = sorted(path.name for path in (folder / "by_node").glob("*") if path.is_dir())
    known = [name for name in names if (folder / "ground_truth" / f"{name}.txt").exists()]
    if not known:
        message = f"no by_node/<name>/ with a ground_truth/<name>.txt in {folder}"
        raise DataError(message)
    return known


def _router(path: Path) -> Recording:
    with gzip.open(path, "rt", newline="") as lines:
        table = pd.read_csv(lines)
    table = table.sort_values("time", kind="stable").drop_duplicates("time", keep="last")
    series = [name for name in table.columns if name not in _CISCO_TIMES and not name.startswith("Unnamed")]
    end_ms = np.round(1000 * table["time"].to_numpy(np.float64)).astype(np.int64)
    return Recording(path.name.removesuffix(".csv.gz"), end_ms, table[series].to_numpy(np.float64), tuple(series))


def _events(path: Path) -> Iterator[Event]:
    fault = -1
    with path.open(newline="") as lines:
        for row in csv.DictReader(lines):
            fault += row["Type"] != "multiple" or fault < 0
            yield Event(row["Node"], float(row["Start"]), float(row["End"]), fault)


def _existing(path: Path) -> Path:
    if not path.exists():
        message = f"{path} is not there"
        raise DataError(message)
    return path
