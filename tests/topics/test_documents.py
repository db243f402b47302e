"""Mappings, templates, names and ids follow from the records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.topics.examples import any_of, incident, score, series_score
from topics.documents import (
    CUSTOM_TEMPLATE,
    FAMILIES,
    INCIDENT_OPEN,
    INCIDENTS,
    SCORES,
    SERIES,
    Family,
    Field,
    IndexSettings,
    read,
    templates,
)
from topics.records import Incident, Score, SeriesScore


def row(record: Any) -> dict[str, Any]:
    value: dict[str, Any] = orjson.loads(orjson.dumps(record))
    return value


def series_row(record: Score, number: int = 0) -> dict[str, Any]:
    return row(record) | row(record.series[number])


def paths(document: dict[str, Any], properties: dict[str, Any], before: str = "") -> Iterable[str]:
    """Yield every field of a document that a mapping does not know."""
    for name, value in document.items():
        mapping = properties.get(name)
        if mapping is None:
            yield before + name
        elif "properties" in mapping:
            for item in value if isinstance(value, list) else [value]:
                yield from paths(item, mapping["properties"], f"{before}{name}.")


def all_fields(fields: Iterable[Field]) -> Iterable[Field]:
    for item in fields:
        yield item
        yield from all_fields(item.properties)


# ---- every field of a record is in the document, or left out on purpose ----------------------------------------------


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_record_field_is_in_the_document_or_deliberately_not(family: Family) -> None:
    used = {source for item in all_fields(family.fields) for source in item.sources}
    wanted = set(family.record.__dataclass_fields__)
    if family.part:
        wanted |= set(family.part.__dataclass_fields__)
    assert wanted - used - set(family.omitted) == set(), "add a field to the document, or say in `omitted` why not"
    assert set(family.omitted) <= wanted, "an omission of a field that does not exist"
    assert not set(family.omitted) & {source for item in family.fields for source in item.sources}


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_field_names_are_unique_and_none_is_inside_another(family: Family) -> None:
    names = [item.name for item in family.fields]
    assert len(set(names)) == len(names)
    assert not [(a, b) for a in names for b in names if b.startswith(f"{a}.")]


def test_a_field_has_one_type_in_all_families() -> None:
    types: dict[str, set[str]] = {}
    for family in FAMILIES:
        for item in family.fields:
            types.setdefault(item.name, set()).add(item.type)
    assert {name: found for name, found in types.items() if len(found) > 1} == {}


@settings(max_examples=60, deadline=None)
@given(record=any_of(Score), part=any_of(SeriesScore), episode=any_of(Incident))
def test_documents_of_any_record_hold_only_fields_of_the_strict_mapping(
    record: Score, part: SeriesScore, episode: Incident
) -> None:
    rows = ((SCORES, row(record)), (SERIES, row(record) | row(part)), (INCIDENTS, row(episode)))
    for family, content in rows:
        assert list(paths(family.source(content), family.mapping["properties"])) == []
    assert INCIDENTS.mapping["dynamic"] == "strict"


# ---- contents --------------------------------------------------------------------------------------------------------


def test_document_of_a_series() -> None:
    assert SERIES.source(series_row(score(series=[series_score(80.0, cpu=3, expected=None, lower=None)]))) == {
        "ecs": {"version": "8.17.0"},
        "event": {
            "module": "kappa",
            "dataset": "kappa.series",
            "kind": "metric",
            "severity": 80,
            "start": 1763690400000,
            "end": 1763690460000,
        },
        "@timestamp": 1763690460000,
        "host": {"name": "vm-0001"},
        "related": {"hosts": ["vm-0001"]},
        "service": {"name": "upf"},
        "cloud": {"region": "eu-west", "availability_zone": "ams-1"},
        "anomaly": {
            "bucket_span": 60,
            "model": {"version": "m1"},
            "result_type": "record",
            "record_score": 80.0,
            "probability": 1e-9,
            "severity": "critical",
            "metric": "system.cpu.utilization",
            "attributes": {"cpu": "3"},
            "series": "system.cpu.utilization{cpu=3}",
            "unit": "1",
            "actual": 0.9,
            "upper": 0.5,
            "direction": "high",
            "kind": "gauge",
            "contribution": 0.8,
            "observations": 120.0,
            "hypothesis": {"anomaly": 0.0, "new_normal": 0.0},
            "regime": {"number": 0, "windows": 0},
            "sustained": False,
        },
    }


def test_a_resource_lists_its_strongest_series_first() -> None:
    record = score(series=[series_score(float(value), cpu) for cpu, value in enumerate((10, 90, 30, 50, 70, 20, 40))])
    influencers = SCORES.source(row(record))["anomaly"]["influencers"]
    assert [item["record_score"] for item in influencers] == [90, 70, 50, 40, 30]


@pytest.mark.parametrize(("state", "is_open"), [("open", True), ("update", True), ("close", False)])
def test_an_incident_is_open_until_it_is_closed(state: Any, is_open: bool) -> None:
    source = INCIDENTS.source(row(incident(state=state)))
    assert read(source, INCIDENT_OPEN) is is_open
    assert read(source, "host.name") == "vm-0001"


def test_an_incident_without_resources_has_no_host() -> None:
    source = INCIDENTS.source(row(incident(resources=[], contributors=[])))
    assert read(source, "host.name") is None
    assert read(source, "incident.resources") == 0


# ---- names, ids, versions --------------------------------------------------------------------------------------------


def test_the_index_follows_from_event_time() -> None:
    before_midnight = {"window_end_ms": 1764547199999}  # 2025-11-30T23:59:59.999Z
    assert SCORES.index(before_midnight, "g1", "month") == "kappa-scores-g1-2025.11"
    assert SCORES.index({"window_end_ms": 1764547200000}, "g1", "month") == "kappa-scores-g1-2025.12"
    assert SERIES.index(before_midnight, "g2", "day") == "kappa-series-g2-2025.11.30"


def test_an_incident_keeps_its_index_and_id_while_it_lasts() -> None:
    first, later = row(incident(1)), row(incident(60 * 24 * 20))
    assert later["last_window_end_ms"] > 1764547200000  # in December
    assert (
        INCIDENTS.index(later, "g1", "month") == INCIDENTS.index(first, "g1", "month") == "kappa-incidents-g1-2025.11"
    )
    assert INCIDENTS.document_id(first) == INCIDENTS.document_id(later)
    assert INCIDENTS.version(later) > INCIDENTS.version(first)


def test_the_id_is_the_hash_of_the_natural_key_alone() -> None:
    assert SCORES.document_id(row(score(value=10.0))) == SCORES.document_id(row(score(value=90.0)))
    assert SCORES.document_id(row(score(window=1))) != SCORES.document_id(row(score(window=2)))
    # blake2b-128 of ["vm-0001",1763690400000,1763690460000]: a change would duplicate every document at a replay
    assert SCORES.document_id(row(score())) == "2937f62d8893ac8544d4ebddca7cd845"


@given(st.permutations(["a", "b", "c"]))
def test_the_id_of_a_series_does_not_depend_on_the_order_of_its_attributes(names: list[str]) -> None:
    ordered = series_row(score(series=[series_score(attributes={"a": "1", "b": "1", "c": "1"})]))
    shuffled = series_row(score(series=[series_score(attributes=dict.fromkeys(names, "1"))]))
    assert SERIES.document_id(shuffled) == SERIES.document_id(ordered)


# ---- templates -------------------------------------------------------------------------------------------------------


def test_templates_of_a_live_generation() -> None:
    made = templates("g1", IndexSettings(shards=3, refresh_interval="5s"))
    assert list(made.indices) == ["kappa-incidents-g1", "kappa-scores-g1", "kappa-series-g1"]
    template = made.indices["kappa-scores-g1"]
    assert template["index_patterns"] == ["kappa-scores-g1-*"]
    assert template["priority"] > 200
    assert template["template"]["aliases"] == {"kappa-scores-g1": {}, "kappa-scores": {}}
    assert template["_meta"]["version"] >= 1
    assert template["composed_of"] == ["kappa-g1@settings", "kappa-scores-g1@mappings", CUSTOM_TEMPLATE]
    assert set(template["composed_of"]) - {CUSTOM_TEMPLATE} <= set(made.components)
    assert made.components["kappa-g1@settings"]["template"]["settings"]["index.number_of_shards"] == 3


def test_a_generation_that_is_not_live_stays_out_of_the_readers_aliases() -> None:
    made = templates("g2", IndexSettings(), live=False)
    assert made.indices["kappa-scores-g2"]["template"]["aliases"] == {"kappa-scores-g2": {}}


def test_of_generations_whose_names_begin_alike_the_longer_wins() -> None:
    short, long = (templates(name, IndexSettings()).indices[f"kappa-scores-{name}"] for name in ("g1", "g1-trial"))
    assert long["priority"] > short["priority"]


def test_templates_are_json() -> None:
    assert orjson.dumps(asdict(templates("g1", IndexSettings())))
