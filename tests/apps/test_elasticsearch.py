"""Client, readiness, templates and search."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import orjson
import pytest
from elasticsearch import ApiError, Elasticsearch

from apps.elasticsearch import (
    ElasticsearchUnavailableError,
    IncidentQuery,
    NewerTemplatesError,
    TemplateKeeper,
    connect,
    search_incidents,
    wait_until_ready,
)
from apps.settings import ElasticsearchSettings
from tests.support import free_port
from tests.topics.examples import START_MS, WINDOW_MS, incident
from topics.documents import CUSTOM_TEMPLATE, INCIDENTS, SCORES, IndexSettings, read
from topics.records import Incident


@pytest.fixture
def client(elasticsearch: str) -> Iterator[Elasticsearch]:
    opened = connect(ElasticsearchSettings(url=elasticsearch))
    yield opened
    opened.close()


@pytest.fixture
def keeper(client: Elasticsearch) -> TemplateKeeper:
    return TemplateKeeper(client, f"t{random.getrandbits(40):x}", IndexSettings(refresh_interval="7s"))


def index(client: Elasticsearch, generation: str, *incidents: Incident) -> None:
    for record in incidents:
        row = orjson.loads(orjson.dumps(record))
        client.index(
            index=INCIDENTS.index(row, generation, "month"),
            id=INCIDENTS.document_id(row),
            document=INCIDENTS.source(row),
            refresh=True,
        )


def refresh_interval(client: Elasticsearch, index: str) -> str:
    (settings,) = client.indices.get_settings(index=index, flat_settings=True).values()
    interval: str = settings["settings"]["index.refresh_interval"]
    return interval


def test_nobody_answers() -> None:
    client = connect(ElasticsearchSettings(url=f"http://127.0.0.1:{free_port()}"))
    with pytest.raises(ElasticsearchUnavailableError, match=r"is it running, and is \[elasticsearch\] url right"):
        wait_until_ready(client, "kappa-*", timeout_s=0.1)
    with pytest.raises(ElasticsearchUnavailableError, match="does not answer"):
        search_incidents(client, IncidentQuery())
    client.close()


@pytest.mark.stack
def test_indices_made_from_the_templates_are_strict_and_behind_aliases(keeper: TemplateKeeper) -> None:
    keeper.prepare()
    index(keeper.client, keeper.generation, incident())
    (name,) = keeper.client.indices.get(index=f"{INCIDENTS.generation_alias(keeper.generation)}-*")
    assert name == f"kappa-incidents-{keeper.generation}-2025.11"
    assert set(keeper.client.indices.get_alias(index=name)[name]["aliases"]) == {
        "kappa-incidents",
        f"kappa-incidents-{keeper.generation}",
    }
    assert refresh_interval(keeper.client, name) == "7s"
    with pytest.raises(ApiError, match="strict_dynamic_mapping_exception"):
        keeper.client.index(index=name, document={"colour": "red"})


@pytest.mark.stack
def test_a_second_start_changes_what_may_change_and_keeps_the_users_template(keeper: TemplateKeeper) -> None:
    keeper.prepare()
    index(keeper.client, keeper.generation, incident())
    own = {"settings": {"index": {"priority": "7"}}}
    keeper.client.cluster.put_component_template(name=CUSTOM_TEMPLATE, template=own)
    TemplateKeeper(keeper.client, keeper.generation, replace(keeper.settings, refresh_interval="9s")).prepare()
    assert refresh_interval(keeper.client, f"{INCIDENTS.generation_alias(keeper.generation)}-*") == "9s"
    (custom,) = keeper.client.cluster.get_component_template(name=CUSTOM_TEMPLATE)["component_templates"]
    assert custom["component_template"]["template"] == own
    keeper.client.cluster.put_component_template(name=CUSTOM_TEMPLATE, template={})


@pytest.mark.stack
def test_templates_that_are_gone_are_put_again(keeper: TemplateKeeper) -> None:
    keeper.prepare()
    name = SCORES.generation_alias(keeper.generation)
    keeper.client.indices.delete_index_template(name=name)
    keeper.prepare()
    assert keeper.client.indices.exists_index_template(name=name)


@pytest.mark.stack
def test_templates_of_a_newer_program_are_not_replaced(keeper: TemplateKeeper) -> None:
    keeper.prepare()
    name = SCORES.generation_alias(keeper.generation)
    newer = {"index_patterns": [f"{name}-*"], "priority": 400, "_meta": {"version": 99}}
    keeper.client.indices.put_index_template(name=name, body=newer)
    with pytest.raises(NewerTemplatesError, match="have version 99, this program brings"):
        TemplateKeeper(keeper.client, keeper.generation, keeper.settings).prepare()
    assert (
        keeper.client.indices.get_index_template(name=name)["index_templates"][0]["index_template"]["priority"] == 400
    )


@pytest.mark.stack
def test_search_finds_incidents_by_state_and_time_latest_first(keeper: TemplateKeeper) -> None:
    keeper.prepare()
    later = START_MS + 100 * WINDOW_MS
    index(
        keeper.client,
        keeper.generation,
        incident(1, id="old", state="close", end_ms=START_MS + WINDOW_MS),
        incident(1, id="open"),
        incident(1, id="later", start_ms=later, last_window_end_ms=later + WINDOW_MS),
    )

    def found(**query: object) -> list[str]:
        wanted = IncidentQuery(generation=keeper.generation, **query)  # type: ignore[arg-type]
        return [read(document, "incident.id") for document in search_incidents(keeper.client, wanted)]

    assert found() == ["later", "old", "open"]
    assert found(open_only=True) == ["later", "open"]
    assert found(since_ms=later) == ["later"]
    assert found(limit=1) == ["later"]


@pytest.mark.stack
def test_search_before_anything_is_indexed_finds_nothing(client: Elasticsearch) -> None:
    assert search_incidents(client, IncidentQuery(generation="never-indexed")) == []
