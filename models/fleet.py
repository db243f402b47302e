"""The fleet's tests: levels that follow from a stated rate of false incidents, and tests for groups of resources.

The user states B, the false incidents per day he is willing to see over the whole fleet. Every resource is tested once
per window, so a level of B / (resources x windows per day) is met by chance B times a day. B is divided among the
ways an incident can open; each way's level uses up its share exactly when p is uniform and windows are independent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from scipy import stats

from models.episodes import CONFIRMATION_WINDOWS, Levels

DAY_MS: Final = 86_400_000

#: Shares of the false incidents that each way of opening may cause; they add up to 1.
SINGLE_SHARE: Final = 0.6
PAIR_SHARE: Final = 0.2
GROUP_SHARE: Final = 0.2

#: Weight of the nominal rate against what is learned, in resource-windows.
_PRIOR_TRIALS: Final = 1_000.0
#: Weight of chance against what is learned of persistence, in surprising windows.
_PRIOR_SURPRISES: Final = 50.0
#: Intra-group correlation while nothing is learned, and the weight of that belief in group-windows.
_PRIOR_CORRELATION: Final = 0.02
_PRIOR_GROUPS: Final = 200.0
_MOST_CORRELATION: Final = 0.5
#: Below this correlation the beta-binomial is the binomial to all digits that matter.
_BINOMIAL_BELOW: Final = 1e-4
_P_FLOOR: Final = 1e-300

Group = tuple[str | None, str | None]
"""(service, region)."""


def log10_of(p: float) -> float:
    """Return log10 p, also for a p that underflowed to 0."""
    return math.log10(min(max(p, _P_FLOOR), 1.0))


def alarm_levels(
    false_per_day: float, resources: int, groups: int, window_ms: int, report_log10: float, persistence: float = 0.0
) -> Levels:
    """Return the levels that spend `false_per_day` over a fleet.

    single:  share * B / (resources * windows per day)
    pair:    the level b with b (2 b + persistence) = its share, for two of three windows
    hold:    sqrt(single): half the evidence, in log p, that opened the episode
    group:   share * B / (groups * windows per day)

    Args:
        false_per_day: B > 0.
        resources: Resources tested in each window.
        groups: Groups tested in each window: services per region, services, regions, the cloud.
        window_ms: Length of a window.
        report_log10: log10 of the highest p ever reported; no level is above it.
        persistence: By how much surprise is more likely soon after surprise than by chance.
    """
    windows_per_day = DAY_MS / window_ms
    per_test = false_per_day / (max(resources, 1) * windows_per_day)
    per_group = false_per_day / (max(groups, 1) * windows_per_day)
    single = min(log10_of(SINGLE_SHARE * per_test), report_log10)
    pair = _pair_level(PAIR_SHARE * per_test, CONFIRMATION_WINDOWS - 1, persistence)
    return Levels(
        single=single,
        pair=min(log10_of(pair), report_log10),
        hold=min(single / 2, report_log10),
        group=log10_of(GROUP_SHARE * per_group),
    )


def _pair_level(rate: float, chances: int, persistence: float) -> float:
    """Return the b > 0 with b (chances b + persistence) = rate, without cancellation."""
    return 2 * rate / (persistence + math.sqrt(persistence**2 + 4 * chances * rate))


@dataclass
class Persistence:
    """How much more often than by chance a quiet resource is surprising again within the next windows.

    Windows of one series are not independent, however well p is calibrated: what lasts two windows for no good reason
    must not count as confirmed. The excess learned at the reporting level is taken to hold at every deeper level too
    (tail dependence), which errs on the side of fewer alarms.

    Attributes:
        chance: Probability of it by chance.
        surprising: Decayed number of surprising windows of resources without an incident.
        repeated: Those of them that followed another one.
    """

    chance: float
    surprising: float = 0.0
    repeated: float = 0.0

    @property
    def excess(self) -> float:
        """Return the probability beyond chance."""
        learned = (_PRIOR_SURPRISES * self.chance + self.repeated) / (_PRIOR_SURPRISES + self.surprising)
        return max(learned - self.chance, 0.0)

    def decay(self, keep: float) -> None:
        """Forget: weigh everything learned by `keep` in (0, 1]."""
        self.surprising *= keep
        self.repeated *= keep

    def learn(self, surprising: int, repeated: int) -> None:
        """Learn from one window of the fleet."""
        self.surprising += surprising
        self.repeated += repeated


# ---- how often resources of a quiet group are surprising ------------------------------------------------------------


@dataclass
class GroupRates:
    """Learned base rate of surprising resources, and how much more than by chance they come together.

    Counts are of resources surprising at least once within the last few windows, so serial dependence is learned with
    them. Learn only from groups that are not part of an incident.

    Attributes:
        nominal: Rate promised by calibrated p; the learned rate never falls below it.
        trials: Decayed sum of group sizes.
        hits: Decayed sum of surprising resources.
        excess: Decayed sum of (k - n q)^2 - n q (1 - q).
        pairs: Decayed sum of n (n - 1) q (1 - q): `excess / pairs` estimates the correlation.
    """

    nominal: float
    trials: float = 0.0
    hits: float = 0.0
    excess: float = 0.0
    pairs: float = 0.0

    @property
    def rate(self) -> float:
        """Return the probability that a quiet resource counts as surprising."""
        learned = (_PRIOR_TRIALS * self.nominal + self.hits) / (_PRIOR_TRIALS + self.trials)
        return min(max(learned, self.nominal), 0.5)

    @property
    def correlation(self) -> float:
        """Return the intra-group correlation of being surprising."""
        spread = self.nominal * (1 - self.nominal)
        prior = _PRIOR_GROUPS * spread
        learned = (_PRIOR_CORRELATION * prior + self.excess) / (prior + self.pairs)
        return min(max(learned, 0.0), _MOST_CORRELATION)

    def decay(self, keep: float) -> None:
        """Forget: weigh everything learned by `keep` in (0, 1]."""
        self.trials *= keep
        self.hits *= keep
        self.excess *= keep
        self.pairs *= keep

    def learn(self, size: int, surprising: int) -> None:
        """Learn from one quiet group: `surprising` of its `size` resources were."""
        rate = self.rate
        variance = rate * (1 - rate)
        self.excess += (surprising - size * rate) ** 2 - size * variance
        self.pairs += size * (size - 1) * variance
        self.trials += size
        self.hits += surprising

    def log10_tail(self, size: int, surprising: int) -> float:
        """Return log10 of the probability of at least `surprising` of `size`, beta-binomial."""
        return log10_of(count_tail(size, surprising, self.rate, self.correlation))


def count_tail(size: int, count: int, rate: float, correlation: float) -> float:
    """Return P(X >= count), X ~ BetaBinomial(size) with mean size * rate and intra-class correlation."""
    if count <= 0:
        return 1.0
    if correlation < _BINOMIAL_BELOW:
        return float(stats.binom.sf(count - 1, size, rate))
    precision = (1 - correlation) / correlation
    return float(stats.betabinom.sf(count - 1, size, rate * precision, (1 - rate) * precision))


# ---- which scope -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Count:
    """Resources of a group: known, newly surprising, and newly surprising enough for an incident of their own."""

    size: int = 0
    surprising: int = 0
    opening: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.size + other.size, self.surprising + other.surprising, self.opening + other.opening)


@dataclass(frozen=True, order=True)
class Place:
    """A set of resources: `resource` (one of a group), `service`, `region` or `cloud`; None stands for any."""

    scope: str
    service: str | None = None
    region: str | None = None

    def holds(self, group: Group) -> bool:
        """Tell whether a group's resources belong to this place."""
        service, region = group
        return self.service in (None, service) and self.region in (None, region)

    def covers(self, other: Place) -> bool:
        """Tell whether every resource of another place belongs to this one."""
        return self.holds((other.service, other.region))


