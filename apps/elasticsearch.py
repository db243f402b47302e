"""Elasticsearch for the jobs and commands: client, readiness, templates, search."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog
import tenacity
from elastic_transport import TransportError
from elasticsearch import ApiError, Elasticsearch, OrjsonSerializer

from apps.settings import ElasticsearchSettings
from topics import documents
from topics.documents import CUSTOM_TEMPLATE, FAMILIES, TEMPLATE_VERSION, IndexSettings, Templates, templates

_REQUEST_TIMEOUT_S: Final = 60.0
_PROBE_TIMEOUT_S: Final = 5.0
_READY_WITHIN_S: Final = 20.0
_NOT_FOUND: Final = 404

log = structlog.get_logger()


class ElasticsearchUnavailableError(RuntimeError):
    """Elasticsearch does not answer, or not yet as it should."""


class NewerTemplatesError(RuntimeError):
    """The templates of this generation were made by a newer program."""


def connect(settings: ElasticsearchSettings) -> Elasticsearch:
    """Return a client; nothing is sent yet. Close it after use."""
    basic = (settings.username, settings.password or "") if settings.username and not settings.api_key else None
    optional: dict[str, Any] = {
        "api_key": settings.api_key,
        "basic_auth": basic,
        "ca_certs": str(settings.ca_certs) if settings.ca_certs else None,
    }
    return Elasticsearch(
        settings.url,
        serializer=OrjsonSerializer(),
        request_timeout=_REQUEST_TIMEOUT_S,
        max_retries=2,
        retry_on_timeout=True,
        **{name: value for name, value in optional.items() if value is not None},
    )


def wait_until_ready(client: Elasticsearch, indices: str, timeout_s: float = _READY_WITHIN_S) -> None:
    """Return when Elasticsearch answers and the given indices, as far as there are any, can be written.

    Args:
        client: Where to ask.
        indices: Index names, may hold wildcards. Other indices of a shared cluster do not matter.
        timeout_s: When to give up.

    Raises:
        ElasticsearchUnavailableError: It was not ready in time.
    """
    attempts = tenacity.Retrying(
        stop=tenacity.stop_after_delay(timeout_s),
        wait=tenacity.wait_fixed(1),
        retry=tenacity.retry_if_exception_type(ElasticsearchUnavailableError),
        before_sleep=lambda state: log.warning("waiting for Elasticsearch", reason=_failure_of(state)),
        reraise=True,
    )
    attempts(_probe, client, indices)


def _failure_of(state: tenacity.RetryCallState) -> str:
    return str(state.outcome.exception()) if state.outcome else ""


def _probe(client: Elasticsearch, indices: str) -> None:
    # Only the health of our own indices: `GET /` is not answered by the small local distribution.
    prober = client.options(request_timeout=_PROBE_TIMEOUT_S, max_retries=0)
    try:
        health = prober.cluster.health(index=indices, wait_for_status="yellow", timeout="3s")
    except (ApiError, TransportError) as failure:
        raise ElasticsearchUnavailableError(_unavailable(client, failure)) from failure
    if health["timed_out"]:
        message = f"some of the indices {indices} cannot be written: their shards are not assigned"
        raise ElasticsearchUnavailableError(message)


def _unavailable(client: Elasticsearch, failure: Exception) -> str:
    urls = ", ".join(node.base_url for node in client.transport.node_pool.all())
    if isinstance(failure, TransportError):
        return f"Elasticsearch at {urls} does not answer: is it running, and is [elasticsearch] url right? ({failure})"
    return f"Elasticsearch at {urls} refused the request: {failure}"


# ---- templates -------------------------------------------------------------------------------------------------------


@dataclass
class TemplateKeeper:
    """Makes sure that a generation's templates are there before documents are written.

    Attributes:
        client: Where they go.
        generation: Whose they are.
        settings: Settings of its indices.
    """

    client: Elasticsearch
    generation: str
    settings: IndexSettings
    _put: bool = False

    @property
    def indices(self) -> str:
        """Pattern of all indices of the generation."""
        return ",".join(f"{family.generation_alias(self.generation)}-*" for family in FAMILIES)

    def prepare(self) -> None:
        """Wait for Elasticsearch; put templates the first time, and again when they are gone.

        Raises:
            ElasticsearchUnavailableError: Elasticsearch is not ready; try again.
            NewerTemplatesError: A newer program made the templates.
        """
        wait_until_ready(self.client, self.indices)
        wanted = templates(self.generation, self.settings)
        found = template_versions(self.client, self.generation, wanted.indices)
        newest = max(found.values(), default=0)
        if newest > TEMPLATE_VERSION:
            message = (
                f"the templates of generation {self.generation} have version {newest}, this program brings "
                f"{TEMPLATE_VERSION}: run the newer program, or start another generation"
            )
            raise NewerTemplatesError(message)
        if not self._put or len(found) < len(wanted.indices):
            put_templates(self.client, wanted)
            self._update_existing()
            self._put = True

    def _update_existing(self) -> None:
        """Give existing indices the fields and settings that may change during their life."""
        for family in FAMILIES:
            pattern = f"{family.generation_alias(self.generation)}-*"
            if self.client.indices.exists(index=pattern, allow_no_indices=False):
                self.client.indices.put_mapping(index=pattern, body=family.mapping)
        changeable = {"index.refresh_interval": self.settings.refresh_interval}
        self.client.indices.put_settings(index=self.indices, settings=changeable, allow_no_indices=True)


def template_versions(client: Elasticsearch, generation: str, names: Iterable[str]) -> dict[str, int]:
    """Return the versions of those of a generation's index templates that exist."""
    answer = client.options(ignore_status=_NOT_FOUND).indices.get_index_template(name=f"kappa-*-{generation}")
    found = {item["name"]: item["index_template"].get("_meta", {}) for item in answer.get("index_templates", [])}
    return {name: int(found[name].get("version", 0)) for name in names if name in found}


