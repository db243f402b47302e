"""A real Elasticsearch on loopback: one node, data kept between starts.

Elasticsearch refuses to run as root. Started by root it runs as `nobody`, in folders which that user can reach: the
cache and data folders where their parents let others through, else a folder of root's in /var/tmp.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import stat
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from apps.local.artifacts import PINS_DIR, ArtifactStore
from apps.local.errors import LocalStackError
from apps.local.java import Java, find_java
from apps.local.processes import ProcessRecord, User, start, unprivileged_user, wait_until_ready
from apps.spark import cache_dir

_LOG_SETTINGS: Final = PINS_DIR / "elasticsearch-log4j2.properties"
_REPLY_TIMEOUT_S: Final = 1.0


@dataclass(frozen=True)
class ElasticsearchServer:
    """What is needed to start a node; its data live under `data_dir` or, see above, in `home`."""

    data_dir: Path
    log: Path
    port: int
    transport_port: int
    heap: str = "512m"
    user: User | None = field(default_factory=unprivileged_user)

    @property
    def url(self) -> str:
        """Address clients connect to."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def home(self) -> Path:
        """Folder of configuration and data; it belongs to the user the server runs as."""
        return self._reachable(self.data_dir, "data")

    def start(self) -> ProcessRecord:
        """Start the node without waiting for it; unpack it on the first start."""
        java = find_java()
        self._refuse_unreachable(java)
        program = self._unpacked()
        self._write_configuration()
        environment = {
            **os.environ,
            "ES_JAVA_HOME": str(java.home),
            "ES_PATH_CONF": str(self.home / "config"),
            "ES_TMPDIR": str(self.home / "tmp"),
            "HOME": str(self.home),
        }
        command = ["bash", str(program / "bin" / "elasticsearch")]
        return start("elasticsearch", command, log=self.log, port=self.port, environment=environment, user=self.user)

    def wait(self, record: ProcessRecord, timeout_s: float) -> None:
        """Wait until the node answers; raise `LocalStackError` with the end of its log if it does not."""
        wait_until_ready(record, lambda: answers(self.url), timeout_s)

    def wipe(self) -> None:
        """Remove configuration and data of a stopped node."""
        shutil.rmtree(self.home, ignore_errors=True)

    def _reachable(self, wanted: Path, purpose: str) -> Path:
        """Return a folder the server's user can reach: the wanted one, else one in /var/tmp named after it."""
        wanted = wanted.absolute()
        if self.user is None or reachable_by(wanted, self.user):
            return wanted
        digest = hashlib.sha256(str(wanted).encode()).hexdigest()[:12]
        return _shared_folder() / f"{purpose}-{digest}"

    def _refuse_unreachable(self, java: Java) -> None:
        launcher = java.launcher.resolve()
        if self.user and not reachable_by(launcher, self.user):
            message = (
                f"Elasticsearch refuses to run as root and is started as {self.user.name}, who cannot reach "
                f"{launcher}. Install Java where every user can read it (/usr/lib/jvm), or run kappa as another user."
            )
            raise LocalStackError(message)

    def _unpacked(self) -> Path:
        archive = ArtifactStore().files("elasticsearch")[0]
        target = self._reachable(cache_dir(), "programs") / archive.stem
        if target.is_dir():
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        with _exclusive(target.parent / "unpack.mutex"):
            if not target.is_dir():
                _unpack(archive, target)
        return target

    def _write_configuration(self) -> None:
        config = self.home / "config"
        for folder in (config, self.home / "tmp", self.home / "data"):
            folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_LOG_SETTINGS, config / "log4j2.properties")
        (config / "jvm.options").write_text(self._jvm_options())
        (config / "elasticsearch.yml").write_text(self._node_settings())
        if self.user:
            _give(self.home, self.user)

    def _jvm_options(self) -> str:
        return f"""\
-Xms{self.heap}
-Xmx{self.heap}
-XX:+UseSerialGC
-XX:TieredStopAtLevel=1
-XX:+ExitOnOutOfMemoryError
-Djava.io.tmpdir=${{ES_TMPDIR}}
-Dorg.apache.lucene.store.MMapDirectory.sharedArenaMaxPermits=1
"""

    def _node_settings(self) -> str:
        """Settings of one node on loopback; the small distribution knows no others."""
        values = {
            "cluster.name": "kappa",
            "node.name": "local",
            "path.data": str(self.home / "data"),
            "path.logs": str(self.home / "tmp"),
            "network.host": "127.0.0.1",
            "http.port": self.port,
            "transport.port": self.transport_port,
            "discovery.type": "single-node",
            "xpack.security.enabled": False,
            "cluster.routing.allocation.disk.threshold_enabled": False,
        }
        return "".join(f"{name}: {json.dumps(value)}\n" for name, value in values.items())


def answers(url: str) -> bool:
    """Tell whether a node answers and can serve; `GET /` is not among what the small distribution knows."""
    try:
        with urllib.request.urlopen(f"{url}/_cluster/health", timeout=_REPLY_TIMEOUT_S) as reply:
            return json.load(reply)["status"] in ("green", "yellow")
    except (OSError, urllib.error.URLError, ValueError):
        return False


def reachable_by(path: Path, user: User) -> bool:
    """Tell whether a user may pass through all existing folders on the way to a path."""
    existing = [folder for folder in (path, *path.parents) if folder.exists()]
    return all(_may_enter(folder.stat(), user) for folder in existing)


def _may_enter(status: os.stat_result, user: User) -> bool:
    if status.st_uid == user.uid:
        return bool(status.st_mode & stat.S_IXUSR)
    if status.st_gid == user.gid:
        return bool(status.st_mode & stat.S_IXGRP)
    return bool(status.st_mode & stat.S_IXOTH)


def _shared_folder() -> Path:
    """Return root's own folder in /var/tmp; nobody else may have made or may alter it."""
    folder = Path("/var/tmp") / f"kappa-{os.geteuid()}"
    folder.mkdir(mode=0o755, exist_ok=True)
    status = folder.lstat()
    if status.st_uid != os.geteuid() or not stat.S_ISDIR(status.st_mode) or status.st_mode & 0o022:
        message = f"{folder} belongs to someone else or others may write to it: remove it and start again."
        raise LocalStackError(message)
    return folder


def _unpack(archive: Path, target: Path) -> None:
    """Unpack an archive with one top folder; the target appears complete or not at all."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".unpacking-") as folder:
        with zipfile.ZipFile(archive) as content:
            content.extractall(folder)
        top = next(Path(folder).iterdir())
        _let_all_read(top)
        top.replace(target)


def _let_all_read(top: Path) -> None:
    for path in (top, *top.rglob("*")):
        path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)


def _give(top: Path, user: User) -> None:
    for path in (top, *top.rglob("*")):
        os.chown(path, user.uid, user.gid, follow_symlinks=False)
    top.chmod(0o755)


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    with path.open("w") as mutex:
        fcntl.flock(mutex, fcntl.LOCK_EX)
        yield
