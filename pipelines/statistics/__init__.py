"""The statistics job: what did every series of every resource do in each window of event time?

Reads: every raw topic (`otlp.metrics`, `otlp.logs`, `telemetry.metrics`, `telemetry.logs`, `telemetry.control`), one
    reader per Kafka partition.
Writes: one record per resource and window to `telemetry.statistics`, in numbered parts where it would pass the message
    limit; then, in a transaction, the control records that arrived in the window and a closed marker in every
    partition. Late and rejected messages go to `telemetry.late` and `telemetry.rejected` with their original bytes.
Key: resource.
Event time and lateness: arrival is the broker's append time (or the header of a history topic). Every point is gated on
    arrival - event time: more than L behind is late, more than F ahead is rejected. Ticks, one per second and
    partition, run F ahead of arrival, so the watermark is arrival - L - C by construction and a window closes at
    end + L + C of broker time even when everything is silent. No gated point can be late for the watermark.
State: one row per (resource, window): the samples of a window that is still open. It is disposable: with an empty
    checkpoint the job starts from offsets found by arrival and writes only windows after its last marker.
Replay: the same log gives the same records, however it is cut into micro-batches: a window's statistics are a function
    of the set of its points. Retried and duplicated points vanish.

Formula, per series over the distinct points x_1..x_n of a window, sorted by event time:
    n, sum, mean = sum / n, m2 = sum (x_i - mean)^2, min, max, first, last,
    increase of a counter = sum of x_i - x_(i-1), of x_i where the counter was reset.

Run: `python -m apps.statistics`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from pipelines.statistics import controls, gate, metrics, otlp, parse, rows
from topics import registry

if TYPE_CHECKING:
    from pipelines.parameters import StatisticsParameters, TimeRules

#: Columns of a closed window, beside the group key.
WINDOW: Final = "window"
SAMPLES: Final = "samples"
PACKED: Final = "packed"
KEPT: Final = "kept"


def common_rows(topic: registry.Topic, raw: DataFrame, parameters: StatisticsParameters) -> DataFrame:
    """Raw messages of one topic -> common rows (`pipelines.statistics.rows`)."""
    arrived = gate.with_arrival(raw, parameters.time)
    parsers: dict[str, Callable[[], DataFrame]] = {
        registry.METRICS.name: lambda: metrics.metric_rows(arrived, parameters),
        registry.LOGS.name: lambda: parse.log_rows(arrived, parameters.time),
        registry.CONTROL.name: lambda: controls.control_rows(arrived, parameters.time),
        registry.OTLP_METRICS.name: lambda: otlp.metric_rows(arrived, parameters),
        registry.OTLP_LOGS.name: lambda: otlp.log_rows(arrived, parameters),
    }
    return parsers[topic.name]()


def closed_windows(readers: Sequence[tuple[registry.Topic, DataFrame]], parameters: StatisticsParameters) -> DataFrame:
    """Readers, one per Kafka partition -> (window, group_key, samples, kept) of every window when it closes."""
    # ---- time semantics: one watermark per reader, the least of them counts; tumbling windows, final results only ----
    time: TimeRules = parameters.time
    points = [gate.watermarked(common_rows(topic, raw, parameters), time) for topic, raw in readers]
    return (
        reduce(DataFrame.unionByName, points)  # one sample, tick or kept message each
        .groupBy(sf.window(rows.EVENT_TIME, f"{time.window_s} seconds"), rows.GROUP_KEY)
        .agg(
            sf.collect_list(rows.SAMPLE).alias(SAMPLES),
            sf.collect_list(rows.PACKED).alias(PACKED),
            sf.collect_list(rows.KEPT).alias(KEPT),
        )
    )
