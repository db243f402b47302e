"""Spark's side of the fold: one key, one value of state, summaries in, records and counts out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import orjson
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from pipelines.incidents.fold import Outcome, fold
from pipelines.parameters import IncidentParameters

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import TimerValues

#: Records of one batch in order, then one row without a record that carries the counts.
COUNTS: Final = ("completed", "ignored", "waiting", "unmatched")
OUTPUT_SCHEMA: Final = f"id STRING, record BINARY, {', '.join(f'{name} BIGINT' for name in COUNTS)}"
_STATE_NAME: Final = "fleet"
_STATE_SCHEMA: Final = "state BINARY"


class IncidentProcessor(StatefulProcessor):
    """Holds the fleet's state between micro-batches. All rows have the same key: the fleet is one."""

    def __init__(self, parameters: IncidentParameters) -> None:
        self._parameters = parameters

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state."""
        self._state = handle.getValueState(_STATE_NAME, _STATE_SCHEMA)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:  # type: ignore[override]  # noqa: N802, N803
        """Fold the batch's summaries."""
        kept = self._state.get()
        before = bytes(kept[0]) if kept is not None else None
        after, outcome = fold(before, (bytes(row["value"]) for row in rows), self._parameters)
        if after != before:
            self._state.update((after,))
        yield from output_rows(outcome)

    def close(self) -> None:
        """Nothing to close."""


def output_rows(outcome: Outcome) -> Iterator[Row]:
    """Yield the rows of an outcome: records in order, then the counts."""
    for incident in outcome.incidents:
        yield Row(id=incident.id, record=orjson.dumps(incident), **dict.fromkeys(COUNTS))
    yield Row(id=None, record=None, **{name: getattr(outcome, name) for name in COUNTS})
