"""The jobs of the chain as processes on this machine: `python -m apps.<job>`, one log file each."""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from apps.local.class_archive import with_archive, with_java_option
from apps.local.processes import ProcessRecord, start
from apps.settings import Settings

#: In the order of the chain.
CHAIN: Final = ("statistics", "novelty", "incidents", "indexer")
HEARTBEAT: Final = "heartbeat"
JOBS: Final = (*CHAIN, HEARTBEAT)

_REPLY_TIMEOUT_S: Final = 1.0
#: Jobs whose Java does little but plan: their start is what costs, and Java's quick compiler starts them sooner.
_LIGHT: Final = ("incidents", "indexer")
_QUICK_COMPILER: Final = "-XX:TieredStopAtLevel=1"
#: They wait for what the heavy jobs find, so the heavy jobs go first.
_AFTER_OTHERS: Final = ("nice", "-n", "5")


def job_environment(settings: Settings, overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a job: ours, the overrides of this stack, and the data folder as absolute path."""
    own = {
        **os.environ,
        **overrides,
        "KAPPA_DATA_DIR": str(settings.data_dir.absolute()),
        # Spark's workers would otherwise be started with whatever `python3` the PATH has.
        "PYSPARK_PYTHON": sys.executable,
    }
    return with_archive(own)


def start_job(job: str, settings: Settings, environment: Mapping[str, str]) -> ProcessRecord:
    """Start a job without waiting for it; it waits for its broker and Elasticsearch itself."""
    return start(
        job,
        [*(_AFTER_OTHERS if job in _LIGHT else ()), sys.executable, "-m", f"apps.{job}"],
        log=settings.data_dir.absolute() / "logs" / f"{job}.log",
        port=getattr(settings.ports, job),
        environment=with_java_option(environment, _QUICK_COMPILER) if job in _LIGHT else environment,
    )


def is_ready(port: int, host: str = "127.0.0.1") -> bool:
    """Tell whether a job says that it runs."""
    try:
        with urllib.request.urlopen(f"http://{host}:{port}/readyz", timeout=_REPLY_TIMEOUT_S) as reply:
            return bool(reply.status == 200)
    except (OSError, urllib.error.URLError):
        return False


@dataclass(frozen=True)
class JobProgress:
    """What a job's metrics say; None where it says nothing."""

    lag_records: float | None
    batches: float | None
    batch_s: float | None
    watermark_s: float | None
    failures: float | None


def progress(port: int, host: str = "127.0.0.1") -> JobProgress | None:
    """Return what a job's `/metrics` say, or None if it does not answer."""
    metrics = read_metrics(port, host)
    if metrics is None:
        return None
    return JobProgress(
        lag_records=metrics.get("kappa_lag_records") if metrics.get("kappa_batches_total") else None,
        batches=metrics.get("kappa_batches_total"),
        batch_s=metrics.get("kappa_batch_duration_seconds"),
        watermark_s=metrics.get("kappa_watermark_seconds") or None,
        failures=metrics.get("kappa_failures_total"),
    )


def read_metrics(port: int, host: str = "127.0.0.1") -> dict[str, float] | None:
    """Return every sample of a job by name, summed over labels, or None if the job does not answer."""
    try:
        with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=_REPLY_TIMEOUT_S) as reply:
            text = reply.read().decode()
    except (OSError, urllib.error.URLError):
        return None
    values: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            values[sample.name] = values.get(sample.name, 0.0) + sample.value
    return values
