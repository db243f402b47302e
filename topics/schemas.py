"""What is derived from the record types: Spark schemas, JSON Schemas, and the table of topics for the docs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from topics.controls import ControlRecord
from topics.records import ClosedMarker
from topics.registry import DAY_MS, DERIVED_TOPICS, RAW_TOPICS, TOPICS, Topic

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_JSON_TYPES: Final[dict[type[Any], str]] = {str: "string", int: "integer", float: "number", bool: "boolean"}
#: Names end in their unit; these carry 64-bit integers.
_INTEGER_BOUNDS: Final = {"minimum": -(2**63), "maximum": 2**63 - 1}


class SchemaError(TypeError):
    """A record type uses a type that has no counterpart on the wire."""


def record_fields(record: type[Any]) -> list[tuple[Field[Any], Any]]:
    """Return the fields of a record type with their resolved types, in wire order."""
    if not is_dataclass(record):
        message = f"{record!r} is not a record type: records are dataclasses of topics.records"
        raise SchemaError(message)
    hints = get_type_hints(record)
    return [(item, hints[item.name]) for item in fields(record)]


def _without_none(hint: Any) -> tuple[Any, bool]:
    """Split `X | None` into X and True; any other type into itself and False."""
    if not _is_union(hint) or is_alternatives(hint):
        return hint, False
    inner = [part for part in get_args(hint) if part is not NoneType]
    if len(inner) != 1:
        message = f"{hint} has no counterpart on the wire: only `X | None` and alternatives of records have"
        raise SchemaError(message)
    return inner[0], True


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, UnionType)


def is_alternatives(hint: Any) -> bool:
    """Tell whether a type is one of several record types, which a field `type` tells apart."""
    return _is_union(hint) and all(is_dataclass(part) for part in get_args(hint))


# ---- Spark -----------------------------------------------------------------------------------------------------------


def spark_schema(record: type[Any]) -> StructType:
    """Return the Spark schema of a record type.

    Integers are 64 bits wide. Every field is nullable: `from_json` gives null for what a message does not hold.
    """
    from pyspark.sql.types import StructField, StructType  # noqa: PLC0415 - only jobs need Spark

    return StructType([StructField(item.name, _spark_type(hint), True) for item, hint in record_fields(record)])


def merged_schema(alternatives: tuple[type[Any], ...]) -> StructType:
    """Return a Spark schema that reads any of several record types: their fields, each once, in order."""
    from pyspark.sql.types import StructType  # noqa: PLC0415

    every = {item.name: item for record in alternatives for item in spark_schema(record).fields}
    for record in alternatives:
        for item in spark_schema(record).fields:
            if every[item.name] != item:
                message = f"{item.name} has two types in {', '.join(each.__name__ for each in alternatives)}"
                raise SchemaError(message)
    return StructType(list(every.values()))


def _spark_type(hint: Any) -> DataType:
    from pyspark.sql import types  # noqa: PLC0415

    inner, _ = _without_none(hint)
    if is_alternatives(inner):
        return merged_schema(get_args(inner))
    arguments = get_args(inner)
    makers: dict[Any, Callable[[], DataType]] = {
        str: types.StringType,
        int: types.LongType,
        float: types.DoubleType,
        bool: types.BooleanType,
        Literal: types.StringType,
        list: lambda: types.ArrayType(_spark_type(arguments[0]), True),
        dict: lambda: types.MapType(_spark_type(arguments[0]), _spark_type(arguments[1]), True),
    }
    if is_dataclass(inner):
        return spark_schema(inner)  # type: ignore[arg-type]
    return makers[_wire_kind(inner, makers)]()


def _wire_kind(inner: Any, known: Any) -> Any:
    kind = get_origin(inner) or inner
    if kind not in known:
        message = f"{inner!r} has no counterpart on the wire"
        raise SchemaError(message)
    return kind


# ---- JSON Schema -----------------------------------------------------------------------------------------------------


def json_schema(record: type[Any]) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a record's value: strict, fields without a default are required."""
    definitions: dict[str, Any] = {}
    schema = {"$schema": _DIALECT, "title": record.__name__, **_json_object(record, definitions)}
    return schema | ({"$defs": dict(sorted(definitions.items()))} if definitions else {})


def _json_object(record: type[Any], definitions: dict[str, Any]) -> dict[str, Any]:
    described = record_fields(record)
    return {
        "type": "object",
        "properties": {item.name: _json_type(hint, definitions) for item, hint in described},
        "required": [item.name for item, _ in described if item.default is MISSING and item.default_factory is MISSING],
        "additionalProperties": False,
    }


