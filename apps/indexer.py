"""Entry point of the indexer job: `python -m apps.indexer`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from apps.elasticsearch import TemplateKeeper, connect
from apps.runtime import Report, main_settings, run_job
from apps.settings import Settings
from pipelines.indexer.bulk import BulkRules
from pipelines.indexer.documents import Naming
from pipelines.indexer.pipeline import IndexerTask, index_batch, read_results
from topics.documents import IndexSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def build(spark: SparkSession, settings: Settings, report: Report) -> DataStreamWriter:
    """Wire scores and incidents to Elasticsearch."""
    parameters = settings.indexer
    brokers = settings.kafka.bootstrap_servers
    naming = Naming(settings.generation, parameters)
    open_client = partial(connect, settings.elasticsearch)
    task = IndexerTask(open_client, brokers, naming, BulkRules(documents=parameters.bulk_documents))
    indices = IndexSettings(parameters.shards, parameters.replicas, parameters.refresh_interval)
    keeper = TemplateKeeper(open_client(), settings.generation, indices)
    return read_results(spark, brokers, naming).writeStream.foreachBatch(index_batch(task, keeper.prepare, report))


if __name__ == "__main__":
    chosen = main_settings()
    run_job("indexer", chosen.indexer, build, chosen)
