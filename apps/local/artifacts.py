"""The Java parts of the local stack: resolved once with Ivy, checked by SHA-256, kept in the user's cache folder.

PySpark ships an Ivy jar; it resolves what `deploy/local/ivy.xml` pins. A file becomes usable only when its hash stands
in `deploy/local/artifacts.lock`; a stamp remembers size and time of checked files, so that a second run neither hashes
nor touches the network. `python -m apps.local.artifacts` fetches everything, `--lock` writes the lock file anew.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import pyspark

from apps.local.errors import LocalStackError
from apps.local.java import find_java
from apps.spark import cache_dir

Configuration = Literal["kafka", "connector", "elasticsearch"]
CONFIGURATIONS: Final[tuple[Configuration, ...]] = ("kafka", "connector", "elasticsearch")

PINS_DIR: Final = Path(__file__).resolve().parents[2] / "deploy" / "local"
SPARK_JARS_DIR: Final = Path(pyspark.__file__).parent / "jars"
#: Names an own Ivy settings file: for a mirror, or a registry behind a login.
IVY_SETTINGS_VARIABLE: Final = "KAPPA_IVY_SETTINGS"

_STAMP: Final = ".verified"
_CHUNK_BYTES: Final = 1024 * 1024


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def read_lock(path: Path) -> dict[str, dict[str, str]]:
    """Return configuration -> file name -> SHA-256 from a lock file in the format of `sha256sum`."""
    hashes: dict[str, dict[str, str]] = {}
    for line in path.read_text().splitlines():
        digest, name = line.split()
        configuration, file = name.split("/")
        hashes.setdefault(configuration, {})[file] = digest
    return hashes


@dataclass(frozen=True)
class ArtifactStore:
    """Checked files of each configuration in `<root>/lib/<configuration>`; Ivy's own cache in `<root>/ivy`."""

    root: Path = field(default_factory=cache_dir)
    pins: Path = PINS_DIR

    def ensure(self, configurations: Iterable[Configuration] = CONFIGURATIONS) -> None:
        """Make sure all files of the configurations are there and unaltered; fetch what is missing.

        Raises:
            LocalStackError: A file cannot be fetched, or its hash is not the pinned one.
        """
        missing = [item for item in configurations if not self._is_verified(item)]
        if not missing:
            return
        with self._exclusive():
            for configuration in missing:
                self._provide(configuration)

    def is_complete(self, configurations: Iterable[Configuration] = CONFIGURATIONS) -> bool:
        """Tell whether all files are there and were checked."""
        return all(self._is_verified(item) for item in configurations)

    def files(self, configuration: Configuration) -> list[Path]:
        """Return the checked files of a configuration, fetched if need be, in the order of the lock file."""
        self.ensure([configuration])
        return [self._folder(configuration) / name for name in self._pinned(configuration)]

    def write_lock(self) -> None:
        """Resolve everything anew and pin what came: the one place where unknown bytes are trusted."""
        with self._exclusive():
            lines = []
            for configuration in CONFIGURATIONS:
                with self._resolved(configuration) as folder:
                    lines += [f"{sha256(file)}  {configuration}/{file.name}\n" for file in sorted(folder.iterdir())]
        (self.pins / "artifacts.lock").write_text("".join(lines))

    def _folder(self, configuration: Configuration) -> Path:
        return self.root / "lib" / configuration

    def _pinned(self, configuration: Configuration) -> dict[str, str]:
        return read_lock(self.pins / "artifacts.lock")[configuration]

    def _provide(self, configuration: Configuration) -> None:
        if self._is_verified(configuration):  # another process was faster
            return
        if self._differing(self._folder(configuration), configuration):
            self._fetch(configuration)
        stamp = self._folder(configuration) / _STAMP
        partial = stamp.with_suffix(".part")
        partial.write_text(self._fingerprint(configuration))
        partial.replace(stamp)

    def _fetch(self, configuration: Configuration) -> None:
        """Resolve, check and install; files altered in Ivy's cache are forgotten and fetched once more."""
        differing: list[str] = []
        for _ in range(2):
            with self._resolved(configuration) as incoming:
                differing = self._differing(incoming, configuration)
                if not differing:
                    self._install(incoming, configuration)
                    return
            self._forget(differing)
        message = (
            f"Downloaded files are not the pinned ones: {', '.join(differing)}. Nothing was installed. A proxy or "
            f"mirror may have altered them; try again, or name another ivysettings.xml in {IVY_SETTINGS_VARIABLE}."
        )
        raise LocalStackError(message)

    def _install(self, incoming: Path, configuration: Configuration) -> None:
        self._folder(configuration).mkdir(parents=True, exist_ok=True)
        for name in self._pinned(configuration):
            (incoming / name).replace(self._folder(configuration) / name)

    def _differing(self, folder: Path, configuration: Configuration) -> list[str]:
        pinned = self._pinned(configuration)
        return [name for name, digest in pinned.items() if not _has_digest(folder / name, digest)]

    def _forget(self, names: Iterable[str]) -> None:
        """Remove altered files from Ivy's cache: Ivy itself never looks at them again."""
        for name in names:
            for cached in (self.root / "ivy").rglob(name):
                cached.unlink()

    def _is_verified(self, configuration: Configuration) -> bool:
        stamp = self._folder(configuration) / _STAMP
        return stamp.is_file() and stamp.read_text() == self._fingerprint(configuration)

    def _fingerprint(self, configuration: Configuration) -> str:
        """Return what a stamp holds: pinned hash, size and modification time of every file."""
        folder = self._folder(configuration)
        entries = [
            [name, digest, *_size_and_time(folder / name)] for name, digest in self._pinned(configuration).items()
        ]
        return json.dumps(entries)

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / "artifacts.mutex").open("w") as mutex:
            fcntl.flock(mutex, fcntl.LOCK_EX)
            yield

    @contextmanager
    def _resolved(self, configuration: Configuration) -> Iterator[Path]:
        """Yield a folder with the resolved files of a configuration, not yet checked; it is gone afterwards."""
        (self.root / "lib").mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.root / "lib", prefix=".incoming-") as folder:
            self._run_ivy(configuration, Path(folder))
            yield Path(folder)

    def _run_ivy(self, configuration: Configuration, target: Path) -> None:
        java = find_java()
        command = [
            *(str(java.launcher), "-XX:TieredStopAtLevel=1", "-jar", str(_ivy_jar())),
            *("-settings", os.environ.get(IVY_SETTINGS_VARIABLE) or str(self.pins / "ivysettings.xml")),
            *("-ivy", str(self.pins / "ivy.xml")),
            *("-cache", str(self.root / "ivy")),
            *("-confs", configuration),
            *("-retrieve", str(target / "[artifact]-[revision].[ext]"), "-types", "jar", "bundle", "zip"),
        ]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode:
            raise LocalStackError(_ivy_failure(configuration, answer.stdout + answer.stderr))


