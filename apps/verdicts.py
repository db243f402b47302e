"""What an operator says of an incident, as a control record that needs no look-up when it is applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import orjson

from pipelines.statistics.controls import LIMIT_BYTES
from topics import documents
from topics.documents import read
from topics.records import OperatorVerdict, Opinion, Subject


def verdict_on(incident: Mapping[str, Any], opinion: Opinion, note: str | None) -> OperatorVerdict:
    """Return the verdict on an incident, a document of Elasticsearch.

    Its subjects are the series the incident names, then the same metrics on its other resources: what is expected of
    one member of a group is expected of the others. As many as fit into a control record.
    """
    verdict = OperatorVerdict(
        verdict=opinion,
        incident=read(incident, documents.INCIDENT_ID),
        subjects=_subjects(incident),
        start_ms=_ms(read(incident, documents.START)),
        end_ms=_ms(read(incident, documents.END)),
        note=note,
    )
    while len(orjson.dumps(verdict)) > LIMIT_BYTES and verdict.subjects:
        verdict = replace(verdict, subjects=verdict.subjects[: len(verdict.subjects) // 2])
    return verdict


_INFLUENCERS: Final = "anomaly.influencers"


def _subjects(incident: Mapping[str, Any]) -> list[Subject]:
    named = [Subject(item["resource"], item["metric"]) for item in read(incident, _INFLUENCERS) or []]
    metrics: Sequence[str | None] = list(dict.fromkeys(subject.metric for subject in named)) or [None]
    hosts = read(incident, documents.HOSTS) or []
    everywhere = [Subject(host, metric) for host in hosts for metric in metrics]
    return list(dict.fromkeys([*named, *everywhere]))


def _ms(moment: Any) -> int | None:
    return None if moment is None else int(moment)
