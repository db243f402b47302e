"""How reports travel: delays, and the few that arrive twice, too late, from the future, or broken.

    arrival = event time + delay;  delay < lateness for every record but the deliberately late ones

The fate of a record is a pure function of its random number, and every record has one fate, so the counts are exact.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from apps.simulator.randomness import Floats, Ints, normal, two_uniforms
from pipelines.parameters import TimeRules

#: What a record is; the labels that the ground truth counts.
Label = Literal["point", "log", "inventory", "duplicate", "late", "future", "malformed"]


@dataclass(frozen=True)
class DisorderRates:
    """Share of the records with each fate. `duplicate`, `future` and `malformed` add a record, `late` delays one."""

    out_of_order: float = 0.05
    duplicate: float = 0.005
    late: float = 0.0005
    future: float = 0.0002
    malformed: float = 0.0002

    def __post_init__(self) -> None:
        """Refuse shares that are none."""
        shares = (self.out_of_order, self.duplicate, self.late, self.future, self.malformed)
        if min(shares) < 0.0 or sum(shares) > 1.0:
            message = f"the rates of disorder must not be negative and not exceed 1 together: {self}"
            raise ValueError(message)


#: Delays stay below this share of the lateness, so that a slow broker makes no record late that should not be.
_MOST_OF_LATENESS: Final = 0.7
_TYPICAL_DELAY_S: Final = 0.4
#: A late record comes this much after the lateness has passed.
_LATE_FROM_S: Final = 10.0
_LATE_TO_S: Final = 300.0
#: A record from the future is this far beyond what is tolerated.
_FUTURE_FROM_S: Final = 60.0
_FUTURE_TO_S: Final = 3600.0

FATES: Final = ("ordinary", "out_of_order", "late", "duplicate", "future", "malformed")
OUT_OF_ORDER: Final = FATES.index("out_of_order")
LATE: Final = FATES.index("late")
#: From here on fates bring an additional record.
ADDING: Final = FATES.index("duplicate")


@dataclass(frozen=True)
class Journey:
    """What happens to each record under way; arrays of the same shape.

    Attributes:
        fate: Index into `FATES`.
        delay_ms: From event time to arrival.
        second_ms: From event time to the arrival of the additional record, where the fate brings one.
        shift_ns: What a record from the future adds to its event time.
        random: Uniform numbers for what else must be chosen.
    """

    fate: Ints
    delay_ms: Ints
    second_ms: Ints
    shift_ns: Ints
    random: Floats


def journeys(key: int, counter: Ints, rates: DisorderRates, rules: TimeRules) -> Journey:
    """Return what happens to the records that the counters name.

    Args:
        key: Random numbers of the stream.
        counter: Number of each record in its stream.
        rates: How often.
        rules: What late and future mean to the reader.
    """
    chance, other = two_uniforms(key, counter)
    fate = _fates(chance, rates)
    most_s = _MOST_OF_LATENESS * rules.lateness_s
    typical_s = min(_TYPICAL_DELAY_S, 0.2 * most_s)
    delay_s = np.minimum(typical_s * np.exp(0.5 * normal(key + 1, counter)), 0.5 * most_s)
    delay_s = np.where(fate == OUT_OF_ORDER, typical_s + other * (most_s - typical_s), delay_s)
    delay_s = np.where(fate == LATE, rules.lateness_s + _LATE_FROM_S + other * (_LATE_TO_S - _LATE_FROM_S), delay_s)
    second_s = delay_s + other * (most_s - delay_s)
    shift_s = rules.future_s + _FUTURE_FROM_S + other * (_FUTURE_TO_S - _FUTURE_FROM_S)
    return Journey(fate, _ms(delay_s), _ms(second_s), _ms(shift_s) * 1_000_000, other)


def _fates(u: Floats, rates: DisorderRates) -> Ints:
    shares = (rates.out_of_order, rates.late, rates.duplicate, rates.future, rates.malformed)
    edges = 1.0 - np.cumsum(shares[::-1])[::-1]
    return np.searchsorted(edges, u, side="right").astype(np.int64)


def _ms(seconds: Floats) -> Ints:
    return np.asarray(np.rint(seconds * 1000.0), dtype=np.int64)


def from_the_future(value: bytes, time_ns: int, shift_ns: int) -> bytes:
    """Return the record with its event time moved ahead: a device whose clock is wrong."""
    return value.replace(str(time_ns).encode(), str(time_ns + shift_ns).encode(), 1)


_TIME: Final = re.compile(rb'"time_ns":\d+')
_FIRST_FIELD: Final = re.compile(rb'"resource":"[^"]*",')


def broken(value: bytes, random: float) -> bytes:
    """Return the record broken in one of the ways that producers break records.

    Args:
        value: A sound record.
        random: Number in [0, 1) that chooses the way.
    """
    ways = (
        value[: len(value) // 2],  # cut off
        _TIME.sub(b'"time_ns":NaN', value),  # no JSON number
        _TIME.sub(b'"time_ns":"yesterday"', value),  # wrong type
        _TIME.sub(b'"time_ns":null', value),  # required, but null
        _FIRST_FIELD.sub(b"", value),  # required, but missing
        b"[" + value + b"]",  # not an object
        value[:-1] + b"\xff\xfe}",  # not UTF-8
        b"",  # nothing at all
    )
    return ways[int(random * len(ways))]
