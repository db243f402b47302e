"""All settings of an installation: `kappa.toml`, overridden by environment variables `KAPPA_<SECTION>__<NAME>`.

`kappa.toml` in the working directory (or the file named by `KAPPA_SETTINGS`) holds one table per section; Helm values
use the same names. Contradictions are refused with the sentence that says what to change.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from pipelines.parameters import (
    IncidentParameters,
    IndexerParameters,
    NoveltyParameters,
    StatisticsParameters,
    TimeRules,
)

Port = Annotated[int, Field(ge=1, le=65535)]


class Section(BaseModel):
    """A table of `kappa.toml`; unknown names are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class KafkaSettings(Section):
    """Where the broker is, and how many partitions topics get when they are created."""

    bootstrap_servers: str = "127.0.0.1:19092"
    raw_partitions: Annotated[int, Field(ge=1, le=8)] = 2
    derived_partitions: Annotated[int, Field(ge=1)] = 2
    replication_factor: Annotated[int, Field(ge=1)] = 1


class ElasticsearchSettings(Section):
    """Where Elasticsearch is."""

    url: str = "http://127.0.0.1:19200"
    username: str | None = None
    password: str | None = Field(default=None, repr=False)
    api_key: str | None = Field(default=None, repr=False)
    ca_certs: Path | None = None


class SparkSettings(Section):
    """How each job's Spark driver runs."""

    master: str = "local[2]"
    driver_memory: str = "1g"
    shuffle_partitions: Annotated[int, Field(ge=1)] = 2
    trigger_interval_ms: Annotated[int, Field(ge=0)] = 500
    state_versions: Annotated[int, Field(ge=2)] = 10


class JobPorts(Section):
    """Ports of each job's Prometheus metrics (`/metrics`) and health (`/healthz`, `/readyz`), on `host`."""

    host: str = "127.0.0.1"
    statistics: Port = 19301
    novelty: Port = 19302
    incidents: Port = 19303
    indexer: Port = 19304
    heartbeat: Port = 19305


class LocalSettings(Section):
    """What `kappa up` starts beside the jobs. Its addresses are those of [kafka] and [elasticsearch]."""

    controller_port: Port = 19093
    elasticsearch_transport_port: Port = 19201
    kafka_heap: str = "512m"
    elasticsearch_heap: str = "512m"
    minimum_free_disk_mb: Annotated[int, Field(ge=0)] = 2048
    startup_timeout_s: Annotated[float, Field(gt=0)] = 90.0
    stop_timeout_s: Annotated[float, Field(gt=0)] = 90.0


