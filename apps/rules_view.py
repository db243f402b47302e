"""Suppression rules in words."""

from __future__ import annotations

from collections.abc import Iterator

from apps.feed.times import format_ns
from topics.controls import DAY_MINUTES, Interval, Rule, Weekly

_NS_PER_MS = 10**6


def scope_text(rule: Rule) -> str:
    """Return what a rule is about: `resource db-*, metric system.disk.*`."""
    patterns = (
        ("resource", rule.resource), ("service", rule.service), ("region", rule.region), ("metric", rule.metric),
    )  # fmt: skip
    return ", ".join(f"{name} {pattern}" for name, pattern in patterns if pattern is not None) or "everything"


def conditions_text(rule: Rule) -> str:
    """Return when a rule holds: `high, less than 20 % off, sat sun 22:00 to 02:00 UTC`."""
    return ", ".join(_conditions(rule)) or "always"


def _conditions(rule: Rule) -> Iterator[str]:
    if rule.direction is not None:
        yield rule.direction
    if rule.minimal_deviation is not None:
        yield f"less than {rule.minimal_deviation:g} off"
    if rule.minimal_relative_deviation is not None:
        yield f"less than {rule.minimal_relative_deviation:.3g} of the expected value off"
    stretches = [*map(_interval, rule.intervals), *map(_weekly, rule.weekly)]
    if stretches:
        yield " or ".join(stretches)


def _interval(interval: Interval) -> str:
    return f"{_moment(interval.start_ms)} to {_moment(interval.end_ms)}"


def _moment(time_ms: int) -> str:
    return format_ns(time_ms * _NS_PER_MS)[:16] + "Z"


def _weekly(weekly: Weekly) -> str:
    end = weekly.start_minute + weekly.duration_minutes
    if weekly.duration_minutes == DAY_MINUTES and weekly.start_minute == 0:
        return " ".join(weekly.days)
    return f"{' '.join(weekly.days)} {_clock(weekly.start_minute)} to {_clock(end)} UTC"


def _clock(minute: int) -> str:
    hours, minutes = divmod(minute % DAY_MINUTES, 60)
    return f"{hours:02d}:{minutes:02d}"


def actions_text(rule: Rule) -> str:
    """Return what a rule skips: `result, learning`."""
    named = (("result", rule.skip_result), ("learning", rule.skip_learning))
    return ", ".join(name for name, skipped in named if skipped)
