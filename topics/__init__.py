"""The contracts of the chain: which topics exist, what their records hold, who writes and who reads them.

No other package spells a topic name, a record field's wire name or an index name. Everything else - Spark schemas,
JSON Schemas, Elasticsearch mappings, the topics in the broker, the table in the docs - is derived from here.
"""
