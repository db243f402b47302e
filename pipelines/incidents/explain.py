"""Incidents in words: what was seen, what was expected, for how long, who else.

upf-north-03: system.cpu.utilization was 0.97, expected 0.41 (0.33 to 0.49 in 99 % of windows), higher than expected
for 4 windows (4 min); with it net.errors 12/s, expected 0.2/s; service upf in region north.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

from pipelines.incidents.state import Episode, Member, Sign
from topics.records import LOG_SEVERITY_METRIC, LOG_TEMPLATE_METRIC, Contributor, Opinion

#: Further signs named after the strongest one.
_COMPANIONS: Final = 2
#: Resources named by a group's sentence.
_NAMED: Final = 3
_LONGEST_NAME: Final = 120
#: An interval narrower than this share of the value is the resolution of a series that never changed.
_DUST: Final = 1e-9
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
#: UCUM units people write differently.
_UNITS: Final = {"1": "", "": "", "%": " %", "By": " B", "By/s": " B/s", "Cel": " °C"}


def printable(text: str, longest: int = _LONGEST_NAME) -> str:
    """Return text with everything that could move a cursor or turn the writing replaced, and cut to a length."""
    safe = "".join(_REPLACEMENT if unicodedata.category(char).startswith(("C", "Zl", "Zp")) else char for char in text)
    return safe if len(safe) <= longest else f"{safe[: longest - 1]}…"


def number(value: float | None, unit: str = "1") -> str:
    """Return a number with three significant digits and its unit: `12,300 B`, `0.0412`, `1.2e+09`."""
    if value is None or math.isnan(value):
        return "unknown"
    magnitude = abs(value)
    if value == 0 or 1e-4 <= magnitude < 1e7:
        rounded = float(f"{value:.3g}")
        text = f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:g}"
    else:
        text = f"{value:.3g}"
    return text + _unit(unit)


def _unit(unit: str) -> str:
    plain = unit.replace("{", "").replace("}", "")
    return _UNITS[plain] if plain in _UNITS else f" {printable(plain, 20)}"


def duration(span_ms: int) -> str:
    """Return a span of event time in its largest unit: `40 s`, `4 min`, `2.5 h`, `3 d`."""
    for unit, length_ms in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000)):
        if span_ms >= length_ms:
            return f"{span_ms / length_ms:.3g} {unit}"
    return f"{span_ms / 1000:.3g} s"


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


# ---- one series ------------------------------------------------------------------------------------------------------


def series_name(contributor: Contributor) -> str:
    """Return what a series measures: `net.errors (interface eth0)`, `log events of severity ERROR`."""
    attributes = contributor.attributes
    if contributor.metric == LOG_SEVERITY_METRIC:
        return f"log events of severity {_values(attributes)}"
    if contributor.metric == LOG_TEMPLATE_METRIC:
        return f'log message "{_values(attributes)}"'
    named = ", ".join(f"{printable(name)} {printable(attributes[name])}" for name in sorted(attributes))
    return printable(contributor.metric) + (f" ({named})" if named else "")


def _values(attributes: dict[str, str]) -> str:
    return ", ".join(printable(attributes[name]) for name in sorted(attributes))


def _quantity(value: float | None, contributor: Contributor) -> str:
    if contributor.metric not in (LOG_SEVERITY_METRIC, LOG_TEMPLATE_METRIC):
        return number(value, contributor.unit)
    return "1 time" if value == 1 else f"{number(value)} times"


def _came(contributor: Contributor) -> str:
    """Return what came beside what was expected."""
    if contributor.direction == "silent":
        return "sent nothing"
    verb = "came" if contributor.metric in (LOG_SEVERITY_METRIC, LOG_TEMPLATE_METRIC) else "was"
    actual = f"{verb} {_quantity(contributor.actual, contributor)}"
    if contributor.direction == "new" or contributor.expected is None:
        return f"{actual}, never seen before"
    return f"{actual}, expected {_quantity(contributor.expected, contributor)}"


def _interval(contributor: Contributor) -> str:
    if contributor.lower is None or contributor.upper is None or contributor.direction in ("new", "silent"):
        return ""
    if contributor.upper - contributor.lower <= _DUST * max(abs(contributor.actual), abs(contributor.upper)):
        return " (always, so far)"
    return f" ({number(contributor.lower)} to {number(contributor.upper)} in 99 % of windows)"


def _lasting(sign: Sign, window_ms: int) -> str:
    how = {"high": "higher than expected", "low": "lower than expected"}.get(sign.contributor.direction, "so")
    return f"{how} for {_plural(sign.windows, 'window')} ({duration(sign.windows * window_ms)})"


def _strongest(sign: Sign, window_ms: int) -> str:
    contributor = sign.contributor
    return f"{series_name(contributor)} {_came(contributor)}{_interval(contributor)}, {_lasting(sign, window_ms)}"


def _companions(signs: Sequence[Sign]) -> str:
    named = [f"{series_name(sign.contributor)} {_came(sign.contributor)}" for sign in signs]
    return f"; with it {', '.join(named)}" if named else ""


# ---- incidents -------------------------------------------------------------------------------------------------------


def place_name(service: str | None, region: str | None) -> str:
    """Return a place in words; empty when nothing is known of it."""
    parts = [f"service {printable(service)}"] if service is not None else []
    parts += [f"region {printable(region)}"] if region is not None else []
    return " in ".join(parts)


def explanation(episode: Episode, window_ms: int) -> str:
    """Return the sentence of an incident."""
    return (
        _resource_sentence(episode, window_ms) if episode.scope == "resource" else _group_sentence(episode, window_ms)
    )


def absorbed_explanation(episode: Episode, into: str) -> str:
    """Return the sentence of an incident that turned out to be part of another."""
    names = ", ".join(printable(member.resource) for member in episode.ranked_members()[:_NAMED])
    return f"{names}: part of incident {into}, which has the same cause."


def verdict_sentence(verdict: Opinion | None, note: str | None) -> str:
    """Return what an operator said, to stand behind the sentence of an incident; empty if nothing."""
    if verdict is None:
        return ""
    return f" An operator: {verdict}{f' ({printable(note)})' if note else ''}."


def _resource_sentence(episode: Episode, window_ms: int) -> str:
    member = episode.ranked_members()[0]
    where = place_name(episode.service, episode.region)
    return f"{_member_sentence(member, episode.ranked_signs(), window_ms)}{f'; {where}' if where else ''}."


def _member_sentence(member: Member, signs: Sequence[Sign], window_ms: int) -> str:
    name = printable(member.resource)
    lasting = f"{_plural(member.silent_windows, 'window')} ({duration(member.silent_windows * window_ms)})"
    if member.silent:
        return f"{name}: silent, no record for {lasting}"
    was = f"silent for {lasting}, then back; " if member.silent_windows else ""
    own = _of(signs, member.resource)
    if not own:
        return f"{name}: {was or 'behaves unlike before; '}".removesuffix("; ")
    return f"{name}: {was}{_strongest(own[0], window_ms)}{_companions(own[1 : 1 + _COMPANIONS])}"


def _of(signs: Iterable[Sign], resource: str) -> list[Sign]:
    return [sign for sign in signs if sign.contributor.resource == resource]


def _group_sentence(episode: Episode, window_ms: int) -> str:
    members = episode.ranked_members()
    head = place_name(episode.service, episode.region) or "the whole cloud"
    size = max(episode.group_size, len(members))
    silent = sum(member.silent for member in members)
    quiet = f", {silent:,} of them silent" if silent else ""
    strongest = _member_sentence(members[0], episode.ranked_signs(), window_ms)
    others = [printable(member.resource) for member in members[1 : 1 + _NAMED]]
    more = len(members) - 1 - len(others)
    also = f"; also {', '.join(others)}" if others else ""
    rest = f" and {more:,} more" if more > 0 else ""
    return (
        f"{head[0].upper()}{head[1:]}: {len(members):,} of {size:,} resources at once{quiet}; {strongest}{also}{rest}."
    )
