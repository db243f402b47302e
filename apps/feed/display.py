"""What a feed shows: progress with points per second and time left, what the files hold, what was sent."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from apps.feed.otlp import OtlpResult
from apps.feed.run import FeedResult
from apps.feed.sources import Source
from apps.feed.survey import Survey
from apps.feed.times import format_ns

_NS_PER_MS = 10**6
_WAITING_AGAIN_S = 10.0
_NAMES_SHOWN = 6
_FILES_SHOWN = 40


class _Rate(ProgressColumn):
    """Points per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f} points/s" if speed else "", style="cyan")


class FeedDisplay:
    """Progress of a feed on a terminal; a context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f} points"),
            _Rate(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
        )
        self._survey = self._bar.add_task("reading", total=None)
        self._send = self._bar.add_task("sending", total=None, visible=False)
        self._waiting_said = -_WAITING_AGAIN_S

    def __enter__(self) -> FeedDisplay:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is not None:
            self._bar.update(self._send, visible=False)
        self._bar.stop()

    def surveyed(self, file: str, points: int) -> None:
        """Points of a file were counted."""
        self._bar.update(self._survey, advance=points, description=f"reading {file}")

    def found(self, sources: Sequence[Source], survey: Survey) -> None:
        """Show what the files hold; sending begins."""
        self._bar.update(self._survey, visible=False)
        show_survey(self._console, sources, survey)
        self._bar.reset(self._send, total=survey.points, visible=True)

    def sent(self, points: int, arrival_ms: int) -> None:
        """Points were handed to the broker's client."""
        where = format_ns(arrival_ms * _NS_PER_MS)[:19]
        self._bar.update(self._send, advance=points, visible=True, description=f"sending {where}")

    def waiting(self, reason: str) -> None:
        """Say now and then that the broker is away."""
        if time.monotonic() - self._waiting_said > _WAITING_AGAIN_S:
            self._waiting_said = time.monotonic()
            self._console.print(f"[yellow]waiting for the broker:[/] {reason}", highlight=False)


def show_survey(console: Console, sources: Sequence[Source], survey: Survey) -> None:
    """Print one line per file, and notices about what cannot be fed."""
    table = Table("file", box=None, pad_edge=False)
    for column in ("shape", "time", "rows", "points", "first", "last"):
        table.add_column(column, no_wrap=True)
    rows = list(zip(sources, survey.counts, survey.spans, strict=True))
    for source, counts, span in rows[:_FILES_SHOWN]:
        unit = f"{source.layout.time_name} ({source.unit})"
        times = (_minute(span.first_ns), _minute(span.last_ns)) if span else ("", "")
        table.add_row(source.path.name, source.layout.shape, unit, f"{counts.rows:,}", f"{counts.points:,}", *times)
    console.print(table)
    if len(rows) > _FILES_SHOWN:
        console.print(f"... and {len(rows) - _FILES_SHOWN} more files")
    for notice in notices(survey):
        console.print(f"[yellow]note:[/] {notice}", highlight=False)
    console.print(f"{survey.series:,} series, {survey.constant_series:,} of them constant")


def _minute(time_ns: int) -> str:
    return format_ns(time_ns)[:16].replace("T", " ")


def notices(survey: Survey) -> list[str]:
    """Return what was left out, one sentence per reason."""
    total = {name: sum(getattr(counts, name) for counts in survey.counts) for name in _REASONS}
    texts = sorted({name for counts in survey.counts for name in counts.text_columns})
    said = [sentence.format(total[name]) for name, sentence in _REASONS.items() if total[name]]
    if texts:
        more = f" and {len(texts) - _NAMES_SHOWN} more" if len(texts) > _NAMES_SHOWN else ""
        said.append(f"columns without any number are left out: {', '.join(texts[:_NAMES_SHOWN])}{more}")
    return said


_REASONS = {
    "bad_time_rows": "{:,} rows without a valid time are left out",
    "malformed_rows": "{:,} rows with a wrong number of cells are left out",
    "unnamed_rows": "{:,} rows without resource or metric are left out",
    "empty_cells": "{:,} empty cells are left out",
    "not_finite_cells": "{:,} cells with NaN or infinity are left out",
    "text_cells": "{:,} cells with text instead of a number are left out",
}


def show_result(console: Console, result: FeedResult, seconds: float) -> None:
    """Print what was sent."""
    console.print(
        f"[green]sent[/] {result.points:,} points and {result.ticks:,} ticks in {seconds:.1f} s "
        f"({result.points / seconds:,.0f} points/s), events from {format_ns(result.first_ns)} to "
        f"{format_ns(result.last_ns)}, clock at {format_ns(result.last_arrival_ms * _NS_PER_MS)}",
        highlight=False,
    )
    if result.late:
        console.print(
            f"[yellow]note:[/] {result.late:,} points arrive later than the allowed lateness", highlight=False
        )


def show_otlp_result(console: Console, result: OtlpResult) -> None:
    """Print what was sent."""
    sent = ", ".join(f"{count:,} messages to {topic}" for topic, count in sorted(result.messages.items()))
    console.print(
        f"[green]sent[/] {sent}, and {result.ticks:,} ticks; arrivals from "
        f"{format_ns(result.first_arrival_ms * _NS_PER_MS)}, clock at {format_ns(result.last_arrival_ms * _NS_PER_MS)}",
        highlight=False,
    )
