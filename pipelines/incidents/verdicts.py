"""What operators say of incidents: which ones a verdict is about, and what becomes of the evidence of a muted one.

An incident judged expected or wrong is told as closed, once. While the same evidence goes on - the same members, led by
the series that are signs already - nothing more is told of it. What is new (another series in the lead, another
resource) is judged as if there were no incident.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from pipelines.incidents.explain import verdict_sentence
from pipelines.incidents.state import Episode, Fleet
from topics.records import Incident, OperatorVerdict

#: Least share of an incident's resources that a verdict without its id must name.
_LEAST_SHARE = 0.5


def subjects_match(verdict: OperatorVerdict, resources: Collection[str], series: Iterable[tuple[str, str]]) -> bool:
    """Tell whether a verdict is about most of an incident's resources.

    Args:
        verdict: The verdict.
        resources: Resources of the incident.
        series: Resource and metric of its signs.
    """
    known = set(series)
    named = {
        subject.resource
        for subject in verdict.subjects
        if subject.metric is None or (subject.resource, subject.metric) in known
    }
    return bool(resources) and len(named.intersection(resources)) >= _LEAST_SHARE * len(resources)


def within_span(verdict: OperatorVerdict, start_ms: int, end_ms: int) -> bool:
    """Tell whether a stretch of time overlaps the span of a verdict."""
    return (verdict.end_ms is None or start_ms < verdict.end_ms) and (
        verdict.start_ms is None or end_ms > verdict.start_ms
    )


def open_ones(fleet: Fleet, verdict: OperatorVerdict) -> list[Episode]:
    """Return the open incidents a verdict is about: the one with its id; if there is none, those of its subjects."""
    if verdict.incident in fleet.episodes:
        return [fleet.episodes[verdict.incident]]
    if verdict.incident in fleet.closed:
        return []
    return [
        episode
        for _, episode in sorted(fleet.episodes.items())
        if within_span(verdict, episode.start_ms, episode.last_end_ms) and _concerns(verdict, episode)
    ]


def _concerns(verdict: OperatorVerdict, episode: Episode) -> bool:
    signs = ((sign.contributor.resource, sign.contributor.metric) for sign in episode.signs.values())
    return subjects_match(verdict, episode.members, signs)


def closed_ones(fleet: Fleet, verdict: OperatorVerdict) -> list[Incident]:
    """Return the closed incidents a verdict is about, as far as they are remembered and not open under a mute."""
    closed = {name: incident for name, incident in fleet.closed.items() if name not in fleet.episodes}
    if verdict.incident in closed:
        return [closed[verdict.incident]]
    if verdict.incident in fleet.episodes:
        return []
    return [incident for _, incident in sorted(closed.items()) if _concerned(verdict, incident)]


def _concerned(verdict: OperatorVerdict, incident: Incident) -> bool:
    series = ((contributor.resource, contributor.metric) for contributor in incident.contributors)
    end_ms = incident.last_window_end_ms if incident.end_ms is None else incident.end_ms
    return within_span(verdict, incident.start_ms, end_ms) and subjects_match(verdict, incident.resources, series)


def judged(incident: Incident, verdict: OperatorVerdict) -> Incident:
    """Return a closed incident's next record, with the verdict in place of an earlier one."""
    plain = incident.explanation.removesuffix(verdict_sentence(incident.verdict, incident.note))
    return replace(
        incident,
        revision=incident.revision + 1,
        verdict=verdict.verdict,
        note=verdict.note,
        explanation=plain + verdict_sentence(verdict.verdict, verdict.note),
    )