def put_templates(client: Elasticsearch, wanted: Templates) -> None:
    """Put component and index templates; the user's own component template is only created, never changed."""
    if not client.cluster.exists_component_template(name=CUSTOM_TEMPLATE):
        client.cluster.put_component_template(name=CUSTOM_TEMPLATE, template={})
    for name, body in wanted.components.items():
        client.cluster.put_component_template(name=name, body=body)
    for name, body in wanted.indices.items():
        client.indices.put_index_template(name=name, body=body)


# ---- search ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class IncidentQuery:
    """Which incidents.

    Attributes:
        open_only: Only those that have not ended.
        since_ms: Only those whose last judged window ends then or later, event time.
        limit: Most incidents returned, at most 10,000.
        generation: Of this generation; of the live one when not given.
        incident: Only the one with this id.
    """

    open_only: bool = False
    since_ms: int | None = None
    limit: int = 50
    generation: str | None = None
    incident: str | None = None

    @property
    def index(self) -> str:
        """The alias to search."""
        family = documents.INCIDENTS
        return family.generation_alias(self.generation) if self.generation else family.alias

    @property
    def body(self) -> dict[str, Any]:
        """The query in Elasticsearch's language."""
        filters: list[dict[str, Any]] = []
        if self.open_only:
            filters.append({"term": {documents.INCIDENT_OPEN: True}})
        if self.since_ms is not None:
            filters.append({"range": {documents.TIMESTAMP: {"gte": self.since_ms, "format": "epoch_millis"}}})
        if self.incident is not None:
            filters.append({"term": {documents.INCIDENT_ID: self.incident}})
        return {"bool": {"filter": filters}}


def search_incidents(client: Elasticsearch, query: IncidentQuery) -> list[Mapping[str, Any]]:
    """Return incident documents, the latest start first.

    Raises:
        ElasticsearchUnavailableError: Elasticsearch does not answer.
    """
    order = [{documents.START: "desc"}, {documents.INCIDENT_ID: "asc"}]
    try:
        answer = client.search(
            index=query.index,
            query=query.body,
            sort=order,
            size=query.limit,
            ignore_unavailable=True,
            allow_no_indices=True,
        )
    except (ApiError, TransportError) as failure:
        raise ElasticsearchUnavailableError(_unavailable(client, failure)) from failure
    return [hit["_source"] for hit in answer["hits"]["hits"]]
