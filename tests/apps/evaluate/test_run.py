"""`kappa evaluate` from folder to tables, scores and report, on small data written here."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import orjson
import pandas as pd
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from apps.cli import app
from apps.evaluate.baselines import Normal
from apps.evaluate.recordings import DataError
from apps.evaluate.run import Evaluation, folder_of

ROWS = 600


def write_nab(root: Path) -> None:
    folder = root / "nab"
    (folder / "labels").mkdir(parents=True)
    times = pd.date_range("2024-01-01", periods=ROWS, freq="5min").strftime("%Y-%m-%d %H:%M:%S")
    labels = {}
    for category, seed in (("realA", 1), ("realB", 2)):
        values = np.random.default_rng(seed).normal(size=ROWS)
        values[400] += 30
        (folder / "data" / category).mkdir(parents=True)
        pd.DataFrame({"timestamp": times, "value": values}).to_csv(folder / "data" / category / "f.csv", index=False)
        labels[f"{category}/f.csv"] = [[f"{times[390]}.000000", f"{times[420]}.000000"]]
    (folder / "labels" / "combined_windows.json").write_text(json.dumps(labels))


def write_kpi(root: Path) -> None:
    values = np.random.default_rng(3).normal(size=ROWS)
    label = np.zeros(ROWS, np.int8)
    for row, height in ((200, 15), (500, 90)):  # the first one widens what the second is measured by
        values[row : row + 3] += height
        label[row : row + 3] = 1
    part = pd.Categorical(["train"] * (ROWS // 2) + ["test"] * (ROWS // 2))
    table = pd.DataFrame({"part": part, "timestamp": 60 * np.arange(ROWS), "value": values, "label": label})
    (root / "kpi_aiops2018").mkdir()
    table.to_parquet(root / "kpi_aiops2018" / "k.parquet")


def write_smd(root: Path) -> None:
    values = np.random.default_rng(4).normal(size=(2 * ROWS, 3))
    values[ROWS + 300 : ROWS + 310] += 30
    frame = pd.DataFrame(values, columns=["m00", "m01", "m02"])
    label = (np.arange(ROWS) // 10 == 30).astype(int)
    (root / "smd").mkdir()
    frame[:ROWS].to_parquet(root / "smd" / "machine-9-9_train.parquet")
    frame[ROWS:].reset_index(drop=True).assign(label=label).to_parquet(root / "smd" / "machine-9-9_test.parquet")


def write_cisco(root: Path) -> None:
    folder = root / "cisco_telemetry"
    (folder / "by_node" / "d").mkdir(parents=True)
    (folder / "ground_truth").mkdir()
    for number, name in enumerate(("leaf1", "leaf2")):
        values = np.random.default_rng(number).normal(size=(ROWS, 120))
        values[400:410, : 120 if name == "leaf1" else 20] += 30
        table = pd.DataFrame(values, columns=[f"c{place}" for place in range(120)])
        table.insert(0, "time", 5.0 * np.arange(ROWS))
        with gzip.open(folder / "by_node" / "d" / f"{name}.csv.gz", "wt") as lines:
            table.to_csv(lines)
    truth = "Node,Host,Start,End,Event,Type\nleaf1,None,2000,2100,clear,single\n"
    (folder / "ground_truth" / "d.txt").write_text(truth)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for write in (write_nab, write_kpi, write_smd, write_cisco):
        write(tmp_path)
    return tmp_path


def evaluation(scores: Path | None = None) -> Evaluation:
    return Evaluation({"normal": Normal()}, scores)


@pytest.mark.parametrize(
    ("data_set", "measure", "reached"),
    [
        ("nab", "NAB refitted: standard / low FP / low FN", "9"),  # a hit in each labelled window, not at its begin
        # The fall after the spike of three rows is one false row: 6/7; no alarm so shortly after the first.
        ("kpi", "KPI F1 within 7 windows, threshold from the train halves: surprise (alarm)", "0.857 (1.000)"),
        ("smd", "SMD, mean VUS-PR of 9-9", "0.9"),
        ("cisco", "d, temporal K=2: mean F1 per router", "1.000"),
        ("cisco", "d, place of the affected router at the alarm, per fault", "1"),
    ],
)
def test_what_is_plain_is_found(root: Path, data_set: str, measure: str, reached: str) -> None:
    sections = evaluation().sections(data_set, root)
    found = {line.measure: line.reached["normal"] for section in sections for line in section.summary}
    assert found[measure].startswith(reached)


def test_a_data_set_s_own_folder_or_the_folder_of_all(root: Path) -> None:
    assert folder_of("kpi", root) == folder_of("kpi", root / "kpi_aiops2018") == root / "kpi_aiops2018"
    assert folder_of("synthetic", None) is None
    with pytest.raises(DataError, match="no folder"):
        folder_of("nab", root / "absent")


def test_scores_are_kept_per_recording(root: Path, tmp_path: Path) -> None:
    evaluation(tmp_path / "scores").sections("smd", root)
    table = pq.read_table(tmp_path / "scores" / "smd" / "normal" / "machine-9-9.parquet").to_pandas()
    series = ["m00", "m01", "m02"]
    assert list(table.columns) == [
        "end_ms", "resource", *(f"surprise.{name}" for name in series), *(f"alarm.{name}" for name in series),
    ]  # fmt: skip
    assert len(table) == 2 * ROWS
    assert int(table["surprise.m01"].idxmax()) == ROWS + 300


def test_progress_is_told_per_recording(root: Path) -> None:
    told: dict[str, list[int]] = {}

    def begin(what: str, steps: int) -> Callable[[], None]:
        told[what] = [steps, 0]

        def done() -> None:
            told[what][1] += 1

        return done

    Evaluation({"normal": Normal()}, begin=begin).sections("nab", root)
    assert told == {"normal: nab": [2, 2]}


def test_the_command_writes_the_same_report_twice(root: Path, tmp_path: Path) -> None:
    reports = [tmp_path / name / "quality.md" for name in ("one", "two")]
    for report in reports:
        arguments = ["evaluate", "nab", str(root), "--detector", "normal", "--report", str(report), "--json"]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
    assert orjson.loads(result.stdout)[0]["title"] == "Summary"
    assert reports[0].read_bytes() == reports[1].read_bytes()
    pictures = [sorted((report.with_suffix("")).iterdir()) for report in reports]
    assert [path.name for path in pictures[0]] == ["nab-examples.png", "nab-threshold.png"]
    assert [path.read_bytes() for path in pictures[0]] == [path.read_bytes() for path in pictures[1]]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nab", "absent"], "there is no folder absent"),
        (["nab"], "needs the folder"),
        (["nab", "empty"], "combined_windows.json is not there"),
        (["smd", "empty"], "no machine-<name>_test.parquet"),
        (["kpi", "empty"], "no KPI"),
        (["cisco", "empty"], "no by_node/<name>/"),
    ],
)
def test_what_is_missing_is_said_in_a_sentence(
    arguments: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    result = CliRunner().invoke(app, ["evaluate", *arguments, "--detector", "normal"])
    assert result.exit_code == 1
    assert sentence in " ".join(result.output.split())


def test_an_unknown_detector_is_refused() -> None:
    result = CliRunner().invoke(app, ["evaluate", "nab", ".", "--detector", "oracle"])
    assert result.exit_code == 2
    assert "half-space-trees" in result.output
