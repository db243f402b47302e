"""What is said before the local stack starts when something does not hold."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from apps.local import preflight
from apps.local.elasticsearch import reachable_by
from apps.local.errors import LocalStackError
from apps.local.processes import User
from apps.settings import ElasticsearchSettings, KafkaSettings, LocalSettings, Settings
from tests.support import free_port


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", free_port()))
        server.listen()
        yield server.getsockname()[1]


def test_taken_port_names_process_and_setting(taken_port: int) -> None:
    settings = Settings(kafka=KafkaSettings(bootstrap_servers=f"127.0.0.1:{taken_port}"))
    with pytest.raises(LocalStackError) as error:
        preflight.check_ports(preflight.ports(settings, []))
    assert f"Port {taken_port}, wanted for Kafka, is in use" in str(error.value)
    assert f"kappa up --set kafka.bootstrap_servers=127.0.0.1:{taken_port + 1000}" in str(error.value)
    assert f"(pid {os.getpid()})" in str(error.value) or os.geteuid() != 0


def test_port_wanted_twice_names_both_settings() -> None:
    port = free_port()
    settings = Settings(
        kafka=KafkaSettings(bootstrap_servers=f"127.0.0.1:{port}"), local=LocalSettings(controller_port=port)
    )
    with pytest.raises(LocalStackError, match=r"local\.controller_port and kafka\.bootstrap_servers both name port"):
        preflight.check_ports(preflight.ports(settings, []))


def test_free_ports_pass(local_settings: Settings) -> None:
    wanted = preflight.ports(local_settings, ["statistics", "novelty"])
    preflight.check_ports(use for use in wanted if use.process in ("statistics", "novelty"))
    assert {use.port for use in wanted} >= {local_settings.ports.statistics, local_settings.ports.novelty}


@pytest.mark.parametrize("servers", ["kafka.example:9092", "127.0.0.1:1,127.0.0.1:2", "127.0.0.1"])
def test_broker_elsewhere_is_not_ours_to_start(servers: str) -> None:
    with pytest.raises(LocalStackError, match="starts servers on loopback only"):
        preflight.broker_port(Settings(kafka=KafkaSettings(bootstrap_servers=servers)))


def test_encrypted_elasticsearch_is_not_ours_to_start() -> None:
    with pytest.raises(LocalStackError, match="plain http"):
        preflight.elasticsearch_port(Settings(elasticsearch=ElasticsearchSettings(url="https://127.0.0.1:9200")))


def test_full_disk_says_how_much_is_missing(tmp_path: Path) -> None:
    with pytest.raises(LocalStackError, match=r"Only \d+ MB are free .* wants 1000000000000 MB. Make room"):
        preflight.check_data_dir(tmp_path, 10**12)


def test_data_folder_that_cannot_be_made_names_the_setting(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(LocalStackError, match="set KAPPA_DATA_DIR"):
        preflight.check_data_dir(tmp_path / "file" / "data", 0)


def test_data_folder_without_permission_is_named() -> None:
    folder = tempfile.mkdtemp(dir="/var/tmp")
    Path(folder).chmod(0o555)
    with pytest.raises(LocalStackError, match="is not writable"), _not_root():
        preflight.check_data_dir(Path(folder), 0)
    Path(folder).rmdir()


@contextmanager
def _not_root() -> Iterator[None]:
    """Be somebody who may not write everywhere."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


def test_another_user_reaches_only_open_folders(tmp_path: Path) -> None:
    stranger = User("stranger", 54321, 54321)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    assert not reachable_by(closed / "below", stranger)
    assert reachable_by(Path("/var/tmp"), stranger)
