"""The content, down to bytes, of the savepoints of Flink 1.x with baskets: POJOs whose collections Kryo wrote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

import state_processor as sp
from state_processor.backends.formats.serialized_entries import serialized_entries, with_serialized_values
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.keyed_splits import keyed_handles
from state_processor.backends.read.stored_operator import find_operator
from state_processor.serializers import register_kryo_class
from state_processor.serializers.kryo.serializer import KryoValue

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIXTURES = Path(__file__).resolve().parent / "fixtures" / "migration"
HEAP, ROCKSDB = (next(FIXTURES.glob(f"*/*-{name}")) for name in ("hashmap-native", "rocksdb-canonical"))
STATES = {"basket": "value", "draft": "value", "pair": "value.f1", "history": "list_value", "by-day": "map_value"}
"""States that hold baskets, with and without TTL, in a tuple, in a list, in a map; and where they are in the rows."""
DECLARED = {"value.codes": sp.Types.SET(sp.Types.LONG()), "value.items": "LIST<STRING>"}

register_kryo_class(
    "io.stateprocessor.interop.Line",
    {"product": "java.lang.String", "pieces": "int", "remarks": "java.util.List<java.lang.String>"},
)
register_kryo_class("io.stateprocessor.interop.Tier", ["BRONZE", "SILVER", "GOLD"])


def values(path: Path | str, state: str) -> dict[bytes, Any]:
    """The values of a state by key and map key, in lossless form: of what Kryo wrote the bytes too."""
    snapshot = open_snapshot(path)
    operator = find_operator(snapshot, "baskets")
    found: dict[bytes, Any] = {}
    for handle in keyed_handles(operator, snapshot):
        source = handle.open(snapshot)
        described = source.describe(state)
        assert described is not None
        for batch in serialized_entries(source, with_serialized_values(described), handle.key_groups):
            for row in batch.to_pylist():
                for place, value in _apart(row):
                    found[place] = None if value is None else described.value.deserialize(value)
    return found


def _apart(row: dict[str, Any]) -> Iterator[tuple[bytes, bytes]]:
    """The bytes of each value of a row, whether it has whole lists and maps, as on the heap, or entries."""
    if "map_key" in row:
        yield row["key"] + row["map_key"], row["map_value"]
    elif isinstance(row["value"], bytes):
        yield row["key"], row["value"]
    else:
        for number, part in enumerate(row["value"]):
            place, value = part if isinstance(part, tuple) else (bytes([number]), part)
            yield row["key"] + place, value


def basket_of(state: str, value: Any) -> Any:
    """The basket in a value of a state."""
    return value[1] if state in ("pair", "draft") else value


def raw(value: Any) -> Any:
    """The bytes of what Kryo wrote, any other value itself."""
    return value.raw if isinstance(value, KryoValue) else value


def changed(df: DataFrame, place: str, **fields: Column) -> DataFrame:
    """Rows with other fields of the baskets."""
    column, _, inside = place.partition(".")
    value = f.col(column)
    for name, new in fields.items():
        value = value.withField(f"{inside}.{name}".lstrip("."), new)
    return df.withColumn(column, value)


def renamed(basket: Column) -> Column:
    """A basket with another owner."""
    return basket.withField("owner", f.concat(basket.owner, f.lit("!")))


def with_other_owners(spark: SparkSession, base: Path, *, flatten: bool) -> sp.SavepointWriter:
    """A savepoint with another owner in each basket; lists and maps are read and written by element, or as a whole."""
    reader, writer = sp.SavepointReader.read(spark, base), sp.SavepointWriter.from_existing(spark, base)
    for state, place in STATES.items():
        rows = reader.read_keyed_state("baskets", state, flatten=flatten)
        if not flatten and state == "history":
            rows = rows.withColumn("value", f.transform("value", renamed))
        elif not flatten and state == "by-day":
            rows = rows.withColumn("value", f.transform_values("value", lambda _, basket: renamed(basket)))
        else:
            rows = changed(rows, place, owner=f.concat(f.col(f"{place}.owner"), f.lit("!")))
        writer.update_keyed_state("baskets", state, rows)
    return writer


def with_more(spark: SparkSession, base: Path) -> sp.SavepointWriter:
    """A savepoint with more codes and items in the baskets that have some."""
    rows = sp.SavepointReader.read(spark, base).read_keyed_state("baskets", "basket", types=DECLARED)
    codes = f.array_append("value.codes", f.lit(5).cast("bigint"))
    rows = changed(rows, "value", codes=codes, items=f.array_append("value.items", f.lit("last")))
    return sp.SavepointWriter.from_existing(spark, base).update_keyed_state("baskets", "basket", rows, types=DECLARED)
