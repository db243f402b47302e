"""The loaders, on files written here and on the data."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from apps.evaluate.datasets import load_cisco, load_kpi, load_nab, load_smd, usual_step
from apps.evaluate.recordings import DataError, Recording
from tests.apps.evaluate.corpora import DATA, needs_data


def nab_folder(folder: Path, rows: str, spans: list[list[str]]) -> Path:
    (folder / "data" / "realX").mkdir(parents=True)
    (folder / "labels").mkdir()
    with gzip.open(folder / "data" / "realX" / "f.csv.gz", "wt") as lines:
        lines.write("timestamp,value\n" + rows)
    (folder / "labels" / "combined_windows.json").write_text(json.dumps({"realX/f.csv": spans}))
    return folder


def test_nab_rows_become_windows(tmp_path: Path) -> None:
    rows = (
        "2014-01-01 00:00:00,1\n2014-01-01 00:05:00,2\n"
        "2014-01-01 00:05:00,4\n"  # repeated: one window with the mean
        "2014-01-01 00:15:00,\n"  # a gap before it, and no value
        "2014-01-01 00:10:00,6\n"  # backward
        "2014-01-01 00:20:00,7\n"
    )
    spans = [["2014-01-01 00:05:00.000000", "2014-01-01 00:20:00.000000"]]
    [file] = load_nab(nab_folder(tmp_path, rows, spans))
    start = 1_388_534_400_000
    assert (file.recording.end_ms - start).tolist() == [300_000, 600_000, 900_000, 1_200_000, 1_500_000]
    np.testing.assert_array_equal(file.recording.values[:, 0], [1.0, 3.0, 6.0, np.nan, 7.0])
    assert file.window_of_row.tolist() == [0, 1, 1, 3, 2, 4]
    assert file.anomalies == ((1, 5),)  # the first row with the timestamp
    assert (file.recording.resource, file.category) == ("realX/f", "realX")


def test_usual_step_ignores_gaps() -> None:
    assert usual_step(np.array([0, 300, 600, 3600, 3900])) == 300


def test_halves_of_a_kpi(tmp_path: Path) -> None:
    table = pd.DataFrame(
        {
            "part": pd.Categorical(["train", "train", "test"]),
            "timestamp": [60, 120, 240],
            "value": np.array([1, 2, 3], np.float32),
            "label": np.array([0, 1, 0], np.int8),
        }
    )
    table.to_parquet(tmp_path / "k.parquet")
    [kpi] = load_kpi(tmp_path)
    assert (kpi.recording.resource, kpi.train, kpi.label.tolist()) == ("k", 2, [False, True, False])
    assert kpi.recording.end_ms.tolist() == [120_000, 180_000, 300_000]


def test_machine_is_its_train_part_then_its_test_part(tmp_path: Path) -> None:
    train = pd.DataFrame({"m00": [1.0, 2.0], "m01": [3.0, 4.0]})
    train.to_parquet(tmp_path / "machine-9-9_train.parquet")
    train.assign(m00=[5.0, 6.0], label=[0, 1]).to_parquet(tmp_path / "machine-9-9_test.parquet")
    [machine] = load_smd(tmp_path, ["9-9"])
    assert machine.recording.values.tolist() == [[1, 3], [2, 4], [5, 3], [6, 4]]
    assert machine.recording.end_ms.tolist() == [60_000, 120_000, 180_000, 240_000]
    assert (machine.train, machine.label.tolist()) == (2, [False, True])
    assert machine.recording.series == ("m00", "m01")


def test_cisco_router_keeps_the_last_of_repeated_samples(tmp_path: Path) -> None:
    folder = tmp_path / "by_node" / "d"
    folder.mkdir(parents=True)
    with gzip.open(folder / "leaf1.csv.gz", "wt") as lines:
        lines.write(",time,x,y\n0,10.0,1,2\n1,15.0,3,\n2,15.0,4,5\n")
    (tmp_path / "ground_truth").mkdir()
    (tmp_path / "ground_truth" / "d.txt").write_text(
        "Node,Host,Start,End,Event,Type\nleaf1,None,11,12,clear,single\nleaf2,None,11,13,clear,multiple\n"
    )
    fleet = load_cisco(tmp_path, "d")
    assert fleet.routers[0].series == ("x", "y")
    assert fleet.routers[0].end_ms.tolist() == [10_000, 15_000]
    assert fleet.routers[0].values.tolist() == [[1, 2], [4, 5]]
    assert [(event.router, event.end_s, event.fault) for event in fleet.events] == [("leaf1", 12, 0), ("leaf2", 13, 0)]


@pytest.mark.parametrize("load", [load_nab, load_kpi, load_smd, load_cisco])
def test_a_missing_folder_is_named(load: object, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="absent"):
        load(tmp_path / "absent")  # type: ignore[operator]


def rises(recording: Recording) -> bool:
    return bool((np.diff(recording.end_ms) > 0).all())


@needs_data("nab")
def test_all_files_of_nab() -> None:
    files = load_nab(DATA / "nab")
    assert (len(files), sum(len(file.anomalies) for file in files)) == (45, 87)
    assert len({file.category for file in files}) == 5
    assert all(rises(file.recording) for file in files)
    repeated = sum(len(file.window_of_row) - len(file.recording.end_ms) for file in files)
    assert repeated == 26
    assert all(first <= last for file in files for first, last in file.anomalies)


@needs_data("kpi_aiops2018")
def test_all_kpis() -> None:
    kpis = load_kpi(DATA / "kpi_aiops2018")
    assert len(kpis) == 15
    assert all(rises(kpi.recording) and abs(kpi.train - len(kpi.label) / 2) <= 1 for kpi in kpis)


@needs_data("smd")
def test_machines() -> None:
    machines = load_smd(DATA / "smd")
    assert [machine.recording.values.shape[1] for machine in machines] == [38] * 4
    assert [len(machine.recording.end_ms) - machine.train for machine in machines] == [
        len(machine.label) for machine in machines
    ]
