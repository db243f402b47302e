"""Progress reports of a query become metrics; health answers what it knows."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from apps.monitoring import JobMonitor, PortTakenError, serve_monitoring


def progress(**changes: Any) -> dict[str, Any]:
    return {
        "batchId": 7,
        "durationMs": {"triggerExecution": 1500},
        "numInputRows": 10,
        "processedRowsPerSecond": 5.0,
        "sources": [{"endOffset": {"t": {"0": 10, "1": 5}}, "latestOffset": {"t": {"0": 12, "1": 5}}}],
        "stateOperators": [{"numRowsTotal": 3, "memoryUsedBytes": 99, "numRowsDroppedByWatermark": 0}],
        "eventTime": {"watermark": "2026-11-01T00:00:00.000Z"},
    } | changes


def sample(monitor: JobMonitor, name: str) -> float | None:
    return monitor.registry.get_sample_value(name, {"job": "novelty", "generation": "g1"})


@pytest.fixture
def monitor() -> JobMonitor:
    return JobMonitor("novelty", "g1")


def test_progress_becomes_metrics(monitor: JobMonitor) -> None:
    monitor.progressed(progress())
    assert sample(monitor, "kappa_lag_records") == 2
    assert sample(monitor, "kappa_batch_duration_seconds") == 1.5
    assert sample(monitor, "kappa_watermark_seconds") == 1793491200
    assert sample(monitor, "kappa_inexact") == 0


def test_rows_dropped_by_the_watermark_mark_the_run_inexact(monitor: JobMonitor) -> None:
    monitor.progressed(progress(stateOperators=[{"numRowsDroppedByWatermark": 4}]))
    monitor.progressed(progress())
    assert sample(monitor, "kappa_watermark_dropped_rows_total") == 4
    assert sample(monitor, "kappa_inexact") == 1


def test_reported_counts_add_up(monitor: JobMonitor) -> None:
    monitor.report("late", 2)
    monitor.report("late", 3)
    assert sample(monitor, "kappa_late_total") == 5


@pytest.fixture
def address(monitor: JobMonitor) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = serve_monitoring("127.0.0.1", port, monitor)
    yield f"http://127.0.0.1:{port}"
    server.shutdown()
    server.server_close()


def status(url: str) -> int:
    try:
        with urllib.request.urlopen(url) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refusal:
        return refusal.code


def test_health_and_readiness(address: str, monitor: JobMonitor) -> None:
    assert status(f"{address}/healthz") == 200
    assert status(f"{address}/readyz") == 503
    monitor.running(True)
    assert status(f"{address}/readyz") == 200
    assert status(f"{address}/nothing") == 404


def test_metrics_are_served(address: str, monitor: JobMonitor) -> None:
    monitor.report("late", 2)
    with urllib.request.urlopen(f"{address}/metrics") as answer:
        assert b'kappa_late_total{generation="g1",job="novelty"} 2.0' in answer.read()


def test_taken_port_names_the_setting(address: str, monitor: JobMonitor) -> None:
    port = int(address.rsplit(":", 1)[1])
    with pytest.raises(PortTakenError, match=r"\[ports\]"):
        serve_monitoring("127.0.0.1", port, monitor)
