"""Options of the tables that ``CREATE TABLE … USING`` makes.

Spark hands the options of a table to ``schema()``, when it is made, and not to ``reader()``, when it is read. The schema that
``schema()`` returns is kept with the table and comes to ``reader()``, so the metadata of its first column has the options.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import StructField, StructType

from state_processor.options.source import SAVEPOINT_FORMAT
from state_processor.options.text import is_of_table
from state_processor.serializers.errors import OptionError

_PATH: Final = "path"


def with_table_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Return the schema of a table with the table's options. The schema of a read without a table is unchanged."""
    if not is_of_table(options):
        return schema
    first, *others = schema.fields
    kept = {SAVEPOINT_FORMAT: dict(options)}
    return StructType([StructField(first.name, first.dataType, first.nullable, kept), *others])


def with_options_of_table(options: Mapping[str, str], schema: StructType) -> Mapping[str, str]:
    """Return the options of a read. If a table is read, the options of the table are added.

    Raises
    ------
    OptionError
        If the table was made with columns. Its schema does not come from :func:`with_table_options`, and lacks the options.
    """
    for field in schema.fields:
        of_table: dict[str, str] | None = (field.metadata or {}).get(SAVEPOINT_FORMAT)
        if of_table is not None:
            return {**of_table, **options}
    if not any(name.lower() == _PATH for name in options):
        raise OptionError(
            "no path: pass the snapshot's directory to load(path). Of a table, Spark does not hand over the options if CREATE "
            "TABLE lists columns: leave these out"
        )
    return options
