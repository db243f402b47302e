"""A report: sections of text, tables and plots, as Markdown with pictures beside it or on a terminal.

Equal results give equal bytes: no clock, no paths, pictures without metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table as RichTable

#: What makes a picture's bytes depend on nothing but its content.
_STYLE: Final = {"font.family": "DejaVu Sans", "font.size": 8.0, "savefig.dpi": 100.0}


@dataclass(frozen=True)
class Table:
    """A table of text; the first column is left, the others right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Plot:
    """A picture: name of its file without suffix, what it shows, and who draws it."""

    name: str
    caption: str
    draw: Callable[[], Figure]


@dataclass(frozen=True)
class Line:
    """One line of the summary: what is measured, what is wanted, and what each detector reaches."""

    measure: str
    required: str
    goal: str
    reached: Mapping[str, str]


@dataclass(frozen=True)
class Section:
    """Everything about one data set."""

    title: str
    text: str
    tables: tuple[Table, ...]
    plots: tuple[Plot, ...] = ()
    summary: tuple[Line, ...] = field(default=())


def summary(sections: Sequence[Section], detectors: Sequence[str]) -> Table:
    """Return the table of all sections' summaries."""
    rows = tuple(
        (line.measure, line.required, line.goal, *(line.reached.get(name, "") for name in detectors))
        for section in sections
        for line in section.summary
    )
    return Table("Summary", ("measure", "required", "goal", *detectors), rows)


def show(console: Console, tables: Sequence[Table]) -> None:
    """Print tables on a terminal."""
    for table in tables:
        shown = RichTable(title=table.title, title_justify="left")
        for place, column in enumerate(table.columns):
            shown.add_column(column, justify="right" if place else "left")
        for row in table.rows:
            shown.add_row(*row)
        console.print(shown)


def as_objects(tables: Sequence[Table]) -> list[dict[str, object]]:
    """Return tables as plain objects: title, and rows by column."""
    return [
        {"title": table.title, "rows": [dict(zip(table.columns, row, strict=True)) for row in table.rows]}
        for table in tables
    ]


def write(path: Path, heading: str, sections: Sequence[Section], detectors: Sequence[str]) -> None:
    """Write the report as Markdown, its pictures into a folder of the same name beside it.

    Args:
        path: The Markdown file; its folder is made if need be.
        heading: Title and introduction.
        sections: The sections, in order.
        detectors: Names of the detectors, in order.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = [heading.strip(), markdown_table(summary(sections, detectors))]
    for section in sections:
        parts += [f"## {section.title}", section.text.strip()]
        parts += [f"**{table.title}**\n\n{markdown_table(table)}" for table in section.tables]
        for plot in section.plots:
            picture = path.with_suffix("") / f"{plot.name}.png"
            save(plot, picture)
            parts.append(f"![{plot.caption}]({picture.parent.name}/{picture.name})\n\n*{plot.caption}*")
    path.write_text("\n\n".join(parts) + "\n")


def markdown_table(table: Table) -> str:
    """Return a table as Markdown."""
    rule = "|---|" + "---:|" * (len(table.columns) - 1)
    lines = [f"| {' | '.join(row)} |" for row in (table.columns, *table.rows)]
    return "\n".join([lines[0], rule, *lines[1:]])


def save(plot: Plot, path: Path) -> None:
    """Draw a plot into a PNG file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(rc=_STYLE):  # type: ignore[arg-type]
        plot.draw().savefig(path, format="png", metadata={"Software": None})
