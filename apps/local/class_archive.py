"""An archive of the classes that a Spark driver loads: each job starts with about half the CPU time.

Java's class data sharing (`-XX:ArchiveClassesAtExit`) keeps parsed and verified classes in one file that every driver
maps. It is made once, by a short streaming query, and named after all that must be equal for Java to accept it; without
it, or with one that does not fit, jobs start as before. `python -m apps.local.class_archive` makes it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from apps.local.artifacts import SPARK_JARS_DIR, ArtifactStore
from apps.local.java import find_java
from apps.settings import Settings
from apps.spark import cache_dir, spark_session

#: Spark's launcher gives these options to the driver's Java.
_OPTIONS_VARIABLE: Final = "SPARK_SUBMIT_OPTS"
_TRAIN: Final = "--train"
_BATCH_LIMIT_S: Final = 120.0


def archive_path() -> Path:
    """Return where the archive for this Java and these jars is, made or not."""
    jars = [*sorted(SPARK_JARS_DIR.glob("*.jar")), *ArtifactStore().files("connector")]
    parts = [str(find_java().launcher.resolve()), str(find_java().version)]
    parts += [f"{jar}:{jar.stat().st_size}:{jar.stat().st_mtime_ns}" for jar in jars]
    return cache_dir() / f"spark-classes-{hashlib.sha256('|'.join(parts).encode()).hexdigest()[:16]}.jsa"


def with_archive(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which Spark drivers use the archive, if there is one."""
    archive = archive_path()
    return with_java_option(environment, f"-XX:SharedArchiveFile={archive}") if archive.is_file() else dict(environment)


def ensure_archive() -> Path:
    """Make the archive unless it is there; return its path."""
    archive = archive_path()
    if not archive.is_file():
        with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
            partial = Path(folder) / archive.name
            environment = with_java_option(os.environ, f"-XX:ArchiveClassesAtExit={partial}")
            subprocess.run(
                [sys.executable, "-m", "apps.local.class_archive", _TRAIN],
                env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
            )  # fmt: skip
            if partial.is_file():
                partial.replace(archive)
    return archive


def with_java_option(environment: Mapping[str, str], option: str) -> dict[str, str]:
    """Return an environment in which Spark drivers get one more option of Java."""
    options = f"{environment.get(_OPTIONS_VARIABLE, '')} {option}".strip()
    return {**environment, _OPTIONS_VARIABLE: options}


def _train() -> None:
    """Run one small batch through what the jobs use: source, state store, Python workers, sink per batch."""
    with tempfile.TemporaryDirectory() as folder:
        session = spark_session("kappa-class-archive", Settings(data_dir=Path(folder)))
        rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).load()
        query = (
            rows.selectExpr("timestamp", "value", "CAST(value AS STRING) AS text")
            .withWatermark("timestamp", "1 second")
            .groupBy("value")
            .count()
            .mapInArrow(lambda batches: batches, "value BIGINT, count BIGINT")
            .writeStream.outputMode("update")
            .foreachBatch(_collect)
            .option("checkpointLocation", f"{folder}/checkpoint")
            .start()
        )
        deadline = time.monotonic() + _BATCH_LIMIT_S
        while query.lastProgress is None and query.isActive and time.monotonic() < deadline:
            time.sleep(0.1)
        query.stop()
        _load_connector_classes(session)
        gateway: Any = session.sparkContext._gateway
        java = gateway.proc
        session.stop()
        java.stdin.close()  # Spark's Java ends at the end of its input; the archive is written then
        java.wait()


def _collect(batch: Any, number: int) -> None:
    batch.collect()


def _load_connector_classes(session: Any) -> None:
    """Plan a read from Kafka; nothing is contacted before a query starts."""
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "none"}
    session.readStream.format("kafka").options(**options).load().selectExpr("CAST(value AS STRING)").explain()


def main() -> None:
    """Make the archive, or with `--train` be the program whose classes are archived."""
    if sys.argv[1:] == [_TRAIN]:
        _train()
        return
    archive = ensure_archive()
    state = f"class archive ready: {archive}" if archive.is_file() else "no class archive: jobs start without it"
    sys.stdout.write(state + "\n")


if __name__ == "__main__":
    main()
