"""The common row: what every parser makes of a raw message, and what the window aggregation collects.

One row is one sample, many packed samples of one resource and window, one tick, or one kept message (late, rejected or
control).
"""

from __future__ import annotations

from typing import Final

#: Columns of a raw message, whatever topic it comes from.
KEY: Final = "key"
VALUE: Final = "value"
HEADERS: Final = "headers"
TOPIC: Final = "source_topic"
PARTITION: Final = "source_partition"
OFFSET: Final = "source_offset"
TIMESTAMP_MS: Final = "source_timestamp_ms"
ARRIVAL_MS: Final = "arrival_ms"

#: Columns of the common row.
GROUP_KEY: Final = "group_key"
EVENT_TIME: Final = "event_time"
SAMPLE: Final = "sample"
PACKED: Final = "packed"
KEPT: Final = "kept"

#: What becomes of a message, or of some of its points.
ON_TIME: Final = "on_time"
LATE: Final = "late"
REJECTED: Final = "rejected"
CONTROL: Final = "control"

#: `id` tells log events of the same time apart; `origin` is the JSON array [service, region, site].
SAMPLE_TYPE: Final = (
    "STRUCT<series: STRING, time_ns: BIGINT, value: DOUBLE, total: DOUBLE, start_time_ns: BIGINT, id: BIGINT, "
    "origin: STRING>"
)
#: Many samples in one row, see `pack`.
PACKED_TYPE: Final = "STRUCT<names: BINARY, points: BINARY, origin: STRING>"
HEADERS_TYPE: Final = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
KEPT_TYPE: Final = (
    "STRUCT<fate: STRING, reason: STRING, points: STRING, point_count: INT, topic: STRING, partition: INT, "
    f"offset: BIGINT, timestamp_ms: BIGINT, key: BINARY, value: BINARY, headers: {HEADERS_TYPE}>"
)

#: Group keys that are no resources start with a character no resource may hold.
RESERVED: Final = "\x00"
TICK_GROUP: Final = f"{RESERVED}tick"

#: A series travels as one string, kind + unit + metric + raw attributes JSON, joined by a character no name may hold.
SEPARATOR: Final = "\x1f"
#: In the place of the kind: a log event, with severity as metric and template as attributes.
LOG_KIND: Final = "log"

NAME_LIMIT: Final = 512
ATTRIBUTES_LIMIT: Final = 8192
TEMPLATE_LIMIT: Final = 512
#: Squares of larger values have no room in a double.
VALUE_LIMIT: Final = 1e150
#: 2000-01-01; what lies before is a wrong unit, not a measurement.
EARLIEST_NS: Final = 946_684_800_000_000_000
