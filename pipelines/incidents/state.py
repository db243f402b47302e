"""What the incidents job remembers: open incidents with their members and signs, recent findings, learned rates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from models.episodes import CONFIRMATION_WINDOWS
from models.fleet import GroupRates, Persistence, Place
from models.precision import Discoveries
from pipelines.incidents.windows import Windows, summary_from_dict
from pipelines.parameters import IncidentParameters
from topics.records import Contributor, Finding, Incident, Opinion, Scope, SeriesScore

#: Raised with every change of the layout; `fleet_from_bytes` refuses another one.
LAYOUT_VERSION: Final = 3

#: Signs kept per incident; far more than are ever shown.
KEPT_SIGNS: Final = 64
#: Closed incidents kept, the last ones: operators judge them after the fact.
KEPT_CLOSED: Final = 200


class LayoutError(RuntimeError):
    """The state was written by a program this one does not know."""


@dataclass
class Member:
    """A resource's part in an incident."""

    resource: str
    service: str | None
    region: str | None
    first_end_ms: int
    last_end_ms: int
    windows: int
    #: Sum of -log10 p over the windows with evidence.
    evidence: float
    silent: bool
    silent_windows: int = 0


@dataclass
class Sign:
    """A series' part in an incident: its most surprising window, and in how many windows it was surprising."""

    contributor: Contributor
    log10_p: float
    windows: int


@dataclass
class Episode:
    """An open incident.

    `id` and `start_ms` never change, whatever it grows into: readers find all its revisions by them.

    `published` is what readers were last told, as far as a change of it is worth a record; `pace` (windows) and
    `published_end_ms` bound how often small changes are told.
    """

    id: str
    scope: Scope
    service: str | None
    region: str | None
    start_ms: int
    last_end_ms: int
    grown_end_ms: int
    windows: int
    peak: float
    log10_p: float
    group_size: int = 0
    members: dict[str, Member] = field(default_factory=dict)
    signs: dict[str, Sign] = field(default_factory=dict)
    revision: int = 0
    published: list[Any] = field(default_factory=list)
    published_end_ms: int = 0
    pace: int = 1
    verdict: Opinion | None = None
    note: str | None = None

    @property
    def muted(self) -> bool:
        """Tell whether an operator said that this is no incident: it is told as closed while its evidence goes on."""
        return self.verdict in ("expected", "wrong")

    def goes_on(self, finding: Finding) -> bool:
        """Tell whether a member's finding is the evidence that is known already: its strongest series is a sign."""
        if finding.silent:
            return self.members[finding.resource].silent_windows > 0
        return bool(finding.top) and sign_key(finding.resource, finding.top[0]) in self.signs

    @property
    def place(self) -> Place:
        """Return the resources the incident is about."""
        return Place(self.scope, self.service, self.region)

    def ranked_members(self) -> list[Member]:
        """Return the members, the first affected first: a cause comes before its effects. Then by evidence."""
        return sorted(
            self.members.values(), key=lambda member: (member.first_end_ms, -member.evidence, member.resource)
        )

    def ranked_signs(self) -> list[Sign]:
        """Return the signs, the most surprising first."""
        return [self.signs[key] for key in sorted(self.signs, key=lambda key: (self.signs[key].log10_p, key))]

    def trim(self) -> None:
        """Forget the weakest signs beyond those that are kept."""
        if len(self.signs) > KEPT_SIGNS:
            keep = sorted(self.signs, key=lambda key: (self.signs[key].log10_p, key))[:KEPT_SIGNS]
            self.signs = {key: self.signs[key] for key in keep}


def sign_key(resource: str, series: SeriesScore) -> str:
    """Return the key of a series among an incident's signs."""
    attributes = sorted(series.attributes.items())
    return orjson.dumps([resource, series.metric, attributes, series.kind, series.unit]).decode()


@dataclass
class Trace:
    """A resource's latest surprising windows.

    `history` holds (window end, log10 p) in order; `young` says that the resource is not yet known long enough.
    """

    service: str | None
    region: str | None
    young: bool
    history: list[tuple[int, float]] = field(default_factory=list)


