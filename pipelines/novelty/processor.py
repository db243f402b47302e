"""The stateful shell around the fold: bytes from the state store, the fold, bytes back. One call per bucket."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from pipelines.novelty.fold import Counts, Written, close_windows
from pipelines.novelty.packing import join_sections, parcel_from_bytes
from pipelines.novelty.state import BucketState
from pipelines.parameters import NoveltyParameters

#: Input: one row per bucket and Arrow batch.
PARCEL_SCHEMA: Final = "bucket INT, parcel BINARY"
#: Output: records of one topic packed as key, value, key, value...; the counts stand in the last row of a call.
OUTPUT_SCHEMA: Final = (
    f"bucket INT, topic STRING, payload BINARY, {', '.join(f'{name} BIGINT' for name in Counts._fields)}"
)
_BLOB_SCHEMA: Final = "blob BINARY"
_RECORDS_PER_ROW: Final = 4096
_NO_COUNTS: Final = Counts()


class NoveltyProcessor(StatefulProcessor):
    """Buffers parcels of a bucket; folds the windows that a marker closes.

    Args:
        parameters: Settings of the job.
    """

    def __init__(self, parameters: NoveltyParameters) -> None:
        self._parameters = parameters

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state: the model, and the parcels of windows that are not closed yet."""
        self._model = handle.getValueState("model", _BLOB_SCHEMA)
        self._buffer = handle.getListState("buffer", _BLOB_SCHEMA)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Take parcels of one bucket; give the records of the windows they close."""
        (bucket,) = key
        arrived = {blob: parcel_from_bytes(blob) for blob in (bytes(row[1]) for row in rows)}
        if not any(parcel.markers for parcel in arrived.values()):
            self._buffer.appendList([(blob,) for blob in arrived])
            return
        waiting = {blob: parcel_from_bytes(blob) for (blob,) in map(_bytes, self._buffer.get())}
        state = self._restore()
        parcels = waiting | arrived
        closed_ms = state.end_ms
        for written, counts in close_windows(state, list(parcels.values()), bucket, self._parameters):
            yield from _rows(bucket, written, counts)
        if state.end_ms > closed_ms:
            self._model.update((state.to_bytes(),))
        self._remember([blob for blob, parcel in parcels.items() if parcel.last_end_ms > state.end_ms])

    def _restore(self) -> BucketState:
        stored = self._model.get()
        return BucketState() if stored is None else BucketState.from_bytes(stored[0])

    def _remember(self, blobs: list[bytes]) -> None:
        if blobs:
            self._buffer.put([(blob,) for blob in blobs])
        else:
            self._buffer.clear()

    def close(self) -> None:
        """Nothing is held open."""


def _bytes(row: Any) -> tuple[bytes]:
    return (bytes(row[0]),)


def _rows(bucket: int, written: list[Written], counts: Counts) -> Iterator[Row]:
    """Pack records into few fat rows, in order, one topic per row."""
    by_topic: dict[str, list[Written]] = {}
    for record in written:
        by_topic.setdefault(record.topic.name, []).append(record)
    for name, records in by_topic.items():
        remaining = iter(records)
        while some := list(islice(remaining, _RECORDS_PER_ROW)):
            payload = join_sections(part for record in some for part in (record.key, record.value))
            yield Row(bucket=bucket, topic=name, payload=payload, **_NO_COUNTS._asdict())
    yield Row(bucket=bucket, topic=None, payload=None, **counts._asdict())
