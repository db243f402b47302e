"""Writing incidents: few records, from the driver, all of a batch or none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from pipelines.transport import MarkerProducer
from topics import registry, wire

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

#: More windows than this without a summary of every bucket is worth a warning.
_MANY_WAITING: Final = 3

Report = Callable[[str, float], None]

log = structlog.get_logger()


@dataclass
class IncidentWriter:
    """Writes the rows of each micro-batch; for `foreachBatch`.

    Attributes:
        producer: Transactional producer of the job's driver; an older driver is fenced by it.
        generation: Generation the records belong to.
        report: Takes the counts.
    """

    producer: MarkerProducer
    generation: str
    report: Report

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write one batch.

        Raises:
            FencedError: A newer driver runs.
        """
        topic = registry.INCIDENTS.full_name(self.generation)
        headers = {wire.GENERATION_HEADER: self.generation.encode(), wire.BATCH_HEADER: str(batch_id).encode()}
        written = 0
        with self.producer.transaction() as send:
            for row in batch.collect():
                if row["id"] is None:
                    self._count(row)
                else:
                    send(topic, bytes(row["record"]), key=row["id"].encode(), headers=headers)
                    written += 1
        self.report("incident_records", written)

    def _count(self, counts: Row) -> None:
        waiting = counts["waiting"]
        self.report("windows_completed", counts["completed"])
        self.report("summaries_ignored", counts["ignored"])
        self.report("windows_waiting", waiting)
        self.report("verdicts_unmatched", counts["unmatched"])
        if waiting > _MANY_WAITING and not counts["completed"]:
            log.warning("windows wait for the summaries of some buckets: is the novelty job behind?", windows=waiting)
        if counts["unmatched"]:
            log.warning("verdicts about no incident that is remembered", verdicts=counts["unmatched"])