@dataclass
class Fleet:
    """Everything the fold remembers.

    Incomplete windows, learned rates, open incidents by id, traces by resource, the last closed incidents by id, as
    they were told, and the tests and discoveries behind a wanted precision.
    """

    windows: Windows
    rates: GroupRates
    persistence: Persistence
    episodes: dict[str, Episode] = field(default_factory=dict)
    traces: dict[str, Trace] = field(default_factory=dict)
    closed: dict[str, Incident] = field(default_factory=dict)
    discoveries: Discoveries = field(default_factory=Discoveries)

    def remember_closed(self, incident: Incident) -> None:
        """Keep a closed incident, the last one closed last; forget the oldest."""
        self.closed.pop(incident.id, None)
        self.closed[incident.id] = incident
        while len(self.closed) > KEPT_CLOSED:
            del self.closed[next(iter(self.closed))]


def new_fleet(parameters: IncidentParameters) -> Fleet:
    """Return the state before the first summary."""
    nominal = 1 - (1 - parameters.report_p) ** parameters.group_windows
    chance = 1 - (1 - parameters.report_p) ** (CONFIRMATION_WINDOWS - 1)
    return Fleet(Windows(parameters.buckets), GroupRates(nominal), Persistence(chance))


def fleet_to_bytes(fleet: Fleet) -> bytes:
    """Return the state as JSON; equal states have equal bytes."""
    pending = fleet.windows.pending
    return orjson.dumps(
        {
            "version": LAYOUT_VERSION,
            "buckets": fleet.windows.buckets,
            "last_end_ms": fleet.windows.last_end_ms,
            "pending": [pending[end_ms][bucket] for end_ms in sorted(pending) for bucket in sorted(pending[end_ms])],
            "rates": fleet.rates,
            "persistence": fleet.persistence,
            "episodes": [fleet.episodes[key] for key in sorted(fleet.episodes)],
            "traces": {resource: fleet.traces[resource] for resource in sorted(fleet.traces)},
            "closed": list(fleet.closed.values()),
            "discoveries": fleet.discoveries,
        }
    )


def fleet_from_bytes(blob: bytes | bytearray) -> Fleet:
    """Read a state written by `fleet_to_bytes`.

    Raises:
        LayoutError: Another program wrote it.
    """
    fields = orjson.loads(blob)
    if fields["version"] != LAYOUT_VERSION:
        message = (
            f"the checkpoint holds layout {fields['version']} of the incidents state, this program reads "
            f"{LAYOUT_VERSION}: run the program that wrote it, or start a new generation"
        )
        raise LayoutError(message)
    windows = Windows(fields["buckets"], fields["last_end_ms"])
    for summary in map(summary_from_dict, fields["pending"]):
        windows.add(summary)
    episodes = [_episode(item) for item in fields["episodes"]]
    traces = {resource: _trace(item) for resource, item in fields["traces"].items()}
    rates, persistence = GroupRates(**fields["rates"]), Persistence(**fields["persistence"])
    closed = [_incident(item) for item in fields["closed"]]
    return Fleet(
        windows,
        rates,
        persistence,
        {item.id: item for item in episodes},
        traces,
        {item.id: item for item in closed},
        Discoveries(**fields["discoveries"]),
    )


def _incident(fields: dict[str, Any]) -> Incident:
    return Incident(**{**fields, "contributors": [Contributor(**item) for item in fields["contributors"]]})


def _trace(fields: dict[str, Any]) -> Trace:
    return Trace(**{**fields, "history": [(end_ms, log10_p) for end_ms, log10_p in fields["history"]]})


def _episode(fields: dict[str, Any]) -> Episode:
    members = {name: Member(**member) for name, member in fields["members"].items()}
    signs = {
        key: Sign(**{**sign, "contributor": Contributor(**sign["contributor"])})
        for key, sign in fields["signs"].items()
    }
    return Episode(**{**fields, "members": members, "signs": signs})
