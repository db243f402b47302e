"""The report: equal content, equal bytes; and what stands in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console

from apps.evaluate import plots
from apps.evaluate.report import Line, Plot, Section, Table, as_objects, markdown_table, show, summary, write

TABLE = Table("Scores", ("detector", "a", "b"), (("one", "1.0", "2"), ("two", "3.0", "")))


def picture() -> Figure:
    x = np.arange(10.0)
    return plots.curves({"line": (x, x * x)}, {"mark": 3.0}, ("x", "y"))


def section() -> Section:
    line = Line("what", "1", "2", {"one": "1.0", "other": "9"})
    return Section("A data set", "Some text.", (TABLE,), (Plot("curve", "A curve", picture),), (line,))


def test_markdown() -> None:
    assert markdown_table(TABLE) == "| detector | a | b |\n|---|---:|---:|\n| one | 1.0 | 2 |\n| two | 3.0 |  |"


def test_summary_has_a_column_per_detector() -> None:
    table = summary([section(), section()], ["one", "two"])
    assert table.columns == ("measure", "required", "goal", "one", "two")
    assert table.rows == (("what", "1", "2", "1.0", ""),) * 2


def test_written_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    for folder in ("first", "second"):
        write(tmp_path / folder / "quality.md", "# Title", [section()], ["one"])
    for name in ("quality.md", "quality/curve.png"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()
    text = (tmp_path / "first" / "quality.md").read_text()
    assert text.startswith("# Title\n\n| measure | required | goal | one |")
    assert "## A data set\n\nSome text.\n\n**Scores**\n\n| detector" in text
    assert "![A curve](quality/curve.png)" in text
    assert str(tmp_path) not in text


def test_on_a_terminal_and_as_objects() -> None:
    console = Console(record=True, width=80)
    show(console, [TABLE])
    assert "3.0" in console.export_text()
    assert as_objects([TABLE])[0] == {
        "title": "Scores",
        "rows": [{"detector": "one", "a": "1.0", "b": "2"}, {"detector": "two", "a": "3.0", "b": ""}],
    }
