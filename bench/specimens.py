"""Values of richer types for the benchmarks of decoding and encoding: POJO, Avro record, row of Flink SQL."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from state_processor.serializers import TypeSerializer
from state_processor.serializers.avro import AvroSerializer
from state_processor.types import Types

TRIP: Final = {
    "type": "record",
    "name": "Trip",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "driver", "type": ["null", "string"]},
        {"name": "stops", "type": {"type": "array", "items": "string"}},
        {"name": "extras", "type": {"type": "map", "values": "int"}},
    ],
}
Specimen = tuple[TypeSerializer, Callable[[int], Any]]
"""A type, and what makes the value of a number."""


def pojo() -> Specimen:
    """A POJO with a nested POJO, a list and a map."""
    address = Types.POJO("bench.Address", {"city": Types.STRING(), "zip": Types.INT()})
    tags, visits = Types.LIST(Types.STRING()), Types.MAP(Types.STRING(), Types.LONG())
    fields = {"id": Types.LONG(), "address": address, "tags": tags, "visits": visits}
    return Types.POJO("bench.Account", fields), lambda i: {
        "id": i,
        "address": {"city": f"city {i % 90}", "zip": 10_000 + i},
        "tags": [f"tag-{i % 7}", "new"],
        "visits": [(f"page-{i % 11}", i)],
    }


def avro() -> Specimen:
    """An Avro record with a nullable string, an array and a map."""
    return AvroSerializer(json.dumps(TRIP)), lambda i: {
        "id": i,
        "driver": f"driver {i % 50}",
        "stops": ["north", "south"],
        "extras": [("seats", i % 4)],
    }


def row_data() -> Specimen:
    """A row of Flink SQL: a number, a string, an int and a decimal."""
    serializer = Types.ROW_DATA(["BIGINT", "VARCHAR(100)", "INT", "DECIMAL(10, 2)"])
    return serializer, lambda i: {"f0": i, "f1": f"a longer name {i}", "f2": i % 100, "f3": Decimal(i) + Decimal("0.50")}


SPECIMENS: Final[dict[str, Callable[[], Specimen]]] = {
    "POJO with POJO, list, map": pojo,
    "Avro record": avro,
    "RowData": row_data,
}
