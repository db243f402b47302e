"""Incidents for people: rows and tables of incident documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from rich import box
from rich.markup import escape
from rich.table import Table

from apps.simulator.durations import parse_duration_ms
from topics import documents
from topics.documents import read

_COLOURS: Final = {"critical": "bold red", "major": "red", "minor": "yellow", "warning": "cyan"}
_RESOURCES_SHOWN: Final = 3
_TIME: Final = "%m-%d %H:%M:%S"


def time_text(time_ms: int | None) -> str:
    """Return an event time as UTC, to the second; empty for None."""
    return "" if time_ms is None else datetime.fromtimestamp(time_ms / 1000, UTC).strftime(_TIME)


def since_ms(text: str, now_ms: int) -> int:
    """Return the event time that `2h` (before now) or `2026-11-01T00:00Z` names; without a zone it is UTC.

    Raises:
        ValueError: It is neither.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return now_ms - parse_duration_ms(text)
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def resources_text(resources: list[str]) -> str:
    """Return the leading resources of an incident, and how many more there are."""
    more = len(resources) - _RESOURCES_SHOWN
    return ", ".join(resources[:_RESOURCES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def incident_table(incidents: Iterable[Mapping[str, Any]]) -> Table:
    """Return a table of incident documents."""
    columns = ("id", "start (UTC)", "end", "severity", "scope", "resources", "what")
    table = Table(*columns, box=box.SIMPLE, padding=(0, 1, 0, 0))
    for incident in incidents:
        table.add_row(*_cells(incident))
    return table


def _cells(incident: Mapping[str, Any]) -> tuple[str, ...]:
    severity = read(incident, documents.SEVERITY)
    colour = _COLOURS.get(severity, "default")
    return (
        escape(read(incident, documents.INCIDENT_ID)),
        time_text(read(incident, documents.START)),
        "[green]open[/]" if read(incident, documents.INCIDENT_OPEN) else time_text(read(incident, documents.END)),
        f"[{colour}]{severity} {read(incident, documents.SCORE):.0f}[/]",
        read(incident, documents.INCIDENT_SCOPE),
        escape(resources_text(read(incident, documents.HOSTS) or [])),
        escape(read(incident, documents.REASON) or ""),
    )
