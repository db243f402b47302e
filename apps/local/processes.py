"""Processes of the local stack: each in a session of its own, known by pid and create time, stopped gently first."""

from __future__ import annotations

import os
import pwd
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from apps.local.errors import LocalStackError

_POLL_S: Final = 0.1
_LOG_LINES: Final = 15
#: Create times are read back from the kernel's clock ticks; they agree to well below this.
_SAME_PROCESS_S: Final = 0.05


@dataclass(frozen=True)
class User:
    """The unprivileged user a server runs as when we are root."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True)
class ProcessRecord:
    """A started process. `create_time` tells it from a later process with the same pid."""

    name: str
    pid: int
    create_time: float
    log: str
    port: int

    def process(self) -> psutil.Process | None:
        """Return the live process, or None if it has ended."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.create_time) < _SAME_PROCESS_S
            alive = same and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return None
        return process if alive else None


def unprivileged_user() -> User | None:
    """Return the user for servers that refuse root: `nobody`, or None when we are not root ourselves."""
    if os.geteuid() != 0:
        return None
    entry = pwd.getpwnam("nobody")
    return User(entry.pw_name, entry.pw_uid, entry.pw_gid)


def start(
    name: str, command: Sequence[str], *, log: Path, port: int, environment: Mapping[str, str], user: User | None = None
) -> ProcessRecord:
    """Start a process detached from the terminal; its output is appended to `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            start_new_session=True,
            user=user.uid if user else None,
            group=user.gid if user else None,
            extra_groups=[] if user else None,
        )
    _children[child.pid] = child
    return ProcessRecord(name, child.pid, psutil.Process(child.pid).create_time(), str(log), port)


#: Kept so that Python reaps the children that end while we run.
_children: Final[dict[int, subprocess.Popen[bytes]]] = {}


def stop(records: Iterable[ProcessRecord], timeout_s: float) -> None:
    """Ask processes to end with SIGTERM, wait for them together, and kill those still there after the timeout.

    Descendants are killed only if they outlive their parent: a driver takes its own workers down with it.
    """
    processes = [process for record in records if (process := record.process())]
    families = [member for process in processes for member in _descendants(process)]
    for process in processes:
        _signal(process.terminate)
    _, stubborn = psutil.wait_procs(processes, timeout=timeout_s)
    _, orphans = psutil.wait_procs(families, timeout=2.0 if not stubborn else 0.0)
    for process in [*stubborn, *orphans]:
        _signal(process.kill)
    psutil.wait_procs([*stubborn, *orphans], timeout=10)
    for process in processes:
        if child := _children.pop(process.pid, None):
            child.poll()


def stop_children(timeout_s: float) -> None:
    """Stop whatever this Python process started and still runs, also what no stack file knows of yet."""
    for child in list(_children.values()):
        if child.poll() is None:
            stop([ProcessRecord("", child.pid, psutil.Process(child.pid).create_time(), "", 0)], timeout_s)


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _signal(send: Callable[[], None]) -> None:
    try:
        send()
    except psutil.NoSuchProcess:
        return


def wait_until_ready(record: ProcessRecord, is_ready: Callable[[], bool], timeout_s: float) -> None:
    """Wait until a started process answers.

    Raises:
        LocalStackError: It ended, or does not answer in time; the message shows the end of its log.
    """
    deadline = time.monotonic() + timeout_s
    while not is_ready():
        if record.process() is None:
            message = (
                f"{record.name} ended while starting. The end of its log {record.log}:\n{log_end(Path(record.log))}"
            )
            raise LocalStackError(message)
        if time.monotonic() > deadline:
            message = (
                f"{record.name} does not answer on port {record.port} after {timeout_s:.0f} s. "
                f"Its log {record.log} ends with:\n"
                f"{log_end(Path(record.log))}\nOn a slow machine raise [local] startup_timeout_s."
            )
            raise LocalStackError(message)
        time.sleep(_POLL_S)


def log_end(path: Path, lines: int = _LOG_LINES) -> str:
    """Return the last lines of a log file."""
    if not path.is_file():
        return "(no log)"
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
