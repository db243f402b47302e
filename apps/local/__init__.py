"""The local stack: real Kafka, real Elasticsearch and the jobs as processes on loopback, without Docker."""
