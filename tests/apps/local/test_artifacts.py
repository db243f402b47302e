"""Artifacts: only pinned bytes become usable, nothing is fetched twice, failures say what to do."""

from __future__ import annotations

import hashlib
import shutil
import threading
from pathlib import Path

import pytest

from apps.local.artifacts import (
    CONFIGURATIONS,
    IVY_SETTINGS_VARIABLE,
    PINS_DIR,
    ArtifactStore,
    read_lock,
)
from apps.local.errors import LocalStackError

LIBRARY = "org.example#library"


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Maven registry in a folder, with one library, and an ivysettings.xml that names it."""
    folder = tmp_path / "registry"
    module = folder / "org" / "example" / "library" / "1.0"
    module.mkdir(parents=True)
    (module / "library-1.0.jar").write_bytes(b"the pinned bytes")
    (module / "library-1.0.pom").write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId>"
        "<artifactId>library</artifactId><version>1.0</version></project>"
    )
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="own"/><resolvers>'
        f'<ibiblio name="own" m2compatible="true" root="{folder.as_uri()}"/></resolvers></ivysettings>'
    )
    monkeypatch.setenv(IVY_SETTINGS_VARIABLE, str(settings))
    return module


@pytest.fixture
def store(tmp_path: Path, registry: Path) -> ArtifactStore:
    """A store whose Kafka is that one library."""
    pins = tmp_path / "pins"
    pins.mkdir()
    (pins / "ivy.xml").write_text(
        '<ivy-module version="2.0"><info organisation="test" module="pins" revision="1"/>'
        '<configurations><conf name="kafka"/></configurations><dependencies>'
        '<dependency org="org.example" name="library" rev="1.0" conf="kafka->default"/></dependencies></ivy-module>'
    )
    digest = hashlib.sha256(b"the pinned bytes").hexdigest()
    (pins / "artifacts.lock").write_text(f"{digest}  kafka/library-1.0.jar\n")
    return ArtifactStore(tmp_path / "cache", pins)


def test_fetches_once_and_then_needs_no_registry(store: ArtifactStore, registry: Path) -> None:
    (jar,) = store.files("kafka")
    assert jar.read_bytes() == b"the pinned bytes"
    shutil.rmtree(registry)
    shutil.rmtree(store.root / "ivy")
    assert store.is_complete(["kafka"])
    assert store.files("kafka") == [jar]


def test_refuses_bytes_that_are_not_the_pinned_ones(store: ArtifactStore, registry: Path) -> None:
    (registry / "library-1.0.jar").write_bytes(b"other bytes")
    with pytest.raises(LocalStackError, match=r"not the pinned ones: library-1.0.jar. Nothing was installed"):
        store.ensure(["kafka"])
    assert not list((store.root / "lib").rglob("*.jar"))


def test_altered_file_is_replaced_by_the_pinned_one(store: ArtifactStore) -> None:
    (jar,) = store.files("kafka")
    jar.write_bytes(b"cut off")
    assert not store.is_complete(["kafka"])
    assert store.files("kafka")[0].read_bytes() == b"the pinned bytes"


def test_file_altered_in_the_cache_of_ivy_is_fetched_again(store: ArtifactStore) -> None:
    (jar,) = store.files("kafka")
    jar.unlink()
    for cached in (store.root / "ivy").rglob("library-1.0.jar"):
        cached.write_bytes(b"cut off")
    assert store.files("kafka")[0].read_bytes() == b"the pinned bytes"


def test_unreachable_registry_says_what_to_do(store: ArtifactStore, registry: Path) -> None:
    shutil.rmtree(registry)
    with pytest.raises(LocalStackError, match=rf"(?s)library.*Behind a proxy set .*{IVY_SETTINGS_VARIABLE}"):
        store.ensure(["kafka"])


def test_many_at_once_fetch_without_hindering_each_other(store: ArtifactStore) -> None:
    failures: list[BaseException] = []

    def ensure() -> None:
        try:
            store.ensure(["kafka"])
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=ensure) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert store.is_complete(["kafka"])


def test_every_pin_of_the_project_has_a_hash() -> None:
    lock = read_lock(PINS_DIR / "artifacts.lock")
    assert set(lock) == set(CONFIGURATIONS)
    assert all(len(digest) == 64 for files in lock.values() for digest in files.values())


def test_no_registry_host_is_named_in_the_pins() -> None:
    texts = [path.read_text() for path in PINS_DIR.iterdir()]
    assert not any("http://" in text or "https://" in text for text in texts)