def _json_type(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    inner, optional = _without_none(hint)
    schema = _json_plain_type(inner, definitions)
    return {"anyOf": [schema, {"type": "null"}]} if optional else schema


def _json_plain_type(inner: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if is_dataclass(inner):
        return _json_reference(inner, definitions)  # type: ignore[arg-type]
    arguments = get_args(inner)
    if is_alternatives(inner):
        return {"anyOf": [_json_reference(record, definitions) for record in arguments]}
    kind = _wire_kind(inner, (*_JSON_TYPES, Literal, list, dict))
    if kind is Literal:
        return {"enum": list(arguments)}
    if kind is list:
        return {"type": "array", "items": _json_type(arguments[0], definitions)}
    if kind is dict:
        return {"type": "object", "additionalProperties": _json_type(arguments[1], definitions)}
    return {"type": _JSON_TYPES[kind]} | (_INTEGER_BOUNDS if kind is int else {})


def _json_reference(record: type[Any], definitions: dict[str, Any]) -> dict[str, Any]:
    if record.__name__ not in definitions:
        definitions[record.__name__] = {}  # a placeholder ends the recursion of a record that holds itself
        definitions[record.__name__] = _json_object(record, definitions)
    return {"$ref": f"#/$defs/{record.__name__}"}


# ---- the table of topics ---------------------------------------------------------------------------------------------

TABLE_BEGIN: Final = "<!-- topics:begin (written by `python -m topics.schemas`; do not edit) -->"
TABLE_END: Final = "<!-- topics:end -->"


def _kept(topic: Topic) -> str:
    if topic.cleanup == "compact":
        return "latest per key"
    return "for ever" if topic.retention_ms is None else f"{topic.retention_ms / DAY_MS:g} days"


_COLUMNS: Final[dict[str, Callable[[Topic], str]]] = {
    "topic": lambda topic: f"`{topic.name}`",
    "key": lambda topic: topic.key,
    "record": lambda topic: ", ".join(f"`{record.__name__}`" for record in topic.records) or "bytes",
    "written by": lambda topic: topic.writer,
    "read by": lambda topic: ", ".join(topic.readers),
    "partitions": lambda topic: topic.partitions,
    "kept": _kept,
    "largest message": lambda topic: f"{topic.message_limit_bytes / 1024:,.0f} KiB",
}


def topics_table() -> str:
    """Return the tables of raw and derived topics and of their records' fields, in Markdown."""
    parts = [
        "### The log\n\n" + _table(RAW_TOPICS),
        "### Derived topics, one set per generation\n\n" + _table(DERIVED_TOPICS),
        "### Records\n\n" + "\n\n".join(_record_table(record) for record in _records_in_use()),
    ]
    return "\n\n".join(parts)


def _table(topics: tuple[Topic, ...]) -> str:
    return _markdown(list(_COLUMNS), [[column(topic) for column in _COLUMNS.values()] for topic in topics])


def _markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _records_in_use() -> list[type[Any]]:
    """Return the record types of all topics and those inside them, each once, in order of first use."""
    found: dict[type[Any], None] = {}
    for record in (*(each for topic in TOPICS for each in topic.records), ClosedMarker, ControlRecord):
        _collect(record, found)
    return list(found)


def _collect(hint: Any, found: dict[type[Any], None]) -> None:
    inner, _ = _without_none(hint)
    if is_dataclass(inner):
        if inner not in found:
            found[inner] = None  # type: ignore[index]
            for _, part in record_fields(inner):  # type: ignore[arg-type]
                _collect(part, found)
        return
    if get_origin(inner) is not Literal:
        for argument in get_args(inner):
            _collect(argument, found)


def _record_table(record: type[Any]) -> str:
    summary = (record.__doc__ or "").strip().splitlines()[0]
    rows = [[f"`{item.name}`", _words(hint)] for item, hint in record_fields(record)]
    return f"**{record.__name__}**: {summary}\n\n" + _markdown(["field", "type"], rows)


def _words(hint: Any) -> str:
    inner, optional = _without_none(hint)
    return _plain_words(inner) + (" or null" if optional else "")


def _plain_words(inner: Any) -> str:
    arguments = get_args(inner)
    if is_dataclass(inner):
        return inner.__name__  # type: ignore[union-attr]
    if is_alternatives(inner):
        return ", ".join(record.__name__ for record in arguments)
    kind = _wire_kind(inner, (*_JSON_TYPES, Literal, list, dict))
    if kind is Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if kind is list:
        return f"list of {_words(arguments[0])}"
    return f"map of string to {_words(arguments[1])}" if kind is dict else _JSON_TYPES[kind]


def with_current_table(page: str) -> str:
    """Return a page of the docs with the part between the marks replaced by the current tables.

    Raises:
        ValueError: The page does not hold both marks.
    """
    before, found_begin, rest = page.partition(TABLE_BEGIN)
    _, found_end, after = rest.partition(TABLE_END)
    if not (found_begin and found_end):
        message = f"the page needs the lines {TABLE_BEGIN!r} and {TABLE_END!r}; the tables go between them"
        raise ValueError(message)
    return f"{before}{TABLE_BEGIN}\n\n{topics_table()}\n\n{TABLE_END}{after}"


if __name__ == "__main__":
    from pathlib import Path

    page = Path("docs/topics.md")
    page.write_text(with_current_table(page.read_text()))
