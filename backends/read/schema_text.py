"""Arrow schemas in the words of Spark SQL: ``key string, value struct<amount:bigint>``."""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa

from state_processor.serializers.column_type import SPARK_NAMES

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def schema_text(schema: pa.Schema) -> str:
    """Return a schema as ``DataFrameReader.schema`` takes it."""
    return ", ".join(f"{_quoted(f.name)} {spark_ddl(f.type)}" for f in schema)


def spark_ddl(data_type: pa.DataType) -> str:
    """Return Spark's name of a type.

    Raises
    ------
    TypeError
        If Spark does not have the type.
    """
    if data_type in SPARK_NAMES:
        return SPARK_NAMES[data_type]
    if pa.types.is_timestamp(data_type):
        return "timestamp" if data_type.tz else "timestamp_ntz"
    if pa.types.is_decimal(data_type):
        return f"decimal({data_type.precision},{data_type.scale})"
    if pa.types.is_list(data_type):
        return f"array<{spark_ddl(data_type.value_type)}>"
    if pa.types.is_map(data_type):
        return f"map<{spark_ddl(data_type.key_type)},{spark_ddl(data_type.item_type)}>"
    if pa.types.is_struct(data_type):
        return f"struct<{','.join(f'{_quoted(f.name)}:{spark_ddl(f.type)}' for f in data_type)}>"
    raise TypeError(f"Spark does not have a type for Arrow's {data_type}")


def _quoted(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"
