"""What must hold before the local stack starts, each with the sentence that says what to do when it does not."""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from apps.local.errors import LocalStackError
from apps.local.java import find_java
from apps.settings import Settings


@dataclass(frozen=True)
class PortUse:
    """A port the stack needs, the process that listens on it, and the setting that changes it."""

    process: str
    purpose: str
    port: int
    setting: str
    value_format: str

    @property
    def other_value(self) -> str:
        """A value of the setting that names another port."""
        return self.value_format.format(self.port + 1000)


def broker_port(settings: Settings) -> int:
    """Return the broker's port; refuse an address that is not on loopback."""
    host, _, port = settings.kafka.bootstrap_servers.rpartition(":")
    return _loopback_port(host, port, "[kafka] bootstrap_servers", settings.kafka.bootstrap_servers)


def elasticsearch_port(settings: Settings) -> int:
    """Return Elasticsearch's port; refuse an address that is not on loopback."""
    url = urlsplit(settings.elasticsearch.url)
    if url.scheme != "http":
        message = f"[elasticsearch] url is {settings.elasticsearch.url}, but the local stack speaks plain http."
        raise LocalStackError(message)
    return _loopback_port(url.hostname or "", str(url.port or ""), "[elasticsearch] url", settings.elasticsearch.url)


def _loopback_port(host: str, port: str, setting: str, value: str) -> int:
    if host in ("127.0.0.1", "localhost") and port.isdigit():
        return int(port)
    message = (
        f"{setting} is {value!r}, but `kappa up` starts servers on loopback only. Set it to 127.0.0.1:PORT; or, with "
        "servers elsewhere, start the jobs alone (`python -m apps.statistics`, ...)."
    )
    raise LocalStackError(message)


def ports(settings: Settings, jobs: Iterable[str]) -> list[PortUse]:
    """Return every port the stack will listen on."""
    local = settings.local
    kafka, elasticsearch = broker_port(settings), elasticsearch_port(settings)
    servers = (
        ("kafka", "Kafka", kafka, "kafka.bootstrap_servers", "127.0.0.1:{}"),
        ("kafka", "Kafka's controller", local.controller_port, "local.controller_port", "{}"),
        ("elasticsearch", "Elasticsearch", elasticsearch, "elasticsearch.url", "http://127.0.0.1:{}"),
        (
            "elasticsearch",
            "Elasticsearch's transport",
            local.elasticsearch_transport_port,
            "local.elasticsearch_transport_port",
            "{}",
        ),
    )
    own = ((job, f"the {job} job's metrics", getattr(settings.ports, job), f"ports.{job}", "{}") for job in jobs)
    return [PortUse(*use) for use in (*servers, *own)]


def check_java() -> None:
    """Refuse to start without a Java that is new enough."""
    find_java()


def check_ports(wanted: Iterable[PortUse]) -> None:
    """Refuse to start when a port is taken, or wanted twice."""
    seen: dict[int, PortUse] = {}
    for use in wanted:
        if use.port in seen:
            message = f"{use.setting} and {seen[use.port].setting} both name port {use.port}: give one of them another."
            raise LocalStackError(message)
        seen[use.port] = use
        if not _is_free(use.port):
            raise LocalStackError(_taken(use))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: TIME_WAIT is no obstacle
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _taken(use: PortUse) -> str:
    return (
        f"Port {use.port}, wanted for {use.purpose}, is in use{_listener(use.port)}. Stop that process, or choose "
        f"another port: `kappa up --set {use.setting}={use.other_value}`, or the same in kappa.toml."
    )


def _listener(port: int) -> str:
    """Return ` by NAME (pid N)` as far as the system tells."""
    try:
        connections = psutil.net_connections("tcp")
    except (psutil.AccessDenied, PermissionError):
        return ""
    for item in connections:
        if item.pid and item.status == psutil.CONN_LISTEN and item.laddr and item.laddr.port == port:
            return f" by {psutil.Process(item.pid).name()} (pid {item.pid})"
    return ""


def check_data_dir(data_dir: Path, minimum_free_mb: int) -> None:
    """Refuse to start when the data folder cannot be written or its disk is nearly full."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"Cannot create the data folder {data_dir} ({error.strerror}): set KAPPA_DATA_DIR to another."
        raise LocalStackError(message) from error
    try:
        tempfile.TemporaryFile(dir=data_dir).close()
    except OSError as error:
        message = f"The data folder {data_dir} is not writable. Change its owner, or set KAPPA_DATA_DIR to another."
        raise LocalStackError(message) from error
    free_mb = shutil.disk_usage(data_dir).free // 2**20
    if free_mb < minimum_free_mb:
        message = (
            f"Only {free_mb} MB are free on the disk of {data_dir}; the local stack wants {minimum_free_mb} MB. Make "
            "room (`kappa down --wipe` removes a stack's data), set KAPPA_DATA_DIR to another disk, or lower "
            "[local] minimum_free_disk_mb."
        )
        raise LocalStackError(message)
