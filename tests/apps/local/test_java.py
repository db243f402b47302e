"""Finding Java, and what is said when there is none that fits."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.local.errors import LocalStackError
from apps.local.java import find_java, parse_version


def _java(folder: Path, version: str, exit_code: int = 0) -> Path:
    """Write a launcher that answers `-version` as a Java of that version does."""
    launcher = folder / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-01' >&2\nexit {exit_code}\n")
    launcher.chmod(0o755)
    return launcher


def test_java_of_the_path_is_found_with_its_version(tmp_path: Path) -> None:
    launcher = _java(tmp_path, "21.0.2")
    java = find_java({"PATH": str(launcher.parent)})
    assert (java.launcher, java.version) == (launcher, 21)


def test_java_home_goes_before_the_path(tmp_path: Path) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    _java(home, "17.0.1")
    on_path = _java(other, "21")
    assert find_java({"JAVA_HOME": str(home), "PATH": str(on_path.parent)}).version == 17


def test_no_java_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(LocalStackError, match=r"No Java found. Install a Java 17 or newer .* JAVA_HOME"):
        find_java({"PATH": str(tmp_path)})


def test_old_java_is_refused_by_name(tmp_path: Path) -> None:
    launcher = _java(tmp_path, "1.8.0_392")
    with pytest.raises(LocalStackError, match=rf"{launcher} is Java 8, but Java 17 or newer is needed"):
        find_java({"PATH": str(launcher.parent)})


def test_wrong_java_home_is_named(tmp_path: Path) -> None:
    with pytest.raises(LocalStackError, match="Correct JAVA_HOME or unset it"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": ""})


def test_java_that_does_not_start_is_named(tmp_path: Path) -> None:
    launcher = _java(tmp_path, "17", exit_code=1)
    with pytest.raises(LocalStackError, match="does not start"):
        find_java({"PATH": str(launcher.parent)})


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_202"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21-ea" 2023-09-19', 21),
    ],
)
def test_versions_as_vendors_write_them(text: str, version: int) -> None:
    assert parse_version(text) == version


def test_unknown_answer_is_shown() -> None:
    with pytest.raises(LocalStackError, match="no such thing"):
        parse_version("no such thing")