def _ivy_failure(configuration: str, output: str) -> str:
    reasons = [line.strip() for line in output.splitlines() if line.strip().endswith("not found") or "rror" in line]
    shown = "\n  ".join(dict.fromkeys(reasons[:8])) or output[-500:]
    return (
        f"Could not resolve the artifacts of {configuration!r} from the Maven registry:\n  {shown}\n"
        "Check the network. Behind a proxy set JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=HOST -Dhttps.proxyPort=PORT'; "
        f"with a mirror name its ivysettings.xml in {IVY_SETTINGS_VARIABLE}. "
        "Or copy the cache folder from a machine that has it."
    )


def _ivy_jar() -> Path:
    return next(SPARK_JARS_DIR.glob("ivy-*.jar"))


def _has_digest(path: Path, digest: str) -> bool:
    return path.is_file() and sha256(path) == digest


def _size_and_time(path: Path) -> tuple[int, int]:
    if not path.is_file():
        return -1, -1
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def classpath(files: Iterable[Path]) -> str:
    """Return a Java class path."""
    return os.pathsep.join(str(file) for file in files)


def main() -> None:
    """Fetch everything, or with `--lock` write the lock file anew."""
    store = ArtifactStore()
    try:
        if sys.argv[1:] == ["--lock"]:
            store.write_lock()
        else:
            store.ensure()
    except LocalStackError as error:
        sys.exit(str(error))
    folders = " ".join(str(store.root / "lib" / configuration) for configuration in CONFIGURATIONS)
    sys.stdout.write(f"artifacts ready: {folders}\n")


if __name__ == "__main__":
    main()