class Settings(BaseSettings):
    """Everything an installation can set."""

    model_config = SettingsConfigDict(
        env_prefix="KAPPA_", env_nested_delimiter="__", extra="forbid", frozen=True, toml_file="kappa.toml"
    )

    #: Name of the live generation: suffix of its topics, indices and checkpoints.
    generation: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")] = "g1"
    #: Folder of checkpoints, logs, data of local servers.
    data_dir: Path = Path(".kappa")
    kafka: KafkaSettings = KafkaSettings()
    elasticsearch: ElasticsearchSettings = ElasticsearchSettings()
    spark: SparkSettings = SparkSettings()
    ports: JobPorts = JobPorts()
    local: LocalSettings = LocalSettings()
    time: TimeRules = TimeRules()
    statistics: StatisticsParameters = StatisticsParameters()
    novelty: NoveltyParameters = NoveltyParameters()
    incidents: IncidentParameters = IncidentParameters()
    indexer: IndexerParameters = IndexerParameters()

    @model_validator(mode="before")
    @classmethod
    def _one_place_for_shared_settings(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Refuse shared settings given twice: times belong to [time], buckets to [novelty]."""
        for section, name, home in (
            ("statistics", "time", "[time]"),
            ("incidents", "buckets", "[novelty] buckets"),
            ("incidents", "window_s", "[time] window_s"),
            ("incidents", "report_p", "[novelty] report_p"),
        ):
            given = values.get(section)
            if isinstance(given, dict) and name in given:
                message = f"[{section}] {name} is set by {home}: remove it from [{section}]"
                raise ValueError(message)
        return values

    @model_validator(mode="before")
    @classmethod
    def _one_wish_for_incidents(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Refuse both ways to say how many false incidents are wanted."""
        given = values.get("incidents")
        wishes = ("false_incidents_per_day", "target_precision")
        if isinstance(given, dict) and all(given.get(wish) is not None for wish in wishes):
            message = (
                "[incidents] false_incidents_per_day and target_precision are two ways to say the same: a number of "
                "false incidents, or their share. Remove one of them"
            )
            raise ValueError(message)
        return values

    @model_validator(mode="after")
    def _contradictions(self) -> Settings:
        if self.novelty.expiry_s <= self.time.window_s:
            message = (
                f"[novelty] expiry_s ({self.novelty.expiry_s}) must be longer than "
                f"[time] window_s ({self.time.window_s}): series would leave the state between two windows"
            )
            raise ValueError(message)
        if self.kafka.derived_partitions > self.novelty.buckets:
            message = (
                f"[kafka] derived_partitions ({self.kafka.derived_partitions}) must not exceed [novelty] buckets "
                f"({self.novelty.buckets}): a partition without buckets would stay empty"
            )
            raise ValueError(message)
        return self

    def statistics_parameters(self) -> StatisticsParameters:
        """Return the statistics job's settings with the shared time rules."""
        return replace(self.statistics, time=self.time)

    def incident_parameters(self) -> IncidentParameters:
        """Return the incidents job's settings with the shared bucket count, window and reporting level."""
        return replace(
            self.incidents,
            buckets=self.novelty.buckets,
            window_s=self.time.window_s,
            report_p=self.novelty.report_p,
        )

    def checkpoint_dir(self, job: str) -> Path:
        """Return the folder of a job's checkpoint, unique per generation."""
        return self.data_dir.absolute() / "checkpoints" / self.generation / job

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Order of precedence: arguments, environment, `kappa.toml`."""
        toml = TomlConfigSettingsSource(settings_cls, os.environ.get("KAPPA_SETTINGS", "kappa.toml"))
        return init_settings, env_settings, toml


def load_settings(**overrides: Any) -> Settings:
    """Read the settings; raise `pydantic.ValidationError` with one line per mistake."""
    return Settings(**overrides)


#: In `data_dir`: what the running local stack was started with; its key `environment` maps names to values.
STACK_FILE = "stack.json"


def load_running_settings(**overrides: Any) -> Settings:
    """Read the settings with which the local stack of this data folder runs.

    What `kappa up` was told (for example `--history`) is remembered in the stack file and holds below the explicit
    environment and above `kappa.toml`. Without a stack file this is `load_settings`.

    Raises:
        ValueError: The stack file cannot be read; or a setting is wrong (`pydantic.ValidationError`).
    """
    environment = _stack_environment(load_settings(**overrides).data_dir / STACK_FILE)
    return _settings_over(environment)(**overrides)


def _stack_environment(path: Path) -> dict[str, str]:
    try:
        stack = json.loads(path.read_bytes())
        return {str(name): str(value) for name, value in stack.get("environment", {}).items()}
    except FileNotFoundError:
        return {}
    except (ValueError, AttributeError) as broken:
        message = f"{path} cannot be read ({broken}): run `kappa down`, then `kappa up`"
        raise ValueError(message) from broken


def _settings_over(environment: Mapping[str, str]) -> type[Settings]:
    """Return `Settings` with one more source between the environment and `kappa.toml`."""

    class RunningSettings(Settings):
        @classmethod
        def settings_customise_sources(
            cls, settings_cls: type[BaseSettings], *sources: PydanticBaseSettingsSource, **named: Any
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            *explicit, toml = super().settings_customise_sources(settings_cls, *sources, **named)
            running = EnvSettingsSource(settings_cls)
            running.env_vars = {name.lower(): value for name, value in environment.items()}
            return (*explicit, running, toml)

    return RunningSettings
