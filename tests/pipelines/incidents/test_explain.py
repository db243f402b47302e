"""Incidents in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipelines.incidents.explain import duration, number, printable
from tests.pipelines.incidents.cloud import Cloud, Resource, at, by_id, cloud, run, series
from topics.records import LOG_SEVERITY_METRIC, LOG_TEMPLATE_METRIC

CLOUD = cloud()
NAMES = {resource.name: resource for resource in CLOUD.resources}
VICTIM = NAMES["upf-north-03"]


def sentence(*top: object, windows: int = 4) -> str:
    finding = VICTIM.finding(1e-9, top=list(top))  # type: ignore[arg-type]
    return run(CLOUD, 40, at(10, 9 + windows, finding))[-1].explanation


def test_a_resource_in_words() -> None:
    cpu = series(1e-9, actual=0.9712, expected=0.41)
    errors = series(1e-7, metric="net.errors", actual=12.0, expected=0.2, unit="{packets}", attributes={"if": "eth0"})
    assert sentence(cpu, errors) == (
        "upf-north-03: system.cpu.utilization was 0.971, expected 0.41 (0.328 to 0.492 in 99 % of windows), "
        "higher than expected for 4 windows (4 min); "
        "with it net.errors (if eth0) was 12 packets, expected 0.2 packets; service upf in region north."
    )


def test_lower_than_expected_for_one_window() -> None:
    assert "lower than expected for 1 window (1 min)" in sentence(series(1e-9, actual=0.1, direction="low"), windows=1)


def test_series_that_are_not_surprising_are_not_named() -> None:
    assert "calm" not in sentence(series(1e-9), series(0.4, metric="calm"))


def test_logs_in_words() -> None:
    counts = {"actual": 42.0, "expected": 0.5, "unit": "1"}
    by_severity = series(1e-9, metric=LOG_SEVERITY_METRIC, attributes={"severity": "ERROR"}, **counts)  # type: ignore[arg-type]
    assert "log events of severity ERROR was" not in sentence(by_severity)
    assert "log events of severity ERROR came 42 times, expected 0.5 times" in sentence(by_severity)
    never = series(
        1e-9,
        metric=LOG_TEMPLATE_METRIC,
        attributes={"template": "disk <*> failed"},
        actual=1.0,
        expected=None,
        direction="new",
    )
    assert 'log message "disk <*> failed" came 1 time, never seen before' in sentence(never)


def test_silence_in_words() -> None:
    events = at(10, 12, VICTIM.finding(1e-9, silent=True))
    assert run(CLOUD, 40, events)[-1].explanation == (
        "upf-north-03: silent, no record for 3 windows (3 min); service upf in region north."
    )


def test_back_after_silence_in_words() -> None:
    events = at(10, 13, VICTIM.finding(1e-9, silent=True)) | at(14, 14, VICTIM.finding(1e-9))
    told = run(CLOUD, 40, events)[-1].explanation
    assert told.startswith("upf-north-03: silent for 4 windows (4 min), then back; system.cpu.utilization was 0.97")


def test_a_group_in_words() -> None:
    members = [resource for resource in CLOUD.resources if resource.name.startswith("upf-north")][:5]
    findings = [member.finding(1e-20 if member is members[2] else 1e-9) for member in members]
    told = run(CLOUD, 40, at(10, 11, *findings))[-1].explanation
    assert told == (
        "Service upf in region north: 5 of 8 resources at once; upf-north-02: system.cpu.utilization was 0.97, "
        "expected 0.41 (0.328 to 0.492 in 99 % of windows), higher than expected for 2 windows (2 min); "
        "also upf-north-00, upf-north-01, upf-north-03 and 1 more."
    )


def test_silent_members_are_counted() -> None:
    members = [resource for resource in CLOUD.resources if resource.service == "amf"]
    events = at(10, 11, *(member.finding(1e-9, silent=True) for member in members))
    assert "Service amf: 16 of 16 resources at once, 16 of them silent; " in run(CLOUD, 40, events)[-1].explanation


def test_hostile_names_stay_readable_and_harmless() -> None:
    name = "vm\n\x1b[31m-\u202eevil\u2028 ' OR 1=1 <script> ü" + "x" * 500
    hostile = Cloud((Resource(name, "a\tb", None),))
    events = {10: [hostile.resources[0].finding(1e-9, top=[series(1e-9, metric="m\r\nm", unit="\x00")])]}
    opened = by_id(run(hostile, 12, events)).popitem()[1][0]
    assert opened.resources == [name], "the record keeps the name"
    assert all(char.isprintable() for char in opened.explanation)
    assert "' OR 1=1 <script> ü" in opened.explanation
    assert len(opened.explanation) < 400


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0, "1", "0"),
        (0.97123, "1", "0.971"),
        (12.0, "{requests}/s", "12 requests/s"),
        (99.96, "1", "100"),
        (12345.678, "By", "12,300 B"),
        (-0.004, "s", "-0.004 s"),
        (1.234e9, "By", "1.23e+09 B"),
        (1e-9, "1", "1e-09"),
        (41.5, "%", "41.5 %"),
        (None, "s", "unknown"),
        (float("nan"), "s", "unknown"),
    ],
)
def test_numbers_have_three_significant_digits(value: float | None, unit: str, text: str) -> None:
    assert number(value, unit) == text


@pytest.mark.parametrize(
    ("span_ms", "text"), [(10_000, "10 s"), (60_000, "1 min"), (5_400_000, "1.5 h"), (3 * 86_400_000, "3 d")]
)
def test_durations(span_ms: int, text: str) -> None:
    assert duration(span_ms) == text


def test_printable_cuts() -> None:
    assert printable("abcdef", 4) == "abc…"


def test_a_series_that_never_changed_has_no_interval() -> None:
    constant = replace(series(1e-9, actual=1.0), expected=0.0, lower=-2.6e-150, upper=2.6e-150)
    assert "was 1, expected 0 (always, so far)" in sentence(constant)
