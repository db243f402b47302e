"""Event times of any unit as nanoseconds since the epoch, whole columns at once.

Integers and ISO 8601 texts are exact. Fractional numbers are kept to the microsecond: that is what a double holds of
today's epoch seconds.
"""

from __future__ import annotations

from typing import Final, Literal, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

TimeUnit = Literal["s", "ms", "us", "ns", "iso"]
TIME_UNITS: Final[tuple[TimeUnit, ...]] = ("s", "ms", "us", "ns", "iso")

Times = NDArray[np.int64]
Mask = NDArray[np.bool_]

_NS_PER: Final[dict[TimeUnit, int]] = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
#: A number of this size or larger is of the next finer unit; each bound is the year 5138 in its own unit.
_LARGEST: Final[tuple[tuple[TimeUnit, float], ...]] = (("s", 1e11), ("ms", 1e14), ("us", 1e17))
_LATEST_NS: Final = 2**63 - 1
_INTEGER: Final = r"^\s*[+-]?\d{1,18}\s*$|^\s*[+]?[0-8]\d{18}\s*$"
_DATE: Final = r"^\d{4}-?\d{2}-?\d{2}$"
_ZONE: Final = r"([zZ]|:\d\d(\.\d+)?[+-]\d\d(:?\d\d)?)$"
_NUMBER: Final = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"


def detect_unit(column: pa.Array) -> TimeUnit | None:
    """Return the unit of a time column by its type and the size of its numbers; None when nothing in it is a time."""
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        return "iso"
    numbers = _as_floats(column)
    numbers = np.abs(numbers[np.isfinite(numbers)])
    if len(numbers):
        size = float(np.median(numbers))
        return next((unit for unit, bound in _LARGEST if size < bound), "ns")
    return "iso" if pa.types.is_string(column.type) and _from_text(column)[1].any() else None


def to_ns(column: pa.Array, unit: TimeUnit) -> tuple[Times, Mask]:
    """Return times and which of them are valid; invalid ones are 0.

    Valid is what can be read and lies between 1970 and 2262.
    """
    if unit == "iso":
        times, valid = _from_text(column)
    elif _is_integral(column):
        times, valid = _from_integers(column, _NS_PER[unit])
    else:
        times, valid = _from_floats(_as_floats(column), _NS_PER[unit])
    valid &= times > 0
    return np.where(valid, times, 0), valid


def parse_time_ns(text: str) -> int:
    """Return one ISO 8601 time as nanoseconds; a time without zone is UTC.

    Raises:
        ValueError: It is not an ISO 8601 time after 1970.
    """
    times, valid = to_ns(pa.array([text]), "iso")
    if not valid[0]:
        message = f"{text!r} is not a time: write it like 2026-11-01T00:00:00Z"
        raise ValueError(message)
    return int(times[0])


def format_ns(time_ns: int) -> str:
    """Return a time as readable ISO 8601, to the millisecond."""
    return f"{np.datetime64(time_ns // 10**6, 'ms')}Z"


def _from_text(column: pa.Array) -> tuple[Times, Mask]:
    texts = _with_zone(column) if pa.types.is_string(column.type) else column
    moments = pd.to_datetime(texts.to_pandas(), utc=True, errors="coerce", format="ISO8601")
    valid = moments.notna().to_numpy()
    times = moments.dt.tz_localize(None).to_numpy().astype("datetime64[ns]").astype(np.int64)
    return np.where(valid, times, 0), valid


def _with_zone(texts: pa.Array) -> pa.Array:
    """Write the zone out: pandas gives a time without one the zone of a neighbour."""
    texts = pc.utf8_trim_whitespace(texts)
    suffix = pc.if_else(pc.match_substring_regex(texts, _DATE), "T00:00:00Z", "Z")
    zoned = pc.match_substring_regex(texts, _ZONE)
    return pc.if_else(zoned, texts, pc.binary_join_element_wise(texts, suffix, ""))


def _is_integral(column: pa.Array) -> bool:
    if pa.types.is_integer(column.type):
        return True
    if not pa.types.is_string(column.type):
        return False
    return bool(pc.all(pc.match_substring_regex(column, _INTEGER)).as_py())


def _from_integers(column: pa.Array, ns_per_unit: int) -> tuple[Times, Mask]:
    if pa.types.is_string(column.type):
        column = pc.utf8_ltrim(pc.utf8_trim_whitespace(column), "+")
    numbers = pc.fill_null(column.cast(pa.int64(), safe=False), 0).to_numpy(zero_copy_only=False)
    valid = np.abs(numbers) <= _LATEST_NS // ns_per_unit
    return np.where(valid, numbers, 0) * ns_per_unit, cast(Mask, valid & ~_nulls(column))


def _from_floats(numbers: NDArray[np.float64], ns_per_unit: int) -> tuple[Times, Mask]:
    valid = np.isfinite(numbers) & (np.abs(numbers) * ns_per_unit < float(2**63))
    kept = np.where(valid, numbers, 0.0)
    whole = np.floor(kept)
    # The whole part is exact in integers; only the fraction is rounded.
    fraction = np.rint((kept - whole) * (ns_per_unit / 1000)).astype(np.int64) * 1000
    return whole.astype(np.int64) * ns_per_unit + fraction, valid


def _as_floats(column: pa.Array) -> NDArray[np.float64]:
    """Return a column as doubles, NaN where it is no number."""
    if pa.types.is_string(column.type):
        numeric = pc.match_substring_regex(column, _NUMBER)
        column = pc.utf8_trim_whitespace(pc.if_else(numeric, column, None))
        column = pc.utf8_ltrim(column, "+")
    elif not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return np.full(len(column), np.nan)
    return cast(NDArray[np.float64], column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))


def _nulls(column: pa.Array) -> Mask:
    return cast(Mask, pc.is_null(column).to_numpy(zero_copy_only=False))
