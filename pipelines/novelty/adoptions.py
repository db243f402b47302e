"""Which series take their present values for normal because an operator said that they are expected."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from pipelines.novelty.directory import Attendance
from pipelines.novelty.packing import Integers
from pipelines.novelty.state import BucketState
from topics.records import OperatorVerdict


def expected_subjects(verdicts: Sequence[OperatorVerdict]) -> list[tuple[str, str | None]]:
    """Return (resource, metric) of what is said to be expected, each once; without metric it is all of the resource."""
    subjects = chain.from_iterable(verdict.subjects for verdict in verdicts if verdict.verdict == "expected")
    return list(dict.fromkeys((subject.resource, subject.metric) for subject in subjects))


def adoptions(attendance: Attendance, state: BucketState) -> dict[int, Integers]:
    """Return the rows that adopt their present values at each window's marker, by window of the run, ascending.

    Args:
        attendance: Who reported in the run, and what operators said.
        state: State of the bucket after the run's names were found.
    """
    found = {}
    for window, verdicts in enumerate(attendance.verdicts):
        subjects = expected_subjects(verdicts)
        rows = [row for row in _rows(subjects, attendance, state) if attendance.born[row] < window]
        if rows:
            found[window] = np.array(rows, dtype=np.int64)
    return found


def _rows(subjects: Sequence[tuple[str, str | None]], attendance: Attendance, state: BucketState) -> list[int]:
    if not subjects:
        return []
    number = {name: at for at, name in enumerate(state.names)}
    wanted = {(number[resource], metric) for resource, metric in subjects if resource in number}
    owners = {resource for resource, _ in wanted}
    return [
        row
        for row, resource in enumerate(state.series.resource.tolist())
        if resource in owners
        if (resource, None) in wanted or (resource, attendance.names[row][0]) in wanted
    ]
