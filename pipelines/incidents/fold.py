"""The fold: a complete window of the fleet and what is remembered, to incident records.

Nothing here knows Spark or Kafka. In each window, in this order: operators' verdicts are taken up; open incidents take
up the evidence of their members; groups affected together become, or join, one incident; what is left opens incidents
of single resources; incidents that changed are told; the rates of quiet groups are learned.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import orjson

from models.episodes import CONFIRMATION_WINDOWS, Levels, closes, episode_score, next_pace, opens, recent
from models.fleet import (
    DAY_MS,
    Count,
    Group,
    GroupRule,
    Place,
    affected_places,
    alarm_levels,
    candidate_places,
    log10_of,
)
from pipelines.incidents.explain import absorbed_explanation, explanation, verdict_sentence
from pipelines.incidents.state import (
    Episode,
    Fleet,
    Member,
    Sign,
    Trace,
    fleet_from_bytes,
    fleet_to_bytes,
    new_fleet,
    sign_key,
)
from pipelines.incidents.verdicts import closed_ones, judged, open_ones
from pipelines.incidents.windows import Window, summary_from_json
from pipelines.parameters import IncidentParameters
from topics.records import Contributor, Finding, Incident, Scope, SeriesScore, severity_of

#: Resources and contributors listed in a record; an outage of the cloud must fit into a message.
LISTED_RESOURCES: Final = 500
LISTED_CONTRIBUTORS: Final = 10
#: Contributors of one resource in the record of a group.
LISTED_PER_RESOURCE: Final = 3
#: Contributors whose change is worth an update.
_TOP_CONTRIBUTORS: Final = 3


@dataclass(frozen=True)
class Outcome:
    """What a batch of summaries led to.

    Attributes:
        incidents: Records, in order.
        completed: Windows judged.
        ignored: Summaries that were there already, or too late.
        waiting: Windows that miss a summary.
        unmatched: Verdicts about no incident that is remembered.
    """

    incidents: tuple[Incident, ...]
    completed: int
    ignored: int
    waiting: int
    unmatched: int = 0


def fold(
    state: bytes | bytearray | None, summaries: Iterable[bytes], parameters: IncidentParameters
) -> tuple[bytes, Outcome]:
    """Take up summaries, in any order, and judge the windows they complete.

    Args:
        state: What the last call returned; None at first.
        summaries: Values of novelty.summaries.
        parameters: Settings of the job.

    Returns:
        The new state and what came of it.
    """
    fleet = fleet_from_bytes(state) if state is not None else new_fleet(parameters)
    needed = [fleet.windows.add(summary_from_json(value)) for value in summaries]
    incidents: list[Incident] = []
    completed = unmatched = 0
    for window in fleet.windows.complete():
        judgement = _Judgement(fleet, window, parameters)
        incidents += judgement.records()
        unmatched += judgement.unmatched
        completed += 1
    outcome = Outcome(tuple(incidents), completed, needed.count(False), fleet.windows.waiting, unmatched)
    return fleet_to_bytes(fleet), outcome


def incident_id(start_ms: int, place: Place, resource: str) -> str:
    """Return the id of the incident that begins in this window: the same in every replay."""
    key = orjson.dumps([start_ms, place.scope, place.service, place.region, resource])
    return hashlib.blake2b(key, digest_size=8).hexdigest()


@dataclass
class _Judgement:
    fleet: Fleet
    window: Window
    parameters: IncidentParameters
    told: list[Incident] = field(default_factory=list)
    heard: set[str] = field(default_factory=set)
    unmatched: int = 0
    opened: int = 0

    def __post_init__(self) -> None:
        self.end_ms = self.window.end_ms
        self.window_ms = self.parameters.window_s * 1000
        self.together_ms = self.parameters.group_windows * self.window_ms
        self.owner = {name: episode for episode in self._episodes() for name in episode.members}
        self.tested = max(self.window.resources - len(self.owner), 0)
        self.levels = self._levels()

    def _levels(self) -> Levels:
        return alarm_levels(
            self._false_per_day(),
            self.window.resources,
            len(candidate_places(self.window.sizes)),
            self.window_ms,
            log10_of(self.parameters.report_p),
            self.fleet.persistence.excess,
        )

    def _false_per_day(self) -> float:
        """Return how many false incidents per day the levels of this window may lead to."""
        if self.parameters.target_precision is None:
            return self.parameters.false_incidents_per_day
        level = self.fleet.discoveries.level(self.tested, self.parameters.target_precision)
        return level * max(self.window.resources, 1) * DAY_MS / self.window_ms

    def _episodes(self) -> list[Episode]:
        """Return the open incidents, the oldest first."""
        return sorted(self.fleet.episodes.values(), key=lambda episode: (episode.start_ms, episode.id))

    def records(self) -> list[Incident]:
        self._hear()
        self._release()
        self._remember()
        self._extend()
        self._join_groups()
        self._open_resources()
        records = self._tell()
        self._learn()
        return records

    # ---- verdicts ----------------------------------------------------------------------------------------------------

    def _hear(self) -> None:
        """Take up what operators said."""
        for verdict in self.window.verdicts:
            episodes, closed = open_ones(self.fleet, verdict), closed_ones(self.fleet, verdict)
            for episode in episodes:
                episode.verdict, episode.note = verdict.verdict, verdict.note
                self.heard.add(episode.id)
            for incident in (judged(incident, verdict) for incident in closed):
                self.fleet.closed[incident.id] = incident
                self.told.append(incident)
            self.unmatched += not (episodes or closed)

    def _release(self) -> None:
        """Let go of members of muted incidents whose evidence is not the one that was judged."""
        for finding in self.window.findings:
            episode = self.owner.get(finding.resource)
            if episode is None or not episode.muted or episode.id in self.heard:
                continue
            if not episode.goes_on(finding):
                del episode.members[finding.resource]
                del self.owner[finding.resource]

    def _is_muted(self, resource: str) -> bool:
        return resource in self.owner and self.owner[resource].muted

    # ---- evidence ----------------------------------------------------------------------------------------------------

    def _log10_p(self, finding: Finding) -> float:
        """Return the evidence of a finding; silence was decided by a rule and opens whatever p it has."""
        log10_p = log10_of(finding.p)
        return min(log10_p, self.levels.single) if finding.silent else log10_p

    def _remember(self) -> None:
        """Add the window's findings to the traces; forget what is too old to matter."""
        traces = self.fleet.traces
        for finding in self.window.findings:
            if self._is_muted(finding.resource):
                continue
            young = finding.age_windows < self.parameters.warmup_windows and not finding.silent
            history = traces[finding.resource].history if finding.resource in traces else []
            history = [*history, (self.end_ms, self._log10_p(finding))]
            traces[finding.resource] = Trace(finding.service, finding.region, young, history)
        span = max(self.parameters.group_windows, CONFIRMATION_WINDOWS)
        for resource in list(traces):
            traces[resource].history = recent(traces[resource].history, self.end_ms - span * self.window_ms)
            if not traces[resource].history:
                del traces[resource]

    def _extend(self) -> None:
        for finding in self.window.findings:
            episode = self.owner.get(finding.resource)
            if episode is not None and self._holds(episode, finding):
                self._take_up(episode, finding)

    def _holds(self, episode: Episode, finding: Finding) -> bool:
        return finding.silent or self._log10_p(finding) <= self.levels.hold_for(len(episode.members))

    def _take_up(self, episode: Episode, finding: Finding) -> None:
        """Add a member's finding to an incident; of a muted one only that it goes on."""
        if episode.muted:
            episode.last_end_ms = self.end_ms
            return
        log10_p = self._log10_p(finding)
        member = episode.members[finding.resource]
        member.windows += 1
        member.last_end_ms = self.end_ms
        member.evidence -= log10_p
        member.silent = finding.silent
        member.silent_windows += finding.silent
        if episode.last_end_ms < self.end_ms:
            episode.last_end_ms = self.end_ms
            episode.windows += 1
        episode.peak = max(episode.peak, finding.score)
        episode.log10_p = min(episode.log10_p, log10_p)
        for series in self._surprising(finding):
            _add_sign(episode, finding.resource, series, self.end_ms)
        episode.trim()

    def _surprising(self, finding: Finding) -> Sequence[SeriesScore]:
        found = [series for series in finding.top if series.p <= self.parameters.report_p]
        return found or finding.top[:1]

    # ---- groups ------------------------------------------------------------------------------------------------------

    def _join_groups(self) -> None:
        rule = GroupRule(
            self.parameters.group_share, self.parameters.group_minimum, self.levels.group, self.fleet.rates
        )
        for place in affected_places(self._counts(), rule):
            self._one_incident(place)

    def _counts(self) -> dict[Group, Count]:
        """Return what is new in each group; members of older incidents have their explanation and do not count."""
        sizes = dict(self.window.sizes)
        for member in self._members():
            if not self._is_news(member):
                group = (member.service, member.region)
                sizes[group] = max(sizes.get(group, 0) - 1, 0)
        counts = {group: Count(size) for group, size in sizes.items()}
        for resource, trace in self.fleet.traces.items():
            if self._counts_as_new(resource, trace):
                group = (trace.service, trace.region)
                one = Count(0, 1, int(_would_open(trace, self.levels)))
                counts[group] = counts.get(group, Count(1)) + one
        return counts

    def _members(self) -> list[Member]:
        return [member for episode in self._episodes() for member in episode.members.values()]

    def _is_news(self, member: Member) -> bool:
        return self._is_new(member.first_end_ms) and not self._is_muted(member.resource)

    def _is_new(self, at_ms: int) -> bool:
        return at_ms > self.end_ms - self.together_ms

    def _counts_as_new(self, resource: str, trace: Trace) -> bool:
        episode = self.owner.get(resource)
        if episode is not None:
            return self._is_news(episode.members[resource])
        return not trace.young and self._is_new(trace.history[-1][0])

    def _one_incident(self, place: Place) -> None:
        """Make one incident of everything new in a place."""
        inside = [item for item in self._episodes() if place.covers(item.place) and self._began_now(item)]
        covering = self._growing(place)
        target = covering or (inside[0] if inside else None)
        if target is None:
            target = self._open(place, self._newcomers(place, None))
        for other in inside:
            if other is not target:
                self._absorb(target, other)
        if target.scope == "resource" or (place.covers(target.place) and place != target.place):
            target.scope, target.service, target.region = _scope(place), place.service, place.region
        for resource in self._newcomers(place, covering):
            self._join(target, resource)

    def _began_now(self, episode: Episode) -> bool:
        return not episode.muted and all(self._is_news(member) for member in episode.members.values())

    def _growing(self, place: Place) -> Episode | None:
        """Return the group incident that covers a place and still gains members."""
        covering = [
            item
            for item in self._episodes()
            if item.scope != "resource" and item.place.covers(place) and self._is_new(item.grown_end_ms)
            if not item.muted
        ]
        return covering[0] if covering else None

    def _newcomers(self, place: Place, joining: Episode | None) -> list[str]:
        """Return the new resources of a place without an incident, the strongest first.

        When they join an incident that was told already, only those that would hold it open: others are chance.
        """
        level = 0.0 if joining is None else self.levels.hold
        found = [
            (min(log10_p for _, log10_p in trace.history), resource)
            for resource, trace in self.fleet.traces.items()
            if resource not in self.owner and self._counts_as_new(resource, trace)
            if place.holds((trace.service, trace.region))
        ]
        return [resource for log10_p, resource in sorted(found) if log10_p <= level]

    def _absorb(self, target: Episode, other: Episode) -> None:
        """Take the members and signs of another incident, and close it."""
        self.told.append(self._record(other, "close", absorbed_explanation(other, target.id)))
        del self.fleet.episodes[other.id]
        for name, member in other.members.items():
            target.members[name] = member
            self.owner[name] = target
        target.signs.update(other.signs)
        target.trim()
        target.last_end_ms = max(target.last_end_ms, other.last_end_ms)
        target.grown_end_ms = self.end_ms
        target.peak = max(target.peak, other.peak)
        target.log10_p = min(target.log10_p, other.log10_p)

    # ---- opening -----------------------------------------------------------------------------------------------------

    def _open_resources(self) -> None:
        for finding in self.window.findings:
            if finding.resource in self.owner:
                continue
            trace = self.fleet.traces[finding.resource]
            if not trace.young and opens(trace.history, self.end_ms, self.window_ms, self.levels):
                self._open_or_join(finding)

    def _open_or_join(self, finding: Finding) -> None:
        place = Place("resource", finding.service, finding.region)
        target = self._growing(place)
        if target is None:
            self._open(place, [finding.resource])
        else:
            self._join(target, finding.resource)

    def _open(self, place: Place, resources: Sequence[str]) -> Episode:
        start_ms = min(self._onset_ms(name) for name in resources) - self.window_ms
        episode = Episode(
            id=incident_id(self.window.start_ms, place, resources[0]),
            scope=_scope(place),
            service=place.service,
            region=place.region,
            start_ms=start_ms,
            last_end_ms=start_ms,
            grown_end_ms=self.end_ms,
            windows=0,
            peak=0.0,
            log10_p=0.0,
        )
        self.fleet.episodes[episode.id] = episode
        self.opened += not all(self._is_silent(resource) for resource in resources)
        for resource in resources:
            self._join(episode, resource)
        return episode

    def _is_silent(self, resource: str) -> bool:
        """Tell whether a resource is silent in this window: a rule found it, not a test."""
        return any(finding.silent for finding in self.window.findings if finding.resource == resource)

    def _onset_ms(self, resource: str) -> int:
        """Return the end of the resource's first recent window that counts as confirmation."""
        history = self.fleet.traces[resource].history
        return min((at_ms for at_ms, log10_p in history if log10_p <= self.levels.pair), default=self.end_ms)

    def _join(self, episode: Episode, resource: str) -> None:
        trace = self.fleet.traces[resource]
        episode.members[resource] = Member(
            resource, trace.service, trace.region, self.end_ms, self.end_ms, windows=0, evidence=0.0, silent=False
        )
        episode.grown_end_ms = self.end_ms
        self.owner[resource] = episode
        for finding in self.window.findings:
            if finding.resource == resource:
                self._take_up(episode, finding)

    # ---- telling -----------------------------------------------------------------------------------------------------

    def _tell(self) -> list[Incident]:
        records = list(self.told)
        for episode in self._episodes():
            episode.group_size = sum(size for group, size in self.window.sizes.items() if episode.place.holds(group))
            over = closes(episode.last_end_ms, self.end_ms, self.parameters.close_after_windows * self.window_ms)
            if episode.id in self.heard or not episode.muted:
                records += self._news(episode, over)
            if over or not episode.members:
                del self.fleet.episodes[episode.id]
        return records

    def _news(self, episode: Episode, over: bool) -> list[Incident]:
        """Return the record of an incident, if there is anything to tell."""
        if over or episode.muted:
            return [self._record(episode, "close")]
        if self._worth_telling(episode):
            return [self._record(episode, "update" if episode.revision else "open")]
        return []

    def _worth_telling(self, episode: Episode) -> bool:
        if episode.id in self.heard:
            return True
        major, minor = self._aspects(episode)
        since = (self.end_ms - episode.published_end_ms) // self.window_ms
        if not episode.revision or episode.published[0] != major:
            return True
        if episode.published[1] != minor and since >= episode.pace:
            episode.pace = next_pace(episode.pace, self.parameters.update_windows)
            return True
        return since >= self.parameters.update_windows

    def _aspects(self, episode: Episode) -> tuple[list[str | None], list[str]]:
        """Return what readers must hear of at once, and what can wait a little."""
        major = [episode.scope, episode.service, episode.region, severity_of(self._score(episode))]
        signs = sorted(sorted(episode.signs, key=lambda key: (episode.signs[key].log10_p, key))[:_TOP_CONTRIBUTORS])
        return major, [*sorted(episode.members), *signs]

    def _score(self, episode: Episode) -> float:
        lasted_ms = episode.last_end_ms - episode.start_ms
        return episode_score(episode.peak, episode.scope, lasted_ms, self.parameters.brief_s * 1000)

    def _record(self, episode: Episode, state: str, told: str | None = None) -> Incident:
        episode.revision += 1
        episode.published_end_ms = self.end_ms
        episode.published = list(self._aspects(episode))
        score = self._score(episode)
        sentence = told or explanation(episode, self.window_ms)
        record = Incident(
            id=episode.id,
            state=state,  # type: ignore[arg-type]
            revision=episode.revision,
            scope=episode.scope,
            severity=severity_of(score),
            score=score,
            p=10.0**episode.log10_p,
            start_ms=episode.start_ms,
            end_ms=episode.last_end_ms if state == "close" else None,
            last_window_end_ms=self.end_ms,
            windows=episode.windows,
            service=episode.service,
            region=episode.region,
            resources=[member.resource for member in episode.ranked_members()[:LISTED_RESOURCES]],
            contributors=contributors(episode),
            explanation=sentence + verdict_sentence(episode.verdict, episode.note),
            verdict=episode.verdict,
            note=episode.note,
        )
        if state == "close":
            self.fleet.remember_closed(record)
        else:
            self.fleet.closed.pop(episode.id, None)
        return record

    # ---- learning ----------------------------------------------------------------------------------------------------

    def _learn(self) -> None:
        """Learn how surprising what has no incident is: by chance, together, and again; and what was discovered."""
        self.fleet.discoveries.learn(self.tested, self.opened)
        keep = 1 - self.window_ms / DAY_MS
        quiet = {name: trace for name, trace in self.fleet.traces.items() if name not in self.owner}
        self.fleet.persistence.decay(keep)
        self._learn_persistence([trace for trace in quiet.values() if not trace.young])
        self.fleet.rates.decay(keep)
        self._learn_rates(quiet.values())

    def _learn_persistence(self, traces: Sequence[Trace]) -> None:
        now = [trace.history for trace in traces if trace.history[-1][0] == self.end_ms]
        earliest_ms = self.end_ms - CONFIRMATION_WINDOWS * self.window_ms
        repeated = sum(len(recent(history, earliest_ms)) > 1 for history in now)
        self.fleet.persistence.learn(len(now), repeated)

    def _learn_rates(self, quiet: Iterable[Trace]) -> None:
        """Learn from the groups that are not part of an incident."""
        surprising = Counter((trace.service, trace.region) for trace in quiet if self._is_new(trace.history[-1][0]))
        owned = Counter((member.service, member.region) for member in self._members())
        wide = [episode.place for episode in self._episodes() if episode.scope != "resource"]
        for group in sorted(self.window.sizes, key=_group_order):
            size = self.window.sizes[group] - owned[group]
            if size > 0 and not any(place.holds(group) for place in wide):
                self.fleet.rates.learn(size, min(surprising[group], size))


