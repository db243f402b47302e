"""The Elasticsearch documents: their fields, and what is derived from them: mappings, templates, names and ids.

A *family* is one kind of document. Field names are ECS where ECS has one; the rest stands under `anomaly.*`, close to
the result records of Elastic's anomaly detection, and `incident.*`. Index name, `_id` and content are functions of the
record alone (no clock, offset or run), so any number of replays converge on the same documents: that is why these are
plain indices per stretch of event time and not data streams, which do not remove duplicates across a rollover.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal

import orjson

from topics.records import Incident, Score, SeriesScore, severity_of

#: Raised with every change of a mapping; an older program refuses to replace a newer one's templates.
TEMPLATE_VERSION: Final = 2
#: Above Elasticsearch's built-in templates (at most 200), so that none of them wins.
_TEMPLATE_PRIORITY: Final = 300
_ECS_VERSION: Final = "8.17.0"

#: Longest keyword that is indexed, in characters (ECS); longer ones stay in the document but cannot be searched.
_KEYWORD_LIMIT: Final = 1024
#: The same for sentences: the longest that fits Lucene's 32,766 bytes in any script.
_SENTENCE_LIMIT: Final = 8191

#: Series listed in a resource's document; every series above the threshold has a document of its own.
_INFLUENCERS: Final = 5

#: Versions of a document under `external_gte`: a final result replaces an early one, never the other way round.
EARLY_VERSION: Final = 1
FINAL_VERSION: Final = 2

#: Names that queries use.
TIMESTAMP: Final = "@timestamp"
SCORE: Final = "anomaly.record_score"
SEVERITY: Final = "anomaly.severity"
REASON: Final = "event.reason"
START: Final = "event.start"
END: Final = "event.end"
HOSTS: Final = "related.hosts"
INCIDENT_ID: Final = "incident.id"
INCIDENT_OPEN: Final = "incident.open"
INCIDENT_SCOPE: Final = "incident.scope"
INCIDENT_REVISION: Final = "incident.revision"

#: A record as parsed JSON; for a series: the record and the series in one, the series' fields winning.
Row = Mapping[str, Any]
Period = Literal["month", "day"]


@dataclass(frozen=True)
class Field:
    """One field of a document.

    Attributes:
        name: Dotted name.
        type: Elasticsearch type.
        sources: Fields of the record it is made of.
        value: Makes it of a row; None leaves the field out.
        options: Further settings of the mapping.
        properties: Fields of the objects in it, for type `nested`.
    """

    name: str
    type: str
    sources: tuple[str, ...]
    value: Callable[[Row], Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    properties: tuple[Field, ...] = ()

    @property
    def mapping(self) -> dict[str, Any]:
        """The field's entry in a mapping."""
        if self.properties:
            return {"type": self.type, "dynamic": "strict", "properties": _properties(self.properties)}
        limit = {"ignore_above": _KEYWORD_LIMIT} if self.type in ("keyword", "flattened") else {}
        return {"type": self.type, **limit, **self.options}


@dataclass(frozen=True)
class Family:
    """One kind of document.

    Attributes:
        name: Last part of the alias.
        record: The record it is made of.
        part: Its part of which there is one document each, or None for the whole record.
        fields: Fields of the document.
        omitted: Fields of record and part that are not in the document, and why.
        key: Fields whose values identify a document.
        time: Field whose event time decides the index; never changes between versions of a document.
        version: External version of a document.
    """

    name: str
    record: type[Any]
    part: type[Any] | None
    fields: tuple[Field, ...]
    omitted: Mapping[str, str]
    key: tuple[str, ...]
    time: str
    version: Callable[[Row], int]

    @property
    def alias(self) -> str:
        """Name that readers use; it covers the live generation."""
        return f"kappa-{self.name}"

    def generation_alias(self, generation: str) -> str:
        """Return the name that covers one generation; its indices' names begin with it."""
        return f"{self.alias}-{generation}"

    def index(self, row: Row, generation: str, period: Period) -> str:
        """Return the index a document belongs to, by event time."""
        return f"{self.generation_alias(generation)}-{_bucket(row[self.time], period)}"

    def document_id(self, row: Row) -> str:
        """Return the blake2b-128 of the natural key, in hex."""
        key = orjson.dumps([row[name] for name in self.key], option=orjson.OPT_SORT_KEYS)
        return hashlib.blake2b(key, digest_size=16).hexdigest()

    def source(self, row: Row) -> dict[str, Any]:
        """Return the document's content; fields without a value are left out."""
        return _build(self.fields, row)

    @property
    def mapping(self) -> dict[str, Any]:
        """The strict mapping: a field it does not know is an error, not a new field."""
        return {"dynamic": "strict", "date_detection": False, "properties": _properties(self.fields)}


