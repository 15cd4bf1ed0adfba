"""Rows that a savepoint is written from, for both engines.

- ``row_protocol``: the operations of an engine; ``row_operations``: functions of their tables; ``arrow_keys``: equal keys
- ``row_columns``: the columns and types of rows; ``arrow_rows``: rows without Spark
"""
