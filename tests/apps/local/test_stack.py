"""The stack as a whole: what `kappa up`, `status`, `down` do with real processes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from apps.local.errors import LocalStackError
from apps.local.stack import StackFile
from apps.settings import Settings
from tests.support import free_port


def _kappa(folder: Path, *arguments: str, code: int = 0) -> str:
    """Run a `kappa` command on a data folder of its own and return what it says."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KAPPA_")}
    answer = subprocess.run(
        [sys.executable, "-m", "apps.cli", *arguments],
        env={**environment, "KAPPA_DATA_DIR": str(folder / "data"), "COLUMNS": "400"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert answer.returncode == code, answer.stdout + answer.stderr
    return answer.stdout + answer.stderr


def _status(folder: Path, code: int = 0) -> dict[str, dict[str, Any]]:
    return {process["name"]: process for process in json.loads(_kappa(folder, "status", "--json", code=code))}


def _own_ports() -> list[str]:
    settings = {
        "kafka.bootstrap_servers": f"127.0.0.1:{free_port()}",
        "local.controller_port": free_port(),
        "elasticsearch.url": f"http://127.0.0.1:{free_port()}",
        "local.elasticsearch_transport_port": free_port(),
        "ports.heartbeat": free_port(),
    }
    return [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]


@pytest.mark.stack
def test_life_of_a_stack(tmp_path: Path) -> None:
    ports = _own_ports()
    try:
        assert "ready" in _kappa(tmp_path, "up", "--jobs", "heartbeat", *ports)
        running = _status(tmp_path)
        assert {name for name, item in running.items() if item["state"] == "ready"} == {
            "kafka",
            "elasticsearch",
            "heartbeat",
        }

        # Started again, it says that it runs; with other settings, that it must go down first.
        assert "already running" in _kappa(tmp_path, "up", "--jobs", "heartbeat", code=1)
        other = _kappa(tmp_path, "up", "--jobs", "heartbeat", "--set", "time.window_s=5", code=1)
        assert "runs with other settings (KAPPA_TIME__WINDOW_S)" in other

        # A job that ended is reported with its log, and started again, alone.
        psutil.Process(running["heartbeat"]["pid"]).kill()
        assert _status(tmp_path, code=1)["heartbeat"]["state"] == "ended"
        assert "heartbeat has ended; its log: " in _kappa(tmp_path, "status", code=1)
        _kappa(tmp_path, "up", "--jobs", "heartbeat")
        again = _status(tmp_path)
        assert again["heartbeat"]["state"] == "ready"
        assert again["kafka"]["pid"] == running["kafka"]["pid"]
        assert "ticking" in _kappa(tmp_path, "logs", "heartbeat")

        # A machine that lost power leaves a stack file behind; `kappa up` goes on with its settings.
        for item in again.values():
            if item["pid"]:
                for process in (*psutil.Process(item["pid"]).children(recursive=True), psutil.Process(item["pid"])):
                    process.kill()
        told = _kappa(tmp_path, "up", "--jobs", "heartbeat")
        assert "the stack ended without `kappa down`" in told
        assert "0 topics created" in told
    finally:
        pids = [item["pid"] for item in _status(tmp_path).values() if item["pid"]]
        _kappa(tmp_path, "down", "--wipe")
    assert pids
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["stack.mutex"]
    assert "nothing was running" in _kappa(tmp_path, "down")


def test_wrong_arguments_are_explained(tmp_path: Path) -> None:
    assert "no such job: nonsense" in _kappa(tmp_path, "up", "--jobs", "nonsense", code=2)
    assert "is not section.name=value" in re.sub(r"[│\s]+", " ", _kappa(tmp_path, "up", "--set", "window", code=2))
    assert "time.window_s" in _kappa(tmp_path, "up", "--set", "time.window_s=long", code=1)
    assert "no logs in" in _kappa(tmp_path, "logs", code=1)


def test_broken_stack_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "stack.json"
    path.write_text("{")
    with pytest.raises(LocalStackError, match="cannot be read"):
        StackFile.read(path)


def test_stack_file_reads_what_it_wrote(tmp_path: Path, local_settings: Settings) -> None:
    file = StackFile({"KAPPA_DATA_DIR": str(local_settings.data_dir)})
    file.write(tmp_path / "stack.json")
    assert StackFile.read(tmp_path / "stack.json") == file
    assert StackFile.read(tmp_path / "absent.json") is None
