from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.feed.delays import DelayModel, parse_delay
from apps.feed.encoding import PointEncoder
from apps.feed.errors import FeedError
from apps.feed.merge import Arrivals, MergeOptions, merged
from apps.feed.run import shifted
from apps.feed.series import Rules, Selection, SeriesTable, parse_rules
from apps.feed.sources import ColumnNames, Source, open_source
from apps.feed.survey import Survey, survey
from topics.records import MetricPoint

START = 1_498_754_000
NS = 10**9
Row = tuple[int, str, str, int, float]


def written(folder: Path, files: list[list[int]]) -> list[Source]:
    """One long file per list of seconds after the start; the value is the row's number."""
    sources = []
    for number, seconds in enumerate(files):
        path = folder / f"{number}.csv"
        rows = "".join(f"vm-{number},cpu,{START + second},{row}\n" for row, second in enumerate(seconds))
        path.write_text("resource,metric,time,value\n" + rows)
        sources.append(open_source(path, ColumnNames(), Selection()))
    return sources


def rows_of(batches: list[Arrivals], table: SeriesTable) -> list[Row]:
    return [
        (arrival, *table.names[series], time, value)
        for batch in batches
        for arrival, series, time, value in zip(
            batch.arrival_ms.tolist(),
            batch.series.tolist(),
            batch.time_ns.tolist(),
            batch.value.tolist(),
            strict=True,
        )
    ]


def expected(files: list[list[int]], delay: DelayModel, seed: int) -> list[Row]:
    """All points, sorted by (arrival, file, row)."""
    rows = []
    for number, seconds in enumerate(files):
        delays = delay.draw_ms(len(seconds), np.random.default_rng((seed, number))).tolist()
        for row, (second, delay_ms) in enumerate(zip(seconds, delays, strict=True)):
            arrival = (START + second) * 1000 + delay_ms
            rows.append((arrival, f"vm-{number}", "cpu", (START + second) * NS, float(row)))
    return sorted(rows, key=lambda item: item[0])


@given(
    files=st.lists(st.lists(st.integers(0, 300), min_size=1, max_size=30), min_size=1, max_size=4),
    delay=st.sampled_from(["0", "2.5", "uniform:0:60", "exponential:20"]),
    seed=st.integers(0, 1000),
    block_bytes=st.sampled_from([1, 400, 1_000_000]),
)
def test_points_come_in_the_order_of_arrival_whatever_the_chunks(
    files: list[list[int]], delay: str, seed: int, block_bytes: int
) -> None:
    model = parse_delay(delay)
    with tempfile.TemporaryDirectory() as folder:
        sources = written(Path(folder), files)
        found = survey(sources)
        batches = list(merged(sources, found.spans, found.table, MergeOptions(model, seed, block_bytes)))
    assert rows_of(batches, found.table) == expected(files, model, seed)


def test_memory_is_bounded_for_files_in_order_of_time(tmp_path: Path) -> None:
    """Two long files in step: what is held is about a chunk each, although both have thousands of rows."""
    sources = written(tmp_path, [list(range(5000)), list(range(5000))])
    found = survey(sources)
    options = MergeOptions(DelayModel(), 0, block_bytes=2_000, hold_points=500)
    assert sum(len(batch) for batch in merged(sources, found.spans, found.table, options)) == 10_000


def test_a_file_too_far_out_of_order_is_refused_by_name(tmp_path: Path) -> None:
    sources = written(tmp_path, [list(range(5000, 0, -1))])
    found = survey(sources)
    with pytest.raises(FeedError, match=r"0\.csv is not in the order of time"):
        list(merged(sources, found.spans, found.table, MergeOptions(block_bytes=2_000, hold_points=500)))


def test_shifting_moves_all_times_by_one_constant(tmp_path: Path) -> None:
    sources = written(tmp_path, [[10, 20], [15]])
    moved, found = shifted(sources, survey(sources), 10**18)
    rows = rows_of(list(merged(moved, found.spans, found.table, MergeOptions())), found.table)
    assert [time - 10**18 for _, _, _, time, _ in rows] == [0, 5 * NS, 10 * NS]
    assert (found.first_ns, found.last_ns) == (10**18, 10**18 + 10 * NS)


@given(
    resource=st.text(st.characters(codec="utf-8"), min_size=1),
    metric=st.text(st.characters(codec="utf-8"), min_size=1),
    times=st.lists(st.integers(1, 2**63 - 1), min_size=1, max_size=5),
    value=st.floats(allow_nan=False, allow_infinity=False),
    kind=st.sampled_from(["gauge", "delta", "cumulative", "ratio"]),
    unit=st.text(st.characters(codec="utf-8")),
)
def test_encoded_points_are_the_records_of_the_contract(
    resource: str, metric: str, times: list[int], value: float, kind: str, unit: str
) -> None:
    table = SeriesTable()
    code = table.code(resource, metric)
    batch = Arrivals(
        np.zeros(len(times), np.int64),
        np.full(len(times), code, np.int32),
        np.array(times, np.int64),
        np.full(len(times), value),
    )
    keys, values = PointEncoder(table, Rules(kind), Rules(unit)).encode(batch)
    points = [MetricPoint(resource, metric, time, value, kind=kind, unit=unit) for time in times]  # type: ignore[arg-type]
    assert values == [orjson.dumps(point) for point in points]
    assert keys == [resource.encode()] * len(times)


def test_rules_by_pattern_the_first_that_fits_wins() -> None:
    rules = parse_rules(
        ["*.bytes=cumulative", "net.*=delta", "ratio"], "gauge", ["gauge", "cumulative", "delta", "ratio"]
    )
    assert [rules.of(metric) for metric in ("net.bytes", "net.errors", "cpu")] == ["cumulative", "delta", "ratio"]
    with pytest.raises(ValueError, match="'counter' in 'cpu=counter' is not one of gauge"):
        parse_rules(["cpu=counter"], "gauge", ["gauge"])


def test_files_without_a_point_are_left_out_unless_all_are(tmp_path: Path) -> None:
    full, empty = written(tmp_path, [[1], [1]])
    empty.path.write_text("resource,metric,time,value\n")
    found = survey([empty, full])
    assert found.spans[0] is None
    assert len(list(merged([empty, full], found.spans, found.table, MergeOptions()))) == 1
    with pytest.raises(FeedError, match="nothing to feed: 0 rows"):
        survey([replace(empty)])
    assert isinstance(found, Survey)