def _bucket(time_ms: int, period: Period) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y.%m" if period == "month" else "%Y.%m.%d")


def _build(fields: Iterable[Field], row: Row) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for item in fields:
        value = item.value(row)
        if value is not None:
            _put(document, item.name, value)
    return document


def _put(document: dict[str, Any], name: str, value: Any) -> None:
    *parents, leaf = name.split(".")
    for parent in parents:
        document = document.setdefault(parent, {})
    document[leaf] = value


def _properties(fields: Iterable[Field]) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for item in fields:
        *parents, leaf = item.name.split(".")
        properties = root
        for parent in parents:
            properties = properties.setdefault(parent, {"properties": {}})["properties"]
        properties[leaf] = item.mapping
    return root


def read(source: Row, name: str) -> Any:
    """Return the value of a dotted field of a document, None where it is absent."""
    value: Any = source
    for part in name.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


# ---- makers of fields ------------------------------------------------------------------------------------------------


def _copy(name: str, type: str, source: str, **options: Any) -> Field:  # noqa: A002
    return Field(name, type, (source,), lambda row: row[source], options)


def _constant(name: str, value: str) -> Field:
    return Field(name, "keyword", (), lambda _: value)


def _derived(name: str, type: str, sources: Sequence[str], value: Callable[..., Any], **options: Any) -> Field:  # noqa: A002
    """Make a field of the values of several record fields, given to `value` in order."""
    return Field(name, type, tuple(sources), lambda row: value(*(row[source] for source in sources)), options)


def _nested(
    name: str, source: str, properties: tuple[Field, ...], select: Callable[[Sequence[Row]], Sequence[Row]]
) -> Field:
    """Make a list of objects of the selected elements of a list of the record."""
    return Field(
        name,
        "nested",
        (source,),
        lambda row: [_build(properties, element) for element in select(row[source])],
        properties=properties,
    )


def _event(family: str, kind: str) -> tuple[Field, ...]:
    return (
        _constant("ecs.version", _ECS_VERSION),
        _constant("event.module", "kappa"),
        _constant("event.dataset", f"kappa.{family}"),
        _constant("event.kind", kind),
        _derived("event.severity", "long", ["score"], round),
    )


def _result(result_type: str) -> tuple[Field, ...]:
    return (
        _constant("anomaly.result_type", result_type),
        _copy(SCORE, "float", "score"),
        _copy("anomaly.probability", "double", "p"),
    )


def series_label(metric: str, attributes: Mapping[str, str]) -> str:
    """Return a series' name within its resource, as people write it: `system.cpu.utilization{cpu=0}`."""
    inner = ",".join(f"{name}={attributes[name]}" for name in sorted(attributes))
    return f"{metric}{{{inner}}}" if inner else metric


def _strongest(series: Sequence[Row]) -> list[Row]:
    """Return the series that contributed most to their resource's score, strongest first."""
    evidence = [each for each in series if each["suppressed"] is None]
    return sorted(evidence, key=_by_contribution)[:_INFLUENCERS]


def _by_contribution(series: Row) -> tuple[float, str]:
    return -series["contribution"], series_label(series["metric"], series["attributes"])


def _metric_names(elements: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(element["metric"] for element in elements))


