"""Names on the wire that belong to no single record: record keys, headers, and where a resource lives.

A raw topic carries, beside its records, *ticks*: the arrival clock of each partition. A derived topic carries, beside
its records, *closed markers*: event time travelling in the log.
"""

from __future__ import annotations

from typing import Final

#: Record key of a tick. The value is empty; the tick's arrival time is its content.
TICK_KEY: Final = b"kappa.tick"

#: Record key of a closed marker in the statistics topic.
MARKER_KEY: Final = b"kappa.closed"

#: Record key of a control record that the statistics job passed on into the statistics topic.
CONTROL_KEY: Final = b"kappa.control"
#: Where a passed-on control record names its resource, as a JSON path.
CONTROL_RESOURCE_PATH: Final = "$.control.resource"

#: Arrival time of a record in a history topic, milliseconds since the epoch, decimal ASCII.
ARRIVAL_HEADER: Final = "kappa-arrival-ms"

#: Headers of records in the late and rejected topics.
REASON_HEADER: Final = "kappa-reason"
POINTS_HEADER: Final = "kappa-points"
SOURCE_TOPIC_HEADER: Final = "kappa-source-topic"
SOURCE_PARTITION_HEADER: Final = "kappa-source-partition"
SOURCE_OFFSET_HEADER: Final = "kappa-source-offset"
SOURCE_TIMESTAMP_HEADER: Final = "kappa-source-timestamp-ms"

#: Lineage of derived records. It lives in headers, never in values: values must be equal in a replay.
GENERATION_HEADER: Final = "kappa-generation"
RUN_HEADER: Final = "kappa-run"
BATCH_HEADER: Final = "kappa-batch"

#: Spark SQL for the bucket of a resource and the partition of a bucket; B buckets, P partitions, both fixed.
BUCKET_SQL: Final = "CAST(pmod(xxhash64({resource}), {buckets}) AS INT)"
PARTITION_SQL: Final = "CAST(pmod({bucket}, {partitions}) AS INT)"
