"""How many documents per second one indexer task writes into a real local Elasticsearch.

    python -m benchmarks.index_speed --records 5000

Starts an Elasticsearch of its own (512 MB heap), makes score records with ten notable series each, and runs the
indexer's task over them: once for the documents alone, once into empty indices, once more over what is there.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import psutil

from apps.elasticsearch import TemplateKeeper, connect
from apps.local.elasticsearch import ElasticsearchServer
from apps.local.processes import stop
from apps.settings import ElasticsearchSettings
from pipelines.indexer.documents import KafkaRecord, Naming, Origin, documents
from pipelines.indexer.pipeline import IndexerTask
from pipelines.parameters import IndexerParameters
from topics.documents import IndexSettings
from topics.records import Score, SeriesScore
from topics.registry import SCORES

SERIES_PER_RECORD = 10
RESOURCES = 500
WINDOW_MS = 60_000
START_MS = 1_763_690_400_000
GENERATION = "bench"


def record(number: int) -> KafkaRecord:
    """Return one score record; all its series are above the threshold."""
    window, resource = divmod(number, RESOURCES)
    start_ms = START_MS + window * WINDOW_MS
    series = [
        SeriesScore(
            metric=f"system.metric.{index}",
            attributes={"cpu": str(index)},
            kind="gauge",
            unit="1",
            actual=number * 0.001,
            expected=0.4,
            lower=0.3,
            upper=0.5,
            p=1e-9,
            score=50.0 + index,
            direction="high",
            contribution=0.1,
            observations=120.0,
        )
        for index in range(SERIES_PER_RECORD)
    ]
    score = Score(
        f"vm-{resource:04d}", start_ms, start_ms + WINDOW_MS, "upf", "eu-west", "ams-1", 1e-9, 60.0, "major", False,
        "bench", series,
    )  # fmt: skip
    return KafkaRecord(Origin(SCORES.full_name(GENERATION), 0, number, start_ms), None, orjson.dumps(score))


def measured(label: str, work: Callable[[], int]) -> None:
    """Run the work, which returns a number of documents, and print its speed and CPU time of this process."""
    started, cpu_started = time.perf_counter(), time.process_time()
    number = work()
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu_started
    print(
        f"{label:<42}{number:>9,} documents {seconds:>7.1f} s {number / seconds:>9,.0f} documents/s {cpu:>6.1f} CPU-s"
    )


def run(url: str, records: list[KafkaRecord]) -> None:
    """Measure against an Elasticsearch."""
    naming = Naming(GENERATION, IndexerParameters())
    open_client = partial(connect, ElasticsearchSettings(url=url))
    client = open_client()
    TemplateKeeper(client, GENERATION, IndexSettings()).prepare()
    task = IndexerTask(open_client, "unused: nothing is rejected", naming)
    measured("records to documents, nothing sent", lambda: sum(1 for _ in documents(records, naming)))
    measured("into empty indices", lambda: task.run(records).total())
    measured("again, over what is there", lambda: task.run(records).total())
    client.indices.refresh()
    print(f"documents in Elasticsearch: {client.count(index=f'kappa-*-{GENERATION}-*')['count']:,}")
    client.close()


def main() -> None:
    """Read the arguments, start the server, measure, stop it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=5_000, help="score records (default 5000)")
    parser.add_argument("--port", type=int, default=19_290, help="port of the Elasticsearch started here")
    arguments = parser.parse_args()
    memory: Any = psutil.virtual_memory()
    load = os.getloadavg()[0]
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, {memory.total / 2**30:.0f} GiB, "
          f"load {load:.1f} at the start")  # fmt: skip
    records = [record(number) for number in range(arguments.records)]
    with tempfile.TemporaryDirectory() as folder:
        server = ElasticsearchServer(Path(folder), Path(folder) / "es.log", arguments.port, arguments.port + 1)
        process = server.start()
        try:
            server.wait(process, 120)
            run(server.url, records)
        finally:
            stop([process], 30)
            server.wipe()


if __name__ == "__main__":
    main()
