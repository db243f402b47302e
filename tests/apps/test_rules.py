from __future__ import annotations

from pathlib import Path

import pytest

from apps.control import rules_in_effect
from apps.feed.errors import FeedError
from apps.rules import read_rules
from apps.rules_view import actions_text, conditions_text, scope_text
from topics.controls import Interval, Rule, RuleRemoval, Weekly
from topics.records import Inventory

TOML = """
[[rule]]
id = "backup"
resource = "db-*"
metric = "system.disk.*"
direction = "high"
minimal_relative_deviation = 0.5
weekly = [{ days = ["sun", "sat"], start = "22:00", end = "02:00" }, { days = ["mon"] }]
skip_learning = true
note = "nightly"

[[rule]]
id = "move"
region = "north"
minimal_deviation = 3
intervals = [{ start = 2026-11-01T00:00:00Z, end = "2026-11-01T05:00:00+01:00" }]
"""
JSON = """
[{"id": "backup", "resource": "db-*", "metric": "system.disk.*", "direction": "high",
  "minimal_relative_deviation": 0.5, "skip_learning": true, "note": "nightly",
  "weekly": [{"days": ["sat", "sun"], "start": "22:00", "end": "02:00"}, {"days": ["mon"]}]},
 {"id": "move", "region": "north", "minimal_deviation": 3.0, "service": null,
  "intervals": [{"start": "2026-11-01T00:00", "end": "2026-11-01T04:00Z"}]}]
"""
NOVEMBER_MS = 1_793_491_200_000
RULES = (
    Rule(
        "backup",
        resource="db-*",
        metric="system.disk.*",
        direction="high",
        minimal_relative_deviation=0.5,
        weekly=[Weekly(["sat", "sun"], 22 * 60, 4 * 60), Weekly(["mon"], 0, 24 * 60)],
        skip_learning=True,
        note="nightly",
    ),
    Rule(
        "move",
        region="north",
        minimal_deviation=3.0,
        intervals=[Interval(NOVEMBER_MS, NOVEMBER_MS + 4 * 3_600_000)],
    ),
)


@pytest.mark.parametrize(("name", "text"), [("r.toml", TOML), ("r.json", JSON), ("r.json", f'{{"rule": {JSON}}}')])
def test_the_same_rules_in_two_formats(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert read_rules(path) == RULES


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ('resource = "x"', "rule 1, id: Field required"),
        ('id = ""\nresource = "x"', "rule 1, id: String should have at least 1 character"),
        ('id = "a\\u0007"\nresource = "x"', "id: holds a control character"),
        ('id = "a"', r"rule 1 \(a\): has neither scope nor condition"),
        ('id = "a"\nhost = "x"', r"rule 1 \(a\), host: Extra inputs are not permitted"),
        ('id = "a"\nresource = 5', "resource: Input should be a valid string"),
        ('id = "a"\ndirection = "up"', "direction: Input should be 'high', 'low', 'new' or 'silent'"),
        ('id = "a"\nminimal_deviation = 0', "minimal_deviation: Input should be greater than 0"),
        ('id = "a"\nminimal_relative_deviation = inf', "minimal_relative_deviation: Input should be a finite number"),
        ('id = "a"\nresource = "x"\nskip_result = false', "does nothing: set skip_result or skip_learning"),
        ('id = "a"\ndirection = "silent"\nmetric = "m"', "direction silent is about whole resources"),
        ('id = "a"\ndirection = "silent"\nskip_learning = true', "direction silent is no value a model learns"),
        ('id = "a"\ndirection = "new"\nminimal_deviation = 1', "direction new has no expectation"),
        ('id = "a"\nweekly = [{ days = [] }]', r"weekly\.0\.days: List should have at least 1 item"),
        ('id = "a"\nweekly = [{ days = ["sunday"] }]', r"weekly\.0\.days\.0: Input should be 'mon'"),
        ('id = "a"\nweekly = [{ days = ["sun"], start = "25:00" }]', r"weekly\.0\.start: Input should be in a valid"),
        (
            'id = "a"\nintervals = [{ start = "2026-11-02", end = "2026-11-01" }]',
            r"intervals\.0: start must be before end",
        ),
        ('id = "a"\nresource = "x"\n[[rule]]\nid = "a"\nresource = "y"', "'a' is the id of several rules"),
        ("id = ", "is neither TOML nor"),
    ],
)
def test_mistakes_are_named_with_their_place(tmp_path: Path, body: str, sentence: str) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(f"[[rule]]\n{body}\n")
    with pytest.raises(FeedError, match=sentence):
        read_rules(path)


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("r.toml", "", "no rules: each is a table"),
        ("r.toml", 'id = "a"', "holds no list of rules"),
        ("r.json", '{"id": "a"}', "holds no list of rules"),
        ("r.json", "[1]", "rule 1: Input should be a valid dictionary"),
        ("r.json", "id", "is neither TOML nor"),
    ],
)
def test_files_of_another_shape_are_refused(tmp_path: Path, name: str, text: str, sentence: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(FeedError, match=sentence):
        read_rules(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FeedError, match="cannot be read"):
        read_rules(tmp_path / "absent.toml")


def test_the_last_word_on_a_rule_holds() -> None:
    first, second, other = Rule("a", resource="x"), Rule("a", resource="y"), Rule("b", metric="m")
    log = [other, first, Inventory("vm-1"), second, RuleRemoval("c")]
    assert rules_in_effect(log) == (second, other)
    assert rules_in_effect([*log, RuleRemoval("a")]) == (other,)
    assert rules_in_effect([*log, RuleRemoval("a"), first]) == (first, other)


def test_rules_in_words() -> None:
    backup, move = RULES
    assert scope_text(backup) == "resource db-*, metric system.disk.*"
    assert conditions_text(backup) == (
        "high, less than 0.5 of the expected value off, sat sun 22:00 to 02:00 UTC or mon"
    )
    assert actions_text(backup) == "result, learning"
    assert (scope_text(move), actions_text(move)) == ("region north", "result")
    assert conditions_text(move) == "less than 3 off, 2026-11-01T00:00Z to 2026-11-01T04:00Z"
    everything = Rule("a")
    assert (scope_text(everything), conditions_text(everything)) == ("everything", "always")
