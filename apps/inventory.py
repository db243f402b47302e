"""Inventory files: which service, region and site a resource belongs to."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import orjson

from apps.feed.errors import FeedError
from topics.records import Inventory

_COLUMNS: Final = tuple(item.name for item in fields(Inventory) if item.name != "type")
_RESOURCE: Final = _COLUMNS[0]


@dataclass(frozen=True)
class InventoryFile:
    """What a file holds: the last entry per resource, and how many were overridden by a later one."""

    entries: tuple[Inventory, ...]
    overridden: int


def read_inventory(path: Path) -> InventoryFile:
    """Read a CSV file with a header, a JSON array, or JSON lines.

    Raises:
        FeedError: The file is missing, or an entry is wrong; the message lists the first mistakes with their place.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as unreadable:
        message = f"{path} cannot be read: {unreadable}"
        raise FeedError(message) from unreadable
    rows = _rows(path, text)
    mistakes = [f"entry {number}: {fault}" for number, row in enumerate(rows, 1) if (fault := _fault(row))]
    if mistakes or not rows:
        message = f"{path}: {_listed(mistakes)}. An entry has {', '.join(_COLUMNS)}; only {_RESOURCE} must be given"
        raise FeedError(message)
    latest = {row[_RESOURCE].strip(): _entry(row) for row in rows}
    return InventoryFile(tuple(latest.values()), len(rows) - len(latest))


def _listed(mistakes: Sequence[str], shown: int = 5) -> str:
    more = f"; and {len(mistakes) - shown} more" if len(mistakes) > shown else ""
    return ("; ".join(mistakes[:shown]) or "no entries") + more


def _rows(path: Path, text: str) -> list[Any]:
    try:
        if path.suffix.lower() == ".csv":
            return list(csv.DictReader(text.splitlines(), restkey="more cells than columns"))
        if text.lstrip().startswith("["):
            return list(orjson.loads(text))
        return [orjson.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, csv.Error) as broken:
        message = f"{path} is neither CSV (ending .csv), a JSON array nor JSON lines: {broken}"
        raise FeedError(message) from broken


def _fault(row: Any) -> str | None:
    if not isinstance(row, dict):
        return "not an object"
    unknown = [str(name) for name in row if name not in (*_COLUMNS, "type")]
    if unknown:
        return f"unknown {', '.join(unknown)}"
    wrong = [name for name, value in row.items() if value is not None and not isinstance(value, str)]
    if wrong:
        return f"{', '.join(wrong)} must be text"
    if not (row.get(_RESOURCE) or "").strip():
        return f"no {_RESOURCE}"
    return None if row.get("type") in (None, "", "inventory") else "type must be inventory"


def _entry(row: dict[str, Any]) -> Inventory:
    resource, service, region, site = ((row.get(name) or "").strip() or None for name in _COLUMNS)
    return Inventory(resource or "", service, region, site)