CLOUD: Final = Place("cloud")

Passes = Callable[[Count], bool]


@dataclass
class _Fleet:
    counts: Mapping[Group, Count]
    passes: Passes
    taken: set[Group] = field(default_factory=set)

    def groups(self, place: Place) -> list[Group]:
        return [group for group in self.counts if place.holds(group) and group not in self.taken]

    def total(self, groups: Iterable[Group]) -> Count:
        return sum((self.counts[group] for group in groups), Count())

    def affected(self, place: Place) -> bool:
        """Tell whether a place as a whole is affected, and not merely one part of it."""
        groups = self.groups(place)
        return self.passes(self.total(groups)) and all(
            self._without_largest_part(groups, axis) for axis in _axes(place)
        )

    def _without_largest_part(self, groups: Sequence[Group], axis: int) -> bool:
        parts = sorted({name for group in groups if (name := group[axis]) is not None})
        if not parts:
            return True
        largest = max(parts, key=lambda part: self.total(g for g in groups if g[axis] == part).surprising)
        return self.passes(self.total(g for g in groups if g[axis] != largest))


def _axes(place: Place) -> list[int]:
    """Return along which names a place has parts: 0 services, 1 regions."""
    named = (place.service, place.region)
    return [axis for axis in (0, 1) if named[axis] is None] if place.scope != "resource" else []


def candidate_places(groups: Iterable[Group]) -> list[Place]:
    """Return the places that can be a scope, widest first: cloud, regions, services, services of a region."""
    known = set(groups)
    regions = sorted({region for _, region in known if region is not None})
    services = sorted({service for service, _ in known if service is not None})
    both = sorted((service, region) for service, region in known if service is not None and region is not None)
    return [
        CLOUD,
        *(Place("region", None, region) for region in regions),
        *(Place("service", service, None) for service in services),
        *(Place("service", service, region) for service, region in both),
    ]


def affected_places(counts: Mapping[Group, Count], passes: Passes) -> list[Place]:
    """Return the places whose resources are affected together, widest first, without overlap.

    A wide place is affected when it passes the test also without its most affected part; else the part explains it.

    Args:
        counts: What is new in each group.
        passes: The group test.
    """
    fleet = _Fleet(counts, passes)
    found = []
    for place in candidate_places(counts):
        if fleet.affected(place):
            found.append(place)
            fleet.taken.update(fleet.groups(place))
    return found


@dataclass(frozen=True)
class GroupRule:
    """When so many of a group are affected that the group is the scope.

    Members that would each open an incident of their own need no test: taking them together only makes incidents fewer.
    Members that are merely surprising must be more than chance, at the learned rate and correlation, explains.

    Attributes:
        share: Least share of the group's resources.
        minimum: Least number of resources.
        level: log10 of the test's level.
        rates: Learned rates of surprising resources.
    """

    share: float
    minimum: int
    level: float
    rates: GroupRates

    def __call__(self, count: Count) -> bool:
        """Tell whether a group with these counts is affected."""
        if self._enough(count.opening, count.size):
            return True
        return (
            self._enough(count.surprising, count.size)
            and self.rates.log10_tail(count.size, count.surprising) <= self.level
        )

    def _enough(self, affected: int, size: int) -> bool:
        return affected >= max(self.minimum, self.share * size)
