"""Reading log files of the stack: their ends, and what is appended."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from apps.local.processes import log_end

_POLL_S: Final = 0.2

Line = tuple[str, str]


def last_lines(logs: Mapping[str, Path], lines: int) -> Iterator[Line]:
    """Yield (name, line) of the last lines of each log."""
    for name, path in logs.items():
        if path.is_file():
            yield from ((name, line) for line in log_end(path, lines).splitlines())


def appended_lines(logs: Mapping[str, Path]) -> Iterator[Line]:
    """Yield (name, line) as lines are appended, for ever; a log may appear later."""
    positions = {name: path.stat().st_size if path.is_file() else 0 for name, path in logs.items()}
    while True:
        for name, path in logs.items():
            for line in _new_lines(path, positions, name):
                yield name, line
        time.sleep(_POLL_S)


def _new_lines(path: Path, positions: dict[str, int], name: str) -> list[str]:
    """Return complete lines after the position and advance it; a file that became shorter is read from its start."""
    if not path.is_file():
        return []
    if path.stat().st_size < positions[name]:
        positions[name] = 0
    with path.open("rb") as file:
        file.seek(positions[name])
        complete, newline, _ = file.read().rpartition(b"\n")
    positions[name] += len(complete) + len(newline)
    return complete.decode(errors="replace").splitlines()
