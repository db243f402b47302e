from __future__ import annotations

from collections import Counter

import pytest

from apps.simulator.topology import HOST, REGIONS, SERVICES, build


@pytest.mark.parametrize("resources", [5, 14, 15, 45, 100])
def test_every_service_is_there_and_names_are_unique(resources: int) -> None:
    topology = build(resources)

    assert len({item.name for item in topology.resources}) == resources
    assert {item.service for item in topology.resources} == set(SERVICES)


@pytest.mark.parametrize("resources", [7, 45, 46])
def test_a_virtual_machine_lives_on_a_host_of_its_region(resources: int) -> None:
    topology = build(resources)
    hosts = {item.name: item for item in topology.resources if item.service == HOST}

    assert all(hosts[item.host].region == item.region for item in topology.resources if item.host is not None)


def test_the_demo_cloud_has_groups_large_enough_to_fail_together() -> None:
    sizes = Counter(item.group for item in build(45).resources)

    assert len(sizes) == len(SERVICES) * len(REGIONS)
    assert min(sizes.values()) == 3


def test_a_newcomer_is_new() -> None:
    topology = build(45)
    newcomer = topology.newcomer("upf", "north")

    assert newcomer.name not in {item.name for item in topology.resources}
    assert topology.with_newcomers((newcomer,)).newcomer("upf", "north").name != newcomer.name


def test_too_few_resources_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 5 resources"):
        build(4)
