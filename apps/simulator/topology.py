"""What the simulated cloud consists of: regions, hosts, the network functions on them, and cell sites."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from topics import records

HOST: Final = "nfvi"
CELL: Final = "gnb"
#: Services in the order in which resources are dealt out; hosts first, since virtual machines need one.
SERVICES: Final = (HOST, "upf", CELL, "amf", "smf")
REGIONS: Final = ("north", "south", "east")


@dataclass(frozen=True)
class Resource:
    """One thing that reports telemetry. `host` is the host of a virtual machine, None for hosts and cell sites."""

    name: str
    service: str
    region: str
    site: str
    host: str | None

    @property
    def group(self) -> tuple[str, str]:
        """Return service and region: what shares one load."""
        return self.service, self.region

    def inventory(self) -> records.Inventory:
        """Return the control record that tells the chain where this resource belongs."""
        return records.Inventory(self.name, self.service, self.region, self.site)


@dataclass(frozen=True)
class Topology:
    """All resources, in a fixed order."""

    resources: tuple[Resource, ...]

    def group(self, service: str, region: str) -> tuple[Resource, ...]:
        """Return the resources of one service in one region."""
        return tuple(item for item in self.resources if item.group == (service, region))

    def groups(self) -> tuple[tuple[str, str], ...]:
        """Return every (service, region) that has resources, in order of first appearance."""
        return tuple(dict.fromkeys(item.group for item in self.resources))

    def newcomer(self, service: str, region: str) -> Resource:
        """Return the next resource of this service in this region, which does not exist yet."""
        return _resource(service, region, len(self.group(service, region)) + 1, len(self.group(HOST, region)))

    def with_newcomers(self, newcomers: tuple[Resource, ...]) -> Topology:
        """Return this topology and the resources that appear later."""
        return Topology(self.resources + newcomers)


def build(resources: int) -> Topology:
    """Deal out `resources` resources over all services and regions, round robin.

    Raises:
        ValueError: Fewer resources than one of each service in one region.
    """
    if resources < len(SERVICES):
        message = f"a topology needs at least {len(SERVICES)} resources, one of each service; got {resources}"
        raise ValueError(message)
    places = [(service, region) for service in SERVICES for region in REGIONS]
    if resources < len(places):
        places = [(service, REGIONS[0]) for service in SERVICES]
    dealt = [(*places[index % len(places)], index // len(places) + 1) for index in range(resources)]
    hosts = {region: sum((service, where) == (HOST, region) for service, where, _ in dealt) for region in REGIONS}
    return Topology(tuple(_resource(service, region, number, hosts[region]) for service, region, number in dealt))


def _resource(service: str, region: str, number: int, hosts: int) -> Resource:
    name = f"{region}-{service}-{number:02d}"
    if service == CELL:
        return Resource(name, service, region, f"{region}-cell-{number:02d}", None)
    host = None if service == HOST else f"{region}-{HOST}-{(number - 1) % hosts + 1:02d}"
    return Resource(name, service, region, f"{region}-dc", host)
