"""Schemas follow from the record types, and the records fit them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.topics.examples import any_of, incident, score
from topics import controls, records
from topics.registry import CONTROL, TOPICS
from topics.schemas import SchemaError, json_schema, merged_schema, spark_schema, with_current_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = sorted(
    {record for topic in TOPICS for record in topic.records} | {records.ClosedMarker, controls.ControlRecord},
    key=lambda record: record.__name__,
)


def wire(record: Any) -> Any:
    return orjson.loads(orjson.dumps(record))


def errors(record: type[Any], value: Any) -> list[str]:
    return [error.message for error in jsonschema.Draft202012Validator(json_schema(record)).iter_errors(value)]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_json_schema_is_itself_valid(record: type[Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema(record))


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_any_serialised_record_fits_its_json_schema(record: type[Any], data: st.DataObject) -> None:
    assert errors(record, wire(data.draw(any_of(record)))) == []


def test_a_raw_record_may_leave_out_what_has_a_default() -> None:
    point = {"resource": "vm-1", "metric": "m", "time_ns": 1, "value": 0.5}
    assert errors(records.MetricPoint, point) == []
    assert errors(records.MetricPoint, {name: point[name] for name in point if name != "value"}) == [
        "'value' is a required property"
    ]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"colour": "red"}, "Additional properties are not allowed"),
        ({"score": "high"}, "is not of type 'number'"),
        ({"severity": "terrible"}, "is not one of"),
        ({"window_end_ms": 1.5}, "is not of type 'integer'"),
        ({"window_end_ms": 2**63}, "is greater than the maximum"),
        ({"resource": None}, "is not of type 'string'"),
        ({"series": [{}]}, "is a required property"),
    ],
)
def test_a_wrong_score_does_not_fit(change: dict[str, Any], complaint: str) -> None:
    assert errors(records.Score, wire(score())) == []
    assert any(complaint in message for message in errors(records.Score, wire(score()) | change))


def test_spark_schema_of_an_incident() -> None:
    schema = spark_schema(records.Incident)
    assert schema.fieldNames()[:4] == ["id", "state", "revision", "scope"]
    assert schema["revision"].dataType.simpleString() == "bigint"
    assert schema["resources"].dataType.simpleString() == "array<string>"
    assert (
        schema["contributors"]
        .dataType.simpleString()
        .startswith(
            "array<struct<resource:string,metric:string,attributes:map<string,string>,unit:string,window_end_ms:bigint,"
        )
    )


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_spark_schema_has_the_fields_of_the_record_in_wire_order(record: type[Any]) -> None:
    assert spark_schema(record).fieldNames() == list(record.__dataclass_fields__)


@pytest.mark.stack
def test_spark_reads_with_the_schema_what_the_chain_writes(spark: SparkSession) -> None:
    values = [orjson.dumps(incident(revision)).decode() for revision in (1, 2)]
    frame = spark.createDataFrame([(value,) for value in values], "value string")
    read = frame.selectExpr(f"from_json(value, '{spark_schema(records.Incident).toDDL()}') AS record").select(
        "record.*"
    )
    assert [row.asDict(recursive=True) for row in read.orderBy("revision").collect()] == [
        wire(incident(revision)) for revision in (1, 2)
    ]


def test_one_spark_schema_reads_every_control_record() -> None:
    schema = merged_schema(CONTROL.records)
    for record in CONTROL.records:
        assert set(spark_schema(record).fieldNames()) <= set(schema.fieldNames())
    assert spark_schema(controls.ControlRecord)["control"].dataType == schema


def test_alternatives_with_two_types_for_one_name_are_refused() -> None:
    @dataclass(frozen=True)
    class Other:
        resource: int

    with pytest.raises(SchemaError, match="resource has two types"):
        merged_schema((records.Inventory, Other))


def test_a_type_without_counterpart_is_refused() -> None:
    @dataclass(frozen=True)
    class Odd:
        value: complex

    with pytest.raises(SchemaError, match="no counterpart on the wire"):
        json_schema(Odd)


def test_the_page_on_topics_is_current() -> None:
    page = Path(__file__).parents[2] / "docs" / "topics.md"
    text = page.read_text()
    assert with_current_table(text) == text, "run `python -m topics.schemas`"


def test_a_page_without_the_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="the page needs the lines"):
        with_current_table("# Topics\n")
