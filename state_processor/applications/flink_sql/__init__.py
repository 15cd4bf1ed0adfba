"""Queries of Flink SQL by their compiled plans: names and descriptions of states, start from rows, and migration.

- ``descriptions``, ``query_writer``: what reading and writing ask, by the interfaces ``backends/metadata/queries.py`` and
  ``write/savepoint_writer.py``
- ``plan``, ``nodes``: compiled plans, and the description of an operator; ``operators``: the descriptions by family
- ``fields``: columns of plans, and their identities
- ``bootstrap``, ``query_rows``: start from rows
- ``query_changes``, ``state_changes``, ``query_migration``: migration to another query
"""
