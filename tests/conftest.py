"""Fixtures shared by all tests: real servers and one Spark session, started once and only when a test asks for them."""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from apps.local.artifacts import ArtifactStore
from apps.local.elasticsearch import ElasticsearchServer
from apps.local.processes import stop
from apps.settings import ElasticsearchSettings, KafkaSettings, Settings
from apps.spark import spark_session
from tests.support import SERVER_START_S, STOP_S, JobRunner, free_job_ports, free_port, running_broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_configure() -> None:
    """Let Ctrl-C reach what tests start: a shell without job control ignores it for what it runs in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Bootstrap servers of a real broker with fresh data."""
    with running_broker(tmp_path_factory.mktemp("kafka")) as bootstrap_servers:
        yield bootstrap_servers


@pytest.fixture(scope="session")
def elasticsearch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a real Elasticsearch with fresh data."""
    folder = tmp_path_factory.mktemp("elasticsearch")
    server = ElasticsearchServer(folder / "data", folder / "elasticsearch.log", free_port(), free_port())
    record = server.start()
    try:
        server.wait(record, SERVER_START_S)
        yield server.url
    finally:
        stop([record], STOP_S)
        server.wipe()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One Spark session for all tests, set up as the jobs set up theirs."""
    ArtifactStore().ensure(["connector"])
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = spark_session("kappa-tests", Settings(data_dir=tmp_path_factory.mktemp("spark")))
    yield session
    session.stop()


@pytest.fixture
def local_settings(tmp_path: Path) -> Settings:
    """Settings with a data folder and ports of their own; for tests that need no servers."""
    return Settings(data_dir=tmp_path / "kappa", ports=free_job_ports())


@pytest.fixture
def settings(local_settings: Settings, kafka: str, elasticsearch: str) -> Settings:
    """Settings of the test servers, with a generation of its own per test so that topics and indices are fresh."""
    return local_settings.model_copy(
        update={
            "generation": f"t{random.getrandbits(40):x}",
            "kafka": KafkaSettings(bootstrap_servers=kafka),
            "elasticsearch": ElasticsearchSettings(url=elasticsearch),
        }
    )


@pytest.fixture
def run_job(tmp_path: Path) -> Iterator[JobRunner]:
    """Start jobs: `run_job("statistics", settings)` returns a `tests.support.Job` to stop or kill."""
    ArtifactStore().ensure(["connector"])
    runner = JobRunner(tmp_path)
    yield runner
    for job in runner.started:
        if job.process.poll() is None:
            job.kill()
