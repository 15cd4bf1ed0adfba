"""Names of the data sources, under which Spark and the table of options know them."""

from __future__ import annotations

from typing import Final

SAVEPOINT_FORMAT: Final = "flink-savepoint"
METADATA_FORMAT: Final = "flink-savepoint-metadata"