def _scope(place: Place) -> Scope:
    return place.scope  # type: ignore[return-value]


def _group_order(group: Group) -> tuple[str, ...]:
    return tuple("" if name is None else f"-{name}" for name in group)


def _would_open(trace: Trace, levels: Levels) -> bool:
    log10_ps = [log10_p for _, log10_p in trace.history]
    return min(log10_ps) <= levels.single or sum(log10_p <= levels.pair for log10_p in log10_ps) > 1


def _add_sign(episode: Episode, resource: str, series: SeriesScore, end_ms: int) -> None:
    key = sign_key(resource, series)
    log10_p = log10_of(series.p)
    before = episode.signs.get(key)
    windows = 1 + (before.windows if before else 0)
    if before is not None and before.log10_p <= log10_p:
        before.windows = windows
        return
    contributor = Contributor(
        resource=resource,
        metric=series.metric,
        attributes=series.attributes,
        unit=series.unit,
        window_end_ms=end_ms,
        actual=series.actual,
        expected=series.expected,
        lower=series.lower,
        upper=series.upper,
        direction=series.direction,
        score=series.score,
    )
    episode.signs[key] = Sign(contributor, log10_p, windows)


def contributors(episode: Episode) -> list[Contributor]:
    """Return the most surprising series, a group's from several resources."""
    most = LISTED_CONTRIBUTORS if episode.scope == "resource" else LISTED_PER_RESOURCE
    listed: list[Contributor] = []
    per_resource: dict[str, int] = {}
    for sign in episode.ranked_signs():
        name = sign.contributor.resource
        per_resource[name] = per_resource.get(name, 0) + 1
        if per_resource[name] <= most:
            listed.append(sign.contributor)
    return listed[:LISTED_CONTRIBUTORS]
