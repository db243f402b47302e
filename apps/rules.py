"""Files of suppression rules, checked before anything is sent.

A TOML file holds tables `[[rule]]`, a JSON file an array of the same objects (or an object with the key `rule`).
"""

from __future__ import annotations

import tomllib
from collections import Counter
from datetime import UTC, datetime, time
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from apps.feed.errors import FeedError
from topics.controls import DAY_MINUTES, DAYS, Day, Interval, Rule, Weekly
from topics.records import Direction

_SHOWN: Final = 5
_LONGEST_NAME: Final = 512
_KEY: Final = "rule"


def _plain(name: str) -> str:
    if not name.isprintable():
        message = "holds a control character"
        raise ValueError(message)
    return name


Name = Annotated[str, Field(min_length=1, max_length=_LONGEST_NAME), AfterValidator(_plain)]
Deviation = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True, frozen=True)


class _IntervalEntry(_Part):
    start: datetime
    end: datetime

    @model_validator(mode="after")
    def _forward(self) -> _IntervalEntry:
        if _ms(self.start) >= _ms(self.end):
            message = "start must be before end"
            raise ValueError(message)
        return self

    def interval(self) -> Interval:
        return Interval(_ms(self.start), _ms(self.end))


class _WeeklyEntry(_Part):
    days: Annotated[list[Day], Field(min_length=1)]
    start: time = time()
    end: time = time()

    def weekly(self) -> Weekly:
        """Return the stretch; one that ends before it starts reaches into the next day."""
        minutes = (_minute(self.end) - _minute(self.start)) % DAY_MINUTES
        days = sorted(set(self.days), key=DAYS.index)
        return Weekly(days, _minute(self.start), minutes or DAY_MINUTES)


class _RuleEntry(_Part):
    id: Name
    resource: Name | None = None
    service: Name | None = None
    region: Name | None = None
    metric: Name | None = None
    direction: Direction | None = None
    minimal_deviation: Deviation | None = None
    minimal_relative_deviation: Deviation | None = None
    intervals: list[_IntervalEntry] = []
    weekly: list[_WeeklyEntry] = []
    skip_result: bool = True
    skip_learning: bool = False
    note: str | None = None

    @model_validator(mode="after")
    def _makes_sense(self) -> _RuleEntry:
        fault = _contradiction(self)
        if fault:
            raise ValueError(fault)
        return self

    def rule(self) -> Rule:
        values = dict(self)
        values["intervals"] = [entry.interval() for entry in self.intervals]
        values["weekly"] = [entry.weekly() for entry in self.weekly]
        return Rule(**values)


def _contradiction(entry: _RuleEntry) -> str | None:
    """Return what is wrong with a rule whose parts are each right."""
    about_value = entry.minimal_deviation is not None or entry.minimal_relative_deviation is not None
    limits = (entry.resource, entry.service, entry.region, entry.metric, entry.direction)
    if not (entry.skip_result or entry.skip_learning):
        return "does nothing: set skip_result or skip_learning"
    if not (about_value or entry.intervals or entry.weekly) and all(limit is None for limit in limits):
        return 'has neither scope nor condition and would take everything: write resource = "*" if that is meant'
    if entry.direction == "silent" and (about_value or entry.metric is not None):
        return "direction silent is about whole resources: leave out metric and deviations"
    if entry.direction in ("silent", "new") and entry.skip_learning:
        return f"direction {entry.direction} is no value a model learns: leave out skip_learning"
    if entry.direction == "new" and about_value:
        return "direction new has no expectation to deviate from: leave out the deviations"
    return None


def _ms(moment: datetime) -> int:
    """Return a time in milliseconds; one without zone is UTC."""
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _minute(moment: time) -> int:
    return moment.hour * 60 + moment.minute


def read_rules(path: Path) -> tuple[Rule, ...]:
    """Read a file of rules.

    Raises:
        FeedError: The file is missing, or a rule is wrong; the message lists the first mistakes with their place.
    """
    entries = _entries(path)
    mistakes: list[str] = []
    rules: list[Rule] = []
    for number, entry in enumerate(entries, 1):
        try:
            rules.append(_RuleEntry.model_validate(entry).rule())
        except ValidationError as wrong:
            mistakes += [f"{_called(number, entry)}{_where(each)}: {_said(each)}" for each in wrong.errors()]
    twice = [name for name, count in Counter(rule.id for rule in rules).items() if count > 1]
    mistakes += [f"{name!r} is the id of several rules" for name in twice]
    if mistakes or not entries:
        more = f"; and {len(mistakes) - _SHOWN} more" if len(mistakes) > _SHOWN else ""
        message = f"{path}: {'; '.join(mistakes[:_SHOWN]) or 'no rules: each is a table [[rule]]'}{more}"
        raise FeedError(message)
    return tuple(rules)


def _entries(path: Path) -> list[Any]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as unreadable:
        message = f"{path} cannot be read: {unreadable}"
        raise FeedError(message) from unreadable
    try:
        content = orjson.loads(text) if path.suffix.lower() == ".json" else tomllib.loads(text)
    except ValueError as broken:
        message = f"{path} is neither TOML nor (ending .json) JSON: {broken}"
        raise FeedError(message) from broken
    return _listed(path, content)


def _listed(path: Path, content: Any) -> list[Any]:
    if isinstance(content, dict) and set(content) <= {_KEY}:
        content = content.get(_KEY, [])
    if not isinstance(content, list):
        message = f"{path} holds no list of rules: in TOML each is a table [[rule]], in JSON an object of an array"
        raise FeedError(message)
    return content


def _called(number: int, entry: Any) -> str:
    name = entry.get("id") if isinstance(entry, dict) else None
    return f"rule {number} ({name})" if name else f"rule {number}"


def _where(mistake: Any) -> str:
    place = ".".join(str(part) for part in mistake["loc"])
    return f", {place}" if place else ""


def _said(mistake: Any) -> str:
    return str(mistake["msg"]).removeprefix("Value error, ")
