"""At least 100,000 generated records, sound and broken, through the real parser, against an independent oracle."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.pipelines.statistics import oracle
from tests.pipelines.statistics.raw import ARRIVAL_NS, SECOND_NS, fates, parse
from topics import registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EXAMPLES = 10
_RECORDS_PER_EXAMPLE = 5_200

# every field is drawn as JSON text, so that broken JSON can stand where a value belongs
_text = st.text(max_size=12).map(json.dumps)
_wrong = st.sampled_from(
    ["null", "true", "false", "5", "[]", "[1]", "{}", '{"a":1}', '"{abc"', '"{}"', '"[]"', '"5"', '"true"', '""',
     "NaN", "Infinity", "-Infinity", '"NaN"', '"Infinity"', "1e999", "-1e999", "01", "+1", ".5", "5.", "1e", "0x1f",
     "'a'", "a", "", '"\\ud800"', '"\\u0000"', '"\\u001f"', '"\\x"', '"a\tb"', "9223372036854775808", "1" * 400,
     json.dumps("x" * 513), json.dumps("x" * 512), json.dumps({"a": "x" * 9000}), "{\"a\":}", '{"resource":"x"}']
)  # fmt: skip
_times = st.one_of(
    st.integers(-45, 20).map(lambda s: str(ARRIVAL_NS + s * SECOND_NS)),
    st.sampled_from(
        [str(ARRIVAL_NS + edge) for edge in (-30 * SECOND_NS, -30 * SECOND_NS - 1, 10 * SECOND_NS, 10 * SECOND_NS + 1)]
    ),
    st.sampled_from(["0", "-1", "1763690400", "1763690400000", str(2**63 - 1), str(-(2**63)), "1.7e18", '"5"']),
)
_attributes = st.dictionaries(st.text(max_size=4), st.one_of(st.text(max_size=4), st.integers(), st.none()), max_size=3)
_numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers().map(str),
    st.sampled_from(["1e150", "1.1e150", "-1e150", "0", "1", "-0.0", "1.0000001", "0.5"]),
)
_FIELDS: dict[str, st.SearchStrategy[str]] = {
    "resource": st.one_of(_text, st.sampled_from(['"vm-1"', '"10.0.0.1"', '"true north"', '"{x}"', '"[1]"', '"-"'])),
    "metric": _text,
    "time_ns": _times,
    "value": _numbers,
    "kind": st.sampled_from(['"gauge"', '"delta"', '"cumulative"', '"ratio"', "null"]),
    "unit": st.one_of(_text, st.sampled_from(['"1"', "null"])),
    "attributes": st.one_of(_attributes.map(json.dumps), st.just("null")),
    "total": st.one_of(_numbers, st.just("null")),
    "start_time_ns": st.one_of(_times, st.just("null")),
    "severity": st.one_of(_text, st.just('"INFO"')),
    "body": st.one_of(_text, st.just('"user 5 from 10.0.0.1 did 0xdeadbeef"')),
}
_METRIC = ("resource", "metric", "time_ns", "value", "kind", "unit", "attributes", "total", "start_time_ns")
_LOG = ("resource", "time_ns", "severity", "body", "attributes")
_SPACES = ("", "", "", " ", "\n", "\t ")
_ODD_BYTES = (
    b"\xff",
    b"\xc3\x28",
    b"\xed\xa0\x80",
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b",",
    b":",
    b"\x00",
    b"\\",
    b"0",
    b"e",
)


def _record(pick: random.Random, good: dict[str, list[str]], wrong: list[str], names: tuple[str, ...]) -> bytes:
    """Build one record: mostly sound fields, sometimes a wrong value, a missing field or damaged bytes."""
    given = {name: pick.choice(wrong if pick.random() < 0.03 else good[name]) for name in names if pick.random() > 0.01}
    order = list(given)
    if pick.random() < 0.2:
        pick.shuffle(order)
    space = pick.choice(_SPACES)
    text = "{" + f",{space}".join(f'"{name}":{space}{given[name]}' for name in order) + "}"
    value = (space + text + space).encode("utf-8", "surrogatepass")
    return _damaged(pick, value) if pick.random() < 0.15 else value


def _damaged(pick: random.Random, value: bytes) -> bytes:
    at = pick.randrange(len(value) + 1)
    return pick.choice(
        [
            value[:at],
            value[:at] + pick.choice(_ODD_BYTES) + value[at:],
            value[:at] + pick.choice(_ODD_BYTES) + value[at + 1 :],
            value + value,
            value + b"\n" + value,
            value + b"," + value,
            value + pick.choice((b" x", b"]", b"}", b"]}", b" garbage", b"  ")),
            b"[" + value + b"]",
            b"\xef\xbb\xbf" + value,
            pick.randbytes(20),
            b"x" * (1_000_000 if pick.random() < 0.05 else 1_000),
            b"",
        ]
    )


@pytest.mark.parametrize(
    ("topic", "names", "read"),
    [(registry.METRICS, _METRIC, oracle.metric_time), (registry.LOGS, _LOG, oracle.log_time)],
    ids=["metrics", "logs"],
)
def test_the_parser_accepts_and_refuses_what_the_contract_says(
    spark: SparkSession, topic: registry.Topic, names: tuple[str, ...], read: Callable[[dict[str, Any]], int]
) -> None:
    seen: Counter[str] = Counter()

    @settings(
        max_examples=_EXAMPLES,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(
        st.fixed_dictionaries({name: st.lists(_FIELDS[name], min_size=8, max_size=25) for name in names}),
        st.lists(_wrong, min_size=30, max_size=60),
        st.integers(0, 2**32),
    )
    def check(good: dict[str, list[str]], wrong: list[str], seed: int) -> None:
        pick = random.Random(seed)
        values = [_record(pick, good, wrong, names) for _ in range(_RECORDS_PER_EXAMPLE)]
        found = fates(parse(spark, topic, values), len(values))
        expected = [oracle.fate_of(value, read) for value in values]
        seen.update(expected)
        different = [(v[:300], e, f) for v, e, f in zip(values, expected, found, strict=True) if e != f]
        assert different[:10] == []

    check()
    assert sum(seen.values()) >= 50_000  # and as many of the other kind: 100,000 in all
    assert all(seen[fate] > 1_000 for fate in ("on_time", "late", "rejected")), seen
