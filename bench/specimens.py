"""Values of richer types for the benchmarks of decoding and encoding: POJO, Avro record, row of Flink SQL."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from state_processor.serializers import TypeSerializer
from state_processor.serializers.avro.records import AvroSerializer
from state_processor.types.flink_types import Types

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
"""A type, and a function from numbers to values."""


def pojo() -> Specimen:
    """Return a POJO with a nested POJO, a list and a map."""
    address = Types.POJO("bench.Address", {"city": Types.STRING(), "zip": Types.INT()})
    tags, visits = Types.LIST(Types.STRING()), Types.MAP(Types.STRING(), Types.LONG())
    fields = {"id": Types.LONG(), "address": address, "tags": tags, "visits": visits}
    return Types.POJO("bench.Account", fields), lambda i: {
        "id": i,
        "address": {"city": f"city {i % 90}", "zip": 10_000 + i},
        "tags": [f"tag-{i % 7}", "new"],
        "visits": [(f"page-{i % 11}", i)],
    }


def wide_pojo() -> Specimen:
    """Return a POJO of 30 fields: strings, longs and doubles."""
    kinds = (Types.STRING(), Types.LONG(), Types.DOUBLE())
    names = [f"f{i:02}" for i in range(30)]
    serializer = Types.POJO("bench.Wide", {name: kinds[n % 3] for n, name in enumerate(names)})
    return serializer, lambda i: {name: (f"some text {i}", i, i / 7)[n % 3] for n, name in enumerate(names)}


def avro() -> Specimen:
    """Return an Avro record with a nullable string, an array and a map."""
    return AvroSerializer(json.dumps(TRIP)), lambda i: {
        "id": i,
        "driver": f"driver {i % 50}",
        "stops": ["north", "south"],
        "extras": [("seats", i % 4)],
    }


def row_data() -> Specimen:
    """Return a row of Flink SQL: a number, a string, an int and a decimal."""
    serializer = Types.ROW_DATA(["BIGINT", "VARCHAR(100)", "INT", "DECIMAL(10, 2)"])
    return serializer, lambda i: {"f0": i, "f1": f"a longer name {i}", "f2": i % 100, "f3": Decimal(i) + Decimal("0.50")}


def row_data_of_times() -> Specimen:
    """Return a row of Flink SQL: a number, a string, a timestamp, a date, a decimal and an array."""
    serializer = Types.ROW_DATA(["BIGINT", "VARCHAR(10)", "TIMESTAMP(3)", "DATE", "DECIMAL(10, 2)", "ARRAY<INT>"])
    at = datetime(2024, 2, 29, 12, 30)
    return serializer, lambda i: {
        "f0": i,
        "f1": f"name {i % 90}",
        "f2": at + timedelta(seconds=i),
        "f3": at.date(),
        "f4": Decimal(i) + Decimal("0.50"),
        "f5": [i, 2, 3],
    }


def unions() -> Specimen:
    """Return an Avro record with a union of three branches, a decimal, a time and an enum."""
    schema = {
        "type": "record",
        "name": "Event",
        "fields": [
            {"name": "id", "type": ["null", "long", "string"]},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["VIEW", "CLICK"]}},
        ],
    }
    return AvroSerializer(json.dumps(schema)), lambda i: {
        "id": None if i % 3 == 0 else {"long": i, "string": None} if i % 3 == 1 else {"long": None, "string": f"id {i}"},
        "price": Decimal(i) + Decimal("0.25"),
        "at": datetime(2024, 2, 29, 12, 30, tzinfo=UTC) + timedelta(microseconds=i),
        "kind": "CLICK" if i % 4 == 0 else "VIEW",
    }


def texts() -> Specimen:
    """Return a tuple of types whose columns are text: big numbers and a time of day."""
    serializer = Types.TUPLE([Types.BIG_DEC(), Types.BIG_INT(), Types.LOCAL_TIME()])
    return serializer, lambda i: {"f0": f"{i}.50", "f1": str(i * 10**15), "f2": f"08:30:{i % 60:02}.5"}


SPECIMENS: Final[dict[str, Callable[[], Specimen]]] = {
    "POJO with POJO, list, map": pojo,
    "Avro record": avro,
    "RowData": row_data,
    "RowData of times, array": row_data_of_times,
    "Avro unions, decimal, time": unions,
    "big numbers, time as text": texts,
}
