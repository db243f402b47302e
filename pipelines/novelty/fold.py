"""The fold of one bucket: closed windows in, records out. Pure: no clock, no randomness, no input but the log.

Consecutive closed windows are folded in *runs*, all windows of a run at once. Snapshots are written and the unseen is
forgotten at fixed points of event time, where runs end, so that the cuts of micro-batches change neither records nor
state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import orjson

from pipelines.novelty.directory import Directory
from pipelines.novelty.observations import RecordTable, gather
from pipelines.novelty.packing import Marker, Parcel
from pipelines.novelty.reports import Tally, snapshots, verdicts
from pipelines.novelty.run import Run, judge
from pipelines.novelty.state import BucketState
from pipelines.parameters import NoveltyParameters
from topics.registry import MODELS, SCORES, SUMMARIES, Topic

_MS_PER_S: Final = 1000
#: Values after which a run is cut, so that its records fit in memory.
_RUN_VALUES: Final = 50_000
#: Bucket whose summaries carry what operators said.
_VERDICTS_BUCKET: Final = 0


class Written(NamedTuple):
    """One record to write."""

    topic: Topic
    key: bytes
    value: bytes


class Counts(NamedTuple):
    """What a run did, for the job's metrics."""

    windows: int = 0
    scores: int = 0
    findings: int = 0
    silent: int = 0
    series: int = 0


def close_windows(
    state: BucketState, parcels: Sequence[Parcel], bucket: int, parameters: NoveltyParameters
) -> Iterator[tuple[list[Written], Counts]]:
    """Fold all windows that the parcels' markers close; yields per run. The state changes in place.

    Keep the parcels whose `last_end_ms` is after the state's `end_ms`: they hold records of windows not closed yet.

    Args:
        state: State of the bucket.
        parcels: Everything that arrived for windows after the last closed one, in any order, repeated or not.
        bucket: Number of the bucket.
        parameters: Settings of the job.
    """
    markers = sorted({marker for parcel in parcels for marker in parcel.markers if marker.end_ms > state.end_ms})
    if not markers:
        return
    table = gather(parcels, state.end_ms, markers[-1].end_ms)
    directory = Directory(state, parameters.series_per_resource)
    for windows in _runs(state.end_ms, markers, table, parameters.snapshot_windows):
        housekeeping = _crosses(state.end_ms, windows[-1], parameters.snapshot_windows)
        run = Run(state, table, windows, directory.attend(table, windows), parameters)
        written, counts = _records(run, directory, bucket)
        if housekeeping:
            written += [Written(MODELS, *record) for record in snapshots(state, directory.names)]
            state.snapshot_ms = state.end_ms
            if state.expire(windows[-1].end_ms - parameters.expiry_s * _MS_PER_S):
                directory = Directory(state, parameters.series_per_resource)
        yield written, counts


def _runs(
    closed_ms: int, markers: Sequence[Marker], table: RecordTable, snapshot_windows: int
) -> Iterator[list[Marker]]:
    """Cut consecutive windows into runs: at housekeeping points, and where a run gets too large for memory."""
    run: list[Marker] = []
    values = 0
    for marker, records in zip(markers, table.of_windows(markers), strict=True):
        run.append(marker)
        values += table.values_of(records)
        if _crosses(closed_ms, marker, snapshot_windows) or values >= _RUN_VALUES:
            yield run
            run, values = [], 0
        closed_ms = marker.end_ms
    if run:
        yield run


def _crosses(closed_ms: int, marker: Marker, snapshot_windows: int) -> bool:
    """Tell whether a housekeeping point lies between the window closed before and this one."""
    span_ms = (marker.end_ms - marker.start_ms) * snapshot_windows
    return marker.end_ms // span_ms > closed_ms // span_ms


def _records(run: Run, directory: Directory, bucket: int) -> tuple[list[Written], Counts]:
    """Judge the run; return its score records, then one summary per window."""
    judged = judge(run)
    series = judged.series.as_series(directory.names, run.rules.ids)
    tallies = [Tally() for _ in run.windows]
    scores = []
    for verdict in verdicts(judged.resources, series, run.state.names, run.attendance.places):
        scores.append(Written(SCORES, verdict.name.encode(), verdict.score_record(run.windows[verdict.window])))
        tallies[verdict.window].add(verdict, run.parameters)
    counts = Counts(
        windows=len(tallies),
        scores=len(scores),
        findings=sum(len(tally.findings) for tally in tallies),
        silent=sum(tally.silent for tally in tallies),
        series=sum(tally.series for tally in tallies),
    )
    return scores + _summaries(run, tallies, bucket), counts


def _summaries(run: Run, tallies: Sequence[Tally], bucket: int) -> list[Written]:
    """Return one summary per window; those of one bucket carry the operators' verdicts, which reach every bucket."""
    attendance = run.attendance
    verdicts = attendance.verdicts if bucket == _VERDICTS_BUCKET else [[] for _ in tallies]
    known = [places[:count] for places, count in zip(attendance.places, attendance.known, strict=True)]
    key = str(bucket).encode()
    rows = zip(tallies, run.windows, known, attendance.refused(len(tallies)), verdicts, strict=True)
    summaries = (
        replace(tally.summary(window, places, refused, bucket, run.parameters), verdicts=said)
        for tally, window, places, refused, said in rows
    )
    return [Written(SUMMARIES, key, orjson.dumps(summary)) for summary in summaries]
