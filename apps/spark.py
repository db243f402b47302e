"""The Spark session of a job: everything about state, checkpoints and time zones in one visible place."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from apps.settings import Settings

_STATE: Final = "spark.sql.streaming.stateStore"

#: Settings that decide how state is laid out in a checkpoint; fixed for the life of a checkpoint.
STATE_LAYOUT: Final = {
    f"{_STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{_STATE}.checkpointFormatVersion": "2",
    f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.multipleWatermarkPolicy": "min",
}

#: Settings that only decide how the work is done.
OPERATION: Final = {
    f"{_STATE}.rocksdb.trackTotalNumberOfRows": "false",
    f"{_STATE}.rocksdb.boundedMemoryUsage": "true",
    f"{_STATE}.rocksdb.maxMemoryUsageMB": "256",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.pollingDelay": "20ms",
    "spark.python.worker.faulthandler.enabled": "true",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.speculation": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.cleaner.periodicGC.interval": "10min",
}

#: Stacks deep enough for regular expressions over long log lines and for plans of many readers. Generated methods of
#: wide rows are larger than Java compiles by default; left to the interpreter they cost half of a job's time.
JAVA_OPTIONS: Final = (
    "-XX:+UseParallelGC",
    "-XX:ParallelGCThreads=2",
    "-XX:-DontCompileHugeMethods",
    "-Xss4m",
    "-Duser.timezone=UTC",
)


def cache_dir() -> Path:
    """Return the folder where resolved artifacts are kept: `$XDG_CACHE_HOME/kappa`, else `~/.cache/kappa`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kappa"


def connector_class_path() -> str:
    """Return the class path of the Kafka connector's jars; `KAPPA_CONNECTOR_JARS` names another folder."""
    folder = Path(os.environ.get("KAPPA_CONNECTOR_JARS") or cache_dir() / "lib" / "connector")
    if not any(folder.glob("*.jar")):
        message = f"no Kafka connector jars in {folder}: run `make setup`, or set KAPPA_CONNECTOR_JARS"
        raise FileNotFoundError(message)
    return f"{folder}/*"


def spark_session(name: str, settings: Settings) -> SparkSession:
    """Create the session of one job.

    Args:
        name: Application name.
        settings: Settings of the installation.
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415 - slow to import, and only jobs need it

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers take whatever `python3` the path has
    scratch = settings.data_dir.absolute() / "scratch" / name
    scratch.mkdir(parents=True, exist_ok=True)
    builder = SparkSession.builder.appName(name).master(settings.spark.master)
    conf = {
        **STATE_LAYOUT,
        **OPERATION,
        "spark.sql.shuffle.partitions": str(settings.spark.shuffle_partitions),
        "spark.sql.streaming.minBatchesToRetain": str(settings.spark.state_versions),
        "spark.driver.memory": settings.spark.driver_memory,
        "spark.driver.extraClassPath": connector_class_path(),
        "spark.driver.extraJavaOptions": " ".join(JAVA_OPTIONS),
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    return session
