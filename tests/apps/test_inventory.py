from __future__ import annotations

from pathlib import Path

import pytest

from apps.feed.errors import FeedError
from apps.inventory import InventoryFile, read_inventory
from topics.records import Inventory

ENTRIES = (Inventory("vm-1", "upf", "north", "s1"), Inventory("vm-2", None, "south", None))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "resource,service,region,site\nvm-1,upf,north,s1\nvm-2,, south ,\n"),
        (
            "a.json",
            '[{"resource":"vm-1","service":"upf","region":"north","site":"s1"},{"resource":"vm-2","region":"south"}]',
        ),
        (
            "a.jsonl",
            '{"type":"inventory","resource":"vm-1","service":"upf","region":"north","site":"s1"}\n\n'
            '{"resource":"vm-2","service":null,"region":"south"}\n',
        ),
    ],
)
def test_the_same_entries_in_three_formats(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert read_inventory(path) == InventoryFile(ENTRIES, overridden=0)


def test_the_last_entry_of_a_resource_holds(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("resource,service\nvm-1,upf\nvm-2,smf\nvm-1,amf\n")
    assert read_inventory(path) == InventoryFile((Inventory("vm-1", "amf"), Inventory("vm-2", "smf")), overridden=1)


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.csv", "resource,owner\nvm-1,me\n", "entry 1: unknown owner. An entry has resource, service, region, site"),
        ("a.csv", "resource,service\n,upf\n", "entry 1: no resource"),
        ("a.csv", "resource\n", "no entries"),
        ("a.csv", "resource\nvm-1,upf\n", "unknown more cells than columns"),
        ("a.jsonl", '{"resource":"vm-1"}\n{"resource":7}\n', "entry 2: resource must be text"),
        ("a.jsonl", '{"resource":"vm-1","type":"calendar"}\n', "type must be inventory"),
        ("a.jsonl", "[1]", "entry 1: not an object"),
        ("a.jsonl", "resource: vm-1", "is neither CSV"),
    ],
)
def test_mistakes_are_named_with_their_place(tmp_path: Path, name: str, text: str, sentence: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(FeedError, match=sentence):
        read_inventory(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FeedError, match="cannot be read"):
        read_inventory(tmp_path / "absent.csv")
