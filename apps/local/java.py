"""Finding Java: the one prerequisite of the local stack beside Python."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from apps.local.errors import LocalStackError

MINIMUM_VERSION: Final = 17
_HOW_TO_INSTALL: Final = (
    f"Install a Java {MINIMUM_VERSION} or newer (Debian: apt install openjdk-17-jre-headless; macOS: "
    "brew install openjdk@17) and put `java` on the PATH or set JAVA_HOME."
)


@dataclass(frozen=True)
class Java:
    """A Java runtime: its launcher and its major version."""

    launcher: Path
    version: int

    @property
    def home(self) -> Path:
        """Folder that holds `bin/java`."""
        return self.launcher.resolve().parent.parent


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """Return the Java of JAVA_HOME, else of the PATH.

    Raises:
        LocalStackError: There is none, it does not start, or it is older than `MINIMUM_VERSION`.
    """
    launcher = _launcher(environment)
    version = parse_version(_version_text(launcher))
    if version < MINIMUM_VERSION:
        message = f"{launcher} is Java {version}, but Java {MINIMUM_VERSION} or newer is needed. {_HOW_TO_INSTALL}"
        raise LocalStackError(message)
    return Java(launcher, version)


def _launcher(environment: Mapping[str, str]) -> Path:
    home = environment.get("JAVA_HOME")
    if home:
        launcher = Path(home) / "bin" / "java"
        if launcher.is_file():
            return launcher
        message = f"JAVA_HOME is {home}, but there is no {launcher}. Correct JAVA_HOME or unset it. {_HOW_TO_INSTALL}"
        raise LocalStackError(message)
    found = shutil.which("java", path=environment.get("PATH", ""))
    if found is None:
        message = f"No Java found. {_HOW_TO_INSTALL}"
        raise LocalStackError(message)
    return Path(found)


def _version_text(launcher: Path) -> str:
    try:
        answer = subprocess.run([launcher, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        message = f"{launcher} does not start ({error}). {_HOW_TO_INSTALL}"
        raise LocalStackError(message) from error
    return answer.stderr + answer.stdout


def parse_version(text: str) -> int:
    """Return the major version from the output of `java -version`; 8 for `1.8.0_392`.

    Raises:
        LocalStackError: The output names no version.
    """
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    if found is None:
        message = f"Cannot read the Java version from {text.strip()!r}. {_HOW_TO_INSTALL}"
        raise LocalStackError(message)
    return int(found.group(1))
