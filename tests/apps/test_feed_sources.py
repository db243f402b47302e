from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from apps.feed.display import notices
from apps.feed.errors import FeedError
from apps.feed.series import Selection, SeriesTable
from apps.feed.sources import ColumnNames, Counts, Source, open_source
from apps.feed.survey import survey

EVERYTHING = Selection()
Point = tuple[str, str, int, float]


def points_of(source: Source, counts: Counts | None = None) -> list[Point]:
    table = SeriesTable()
    return [
        (*table.names[series], time_ns, value)
        for chunk in source.read(table, counts or Counts(), block_bytes=64)
        for series, time_ns, value in zip(
            chunk.series.tolist(), chunk.time_ns.tolist(), chunk.value.tolist(), strict=True
        )
    ]


def opened(path: Path, text: str | None = None, **names: str) -> Source:
    if text is not None:
        path.write_text(text)
    return open_source(path, ColumnNames(**names), EVERYTHING)


S = 10**9


def test_wide_file_one_resource_per_file_one_metric_per_column(tmp_path: Path) -> None:
    path = tmp_path / "leaf1.csv.gz"
    path.write_bytes(gzip.compress(b",time,cpu,routes\n0,1498754078.0,0.5,7\n1,1498754079.0,0.25,8\n"))
    source = opened(path)
    assert (source.unit, source.resource) == ("s", "leaf1")
    assert points_of(source) == [
        ("leaf1", "cpu", 1498754078 * S, 0.5),
        ("leaf1", "routes", 1498754078 * S, 7.0),
        ("leaf1", "cpu", 1498754079 * S, 0.25),
        ("leaf1", "routes", 1498754079 * S, 8.0),
    ]


def test_long_file_has_resource_and_metric_in_columns(tmp_path: Path) -> None:
    text = "metric,value,resource,time\ncpu,0.5,vm-1,1498754078000\ncpu,0.75,vm-2,1498754078000\n"
    source = opened(tmp_path / "points.csv", text)
    assert source.layout.shape == "long"
    assert points_of(source) == [("vm-1", "cpu", 1498754078 * S, 0.5), ("vm-2", "cpu", 1498754078 * S, 0.75)]


def test_columns_of_a_long_file_can_be_named(tmp_path: Path) -> None:
    text = "host;kpi;when;v\nvm-1;cpu;2017-06-29 16:34:38;0.5\n"
    source = opened(tmp_path / "points.csv", text, resource="host", metric="kpi", time="when", value="v")
    assert points_of(source) == [("vm-1", "cpu", 1498754078 * S, 0.5)]


def test_wide_file_with_a_resource_column(tmp_path: Path) -> None:
    text = "time,resource,cpu,mem\n1498754078,vm-1,1,2\n1498754078,vm-2,3,4\n"
    assert points_of(opened(tmp_path / "fleet.csv", text)) == [
        ("vm-1", "cpu", 1498754078 * S, 1.0),
        ("vm-1", "mem", 1498754078 * S, 2.0),
        ("vm-2", "cpu", 1498754078 * S, 3.0),
        ("vm-2", "mem", 1498754078 * S, 4.0),
    ]


def test_parquet_with_typed_columns(tmp_path: Path) -> None:
    path = tmp_path / "kpi.parquet"
    columns = {
        "timestamp": pa.array([1498754078, 1498754138], pa.int64()),
        "part": ["train", "test"],
        "value": pa.array([0.5, None], pa.float32()),
        "up": pa.array([True, False]),
        "label": pa.array([0, 1], pa.int8()),
    }
    pa.parquet.write_table(pa.table(columns), path)
    counts = Counts()
    source = open_source(path, ColumnNames(), Selection(exclude=("label",)))
    assert points_of(source, counts) == [
        ("kpi", "value", 1498754078 * S, 0.5),
        ("kpi", "up", 1498754078 * S, 1.0),
        ("kpi", "up", 1498754138 * S, 0.0),
    ]
    assert counts.text_columns == ["part"]


def test_everything_that_cannot_be_fed_is_counted_and_said(tmp_path: Path) -> None:
    path = tmp_path / "leaf1.csv"
    path.write_text(
        "time,cpu,state,mem\n"
        "1498754078,1,up,5\n"
        "1498754079,,up,5\n"  # an empty cell
        "1498754080,NaN,down,5\n"  # not a finite number
        "1498754081,broken,up,5\n"  # text in a column of numbers
        "never,1,up,5\n"  # a row without a valid time
        "1498754082,1\n"  # a row with too few cells
    )
    source = opened(path)
    found = survey([source])
    assert points_of(source) == [
        ("leaf1", "cpu", 1498754078 * S, 1.0),
        *(("leaf1", "mem", (1498754078 + second) * S, 5.0) for second in range(4)),
    ]
    assert found.points == 5
    assert (found.series, found.constant_series) == (2, 2)
    assert notices(found) == [
        "1 rows without a valid time are left out",
        "1 rows with a wrong number of cells are left out",
        "1 empty cells are left out",
        "1 cells with NaN or infinity are left out",
        "6 cells with text instead of a number are left out",
        "columns without any number are left out: state",
    ]


def test_long_rows_without_a_name_are_counted(tmp_path: Path) -> None:
    text = "resource,metric,time,value\n,cpu,1498754078,1\nvm-1,,1498754078,1\nvm-1,cpu,1498754078,1\n"
    counts = Counts()
    assert len(points_of(opened(tmp_path / "points.csv", text), counts)) == 1
    assert counts.unnamed_rows == 2


def test_selection_by_pattern(tmp_path: Path) -> None:
    path = tmp_path / "leaf1.csv"
    path.write_text("time,cpu.user,cpu.idle,mem\n1498754078,1,2,3\n")
    source = open_source(path, ColumnNames(), Selection(include=("cpu.*",), exclude=("*.idle",)))
    assert [metric for _, metric, _, _ in points_of(source)] == ["cpu.user"]


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.csv", "when,cpu\n1,2\n", "no time column among 'when', 'cpu'; name it with --time"),
        ("a.csv", "time,cpu\nnever,2\n", "no value in column 'time' is a time"),
        ("a.csv", "", "the first line must name the columns"),
        ("a.csv", "time\n1498754078\n", "no column is left"),
        ("a.txt", "time,cpu\n", "unknown format; known endings"),
    ],
)
def test_refusals_say_what_to_do(tmp_path: Path, name: str, text: str, sentence: str) -> None:
    with pytest.raises(FeedError, match=sentence):
        opened(tmp_path / name, text)


def test_a_missing_file_and_a_missing_column_are_named(tmp_path: Path) -> None:
    with pytest.raises(FeedError, match=r"absent\.csv: no such file"):
        opened(tmp_path / "absent.csv")
    with pytest.raises(FeedError, match=r"no column 'host' among .* name it with --resource"):
        opened(tmp_path / "a.csv", "time,cpu\n1498754078,2\n", resource="host")


def test_a_broken_gzip_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "leaf1.csv.gz"
    path.write_bytes(b"time,cpu\n1498754078,1\n")
    with pytest.raises(FeedError, match="cannot be read"):
        opened(path)