_WINDOW: Final = (
    _copy(TIMESTAMP, "date", "window_end_ms"),
    _copy(START, "date", "window_start_ms"),
    _copy(END, "date", "window_end_ms"),
    _derived("anomaly.bucket_span", "long", ["window_start_ms", "window_end_ms"], lambda a, b: (b - a) // 1000),
)
_PLACE: Final = (
    _copy("service.name", "keyword", "service"),
    _copy("cloud.region", "keyword", "region"),
)
_RESOURCE: Final = (
    _copy("host.name", "keyword", "resource"),
    _derived(HOSTS, "keyword", ["resource"], lambda resource: [resource]),
    *_PLACE,
    _copy("cloud.availability_zone", "keyword", "site"),
    _copy("anomaly.model.version", "keyword", "model_version"),
)
_DEVIATION: Final = (
    _copy("actual", "double", "actual"),
    _copy("typical", "double", "expected"),
    _copy("lower", "double", "lower"),
    _copy("upper", "double", "upper"),
    _copy("direction", "keyword", "direction"),
)
_SERIES_NAME: Final = (
    _copy("metric", "keyword", "metric"),
    _copy("attributes", "flattened", "attributes"),
    _derived("series", "keyword", ["metric", "attributes"], series_label),
    _copy("unit", "keyword", "unit"),
)
_INFLUENCER: Final = (
    *_SERIES_NAME,
    *_DEVIATION,
    _copy("record_score", "float", "score"),
)


def _in_anomaly(fields: Iterable[Field]) -> tuple[Field, ...]:
    return tuple(Field(f"anomaly.{item.name}", item.type, item.sources, item.value, item.options) for item in fields)


# ---- families --------------------------------------------------------------------------------------------------------

#: One document per resource and window.
SCORES: Final = Family(
    name="scores",
    record=Score,
    part=None,
    fields=(
        *_event("scores", "metric"),
        *_WINDOW,
        *_RESOURCE,
        *_result("influencer"),
        _copy(SEVERITY, "keyword", "severity"),
        _copy("anomaly.silent", "boolean", "silent"),
        _derived("anomaly.series_count", "long", ["series"], len),
        _derived("anomaly.metrics", "keyword", ["series"], lambda series: _metric_names(_strongest(series))),
        _nested(
            "anomaly.influencers",
            "series",
            (*_INFLUENCER, _copy("contribution", "float", "contribution")),
            select=_strongest,
        ),
    ),
    omitted={},
    key=("resource", "window_start_ms", "window_end_ms"),
    time="window_end_ms",
    version=lambda _: FINAL_VERSION,
)

#: One document per series and window.
SERIES: Final = Family(
    name="series",
    record=Score,
    part=SeriesScore,
    fields=(
        *_event("series", "metric"),
        *_WINDOW,
        *_RESOURCE,
        *_result("record"),
        _derived(SEVERITY, "keyword", ["score"], severity_of),
        *_in_anomaly(_SERIES_NAME),
        *_in_anomaly(_DEVIATION),
        _copy("anomaly.kind", "keyword", "kind"),
        _copy("anomaly.contribution", "float", "contribution"),
        _copy("anomaly.observations", "float", "observations"),
        _copy("anomaly.hypothesis.anomaly", "float", "anomaly"),
        _copy("anomaly.hypothesis.new_normal", "float", "new_normal"),
        _copy("anomaly.regime.number", "integer", "regime"),
        _copy("anomaly.regime.windows", "long", "regime_windows"),
        _copy("anomaly.sustained", "boolean", "sustained"),
        _copy("anomaly.suppressed_by", "keyword", "suppressed"),
    ),
    omitted={
        "severity": "the resource's; the document carries the series' own, which follows from its score",
        "silent": "says something about the resource, not about one series",
        "series": "one document each",
    },
    key=("resource", "window_start_ms", "window_end_ms", "metric", "attributes", "kind", "unit"),
    time="window_end_ms",
    version=lambda _: FINAL_VERSION,
)

#: One document per incident; `@timestamp` moves with it, its index does not.
INCIDENTS: Final = Family(
    name="incidents",
    record=Incident,
    part=None,
    fields=(
        *_event("incidents", "alert"),
        _copy(TIMESTAMP, "date", "last_window_end_ms"),
        _copy(START, "date", "start_ms"),
        _copy(END, "date", "end_ms"),
        _copy("event.id", "keyword", "id"),
        _copy("event.action", "keyword", "state"),
        _copy(REASON, "keyword", "explanation", ignore_above=_SENTENCE_LIMIT, fields={"text": {"type": "text"}}),
        _derived("host.name", "keyword", ["resources"], lambda resources: resources[0] if resources else None),
        _copy(HOSTS, "keyword", "resources"),
        *_PLACE,
        *_result("incident"),
        _copy(SEVERITY, "keyword", "severity"),
        _derived("anomaly.metrics", "keyword", ["contributors"], _metric_names),
        _nested(
            "anomaly.influencers",
            "contributors",
            (*_INFLUENCER, _copy("resource", "keyword", "resource"), _copy("timestamp", "date", "window_end_ms")),
            select=list,
        ),
        _copy(INCIDENT_ID, "keyword", "id"),
        _derived(INCIDENT_OPEN, "boolean", ["state"], lambda state: state != "close"),
        _copy(INCIDENT_SCOPE, "keyword", "scope"),
        _copy(INCIDENT_REVISION, "long", "revision"),
        _copy("incident.windows", "long", "windows"),
        _derived("incident.resources", "long", ["resources"], len),
        _copy("incident.verdict", "keyword", "verdict"),
        _copy("incident.note", "keyword", "note", ignore_above=_SENTENCE_LIMIT),
    ),
    omitted={},
    key=("id",),
    time="start_ms",
    version=lambda row: int(row["revision"]),
)

FAMILIES: Final = (INCIDENTS, SCORES, SERIES)


# ---- templates -------------------------------------------------------------------------------------------------------

#: An empty component template that belongs to the user: settings put there win and are never overwritten.
CUSTOM_TEMPLATE: Final = "kappa@custom"


@dataclass(frozen=True)
class IndexSettings:
    """Settings of new indices."""

    shards: int = 1
    replicas: int = 0
    refresh_interval: str = "1s"

    @property
    def body(self) -> dict[str, Any]:
        """Settings as Elasticsearch takes them."""
        return {
            "index.number_of_shards": self.shards,
            "index.number_of_replicas": self.replicas,
            "index.refresh_interval": self.refresh_interval,
        }


@dataclass(frozen=True)
class Templates:
    """Everything that must be there before the first document is written; names to bodies, in order of creation."""

    components: Mapping[str, dict[str, Any]]
    indices: Mapping[str, dict[str, Any]]


def templates(generation: str, settings: IndexSettings, live: bool = True) -> Templates:
    """Return component and index templates of a generation.

    They belong to one generation each, so that a generation of newer code stands beside one of older code.

    Args:
        generation: Name of the generation.
        settings: Settings of new indices.
        live: Whether the aliases that readers use are to cover this generation.
    """
    settings_name = f"kappa-{generation}@settings"
    components = {settings_name: {"template": {"settings": settings.body}, "_meta": _meta()}}
    indices = {}
    for family in FAMILIES:
        name = family.generation_alias(generation)
        components[f"{name}@mappings"] = {"template": {"mappings": family.mapping}, "_meta": _meta()}
        indices[name] = {
            "index_patterns": [f"{name}-*"],
            # Of two generations one of whose names begins with the other, both patterns match: the longer must win.
            "priority": _TEMPLATE_PRIORITY + len(generation),
            "composed_of": [settings_name, f"{name}@mappings", CUSTOM_TEMPLATE],
            "template": {"aliases": {alias: {} for alias in ([name, family.alias] if live else [name])}},
            "_meta": _meta(),
        }
    return Templates(components, indices)


def _meta() -> dict[str, Any]:
    return {"managed_by": "kappa", "version": TEMPLATE_VERSION}
