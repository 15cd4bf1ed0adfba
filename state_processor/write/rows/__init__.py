"""Rows that a savepoint is written from, for both engines.

- ``row_protocol``: the operations of an engine, functions of their tables, equal keys
- ``row_columns``: the columns and types of rows; ``arrow_rows``: rows without Spark
"""
