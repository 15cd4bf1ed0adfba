"""How fast the decode kernel turns values of richer types into columns, in one process and without files."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from state_processor.serializers import DecodeOptions, TypeSerializer
from state_processor.serializers.avro import AvroSerializer
from state_processor.serializers.kernel import ops
from state_processor.serializers.kernel.decoder import ColumnDecoder
from state_processor.serializers.kernel.program import DecodeBuilder
from state_processor.serializers.logical_types import AtomicType, DecimalType, RowType, TextType
from state_processor.serializers.rowdata import RowDataSerializer
from state_processor.types import Types

ROWS, DISTINCT, REPEATS = 1_000_000, 1_000, 5
OPTIONS = DecodeOptions()
TRIP = {
    "type": "record",
    "name": "Trip",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "driver", "type": ["null", "string"]},
        {"name": "stops", "type": {"type": "array", "items": "string"}},
        {"name": "extras", "type": {"type": "map", "values": "int"}},
    ],
}


def pojo() -> tuple[TypeSerializer, Callable[[int], Any]]:
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


def avro() -> tuple[TypeSerializer, Callable[[int], Any]]:
    """An Avro record with a nullable string, an array and a map."""
    return AvroSerializer(json.dumps(TRIP)), lambda i: {
        "id": i,
        "driver": f"driver {i % 50}",
        "stops": ["north", "south"],
        "extras": [("seats", i % 4)],
    }


def row_data() -> tuple[TypeSerializer, Callable[[int], Any]]:
    """A row of Flink SQL: a number, a string, an int and a decimal."""
    types = (AtomicType("BIGINT"), TextType("VARCHAR", 100), AtomicType("INT"), DecimalType(10, 2))
    return RowDataSerializer(RowType.of(*types)), lambda i: {"f0": i, "f1": f"a longer name {i}", "f2": i % 100, "f3": f"{i}.50"}


def decode_seconds(serializer: TypeSerializer, values: list[Any]) -> float:
    """CPU seconds that decoding :data:`ROWS` values takes, the least of several runs."""
    payload = b"".join(serializer.serialize(serializer.accept(v)) for v in values) * (ROWS // len(values))
    buffer = np.frombuffer(payload, dtype=np.uint8)
    buffer.flags.writeable = False
    builder = DecodeBuilder(pa.schema([("value", serializer.arrow_type(OPTIONS))]), OPTIONS)
    serializer.emit(builder, builder.column("value"))
    builder.op(ops.ROW_END)
    program = builder.build()
    runs = []
    for _ in range(REPEATS):
        decoder = ColumnDecoder(program)
        start = time.process_time()
        found = sum(b.num_rows for b in (*decoder.rows(buffer, 0, ROWS, lambda *at: f"{at}"), *decoder.finish()))
        runs.append(time.process_time() - start)
        if found != ROWS:
            raise AssertionError(f"{ROWS} rows expected, {found} decoded")
    return min(runs)


def main() -> None:
    """Print a row per type."""
    print(f"{'decoding, one core':34}{'rows/s':>12}")
    for name, make in (("POJO with POJO, list, map", pojo), ("Avro record", avro), ("RowData", row_data)):
        serializer, value = make()
        seconds = decode_seconds(serializer, [value(i) for i in range(DISTINCT)])
        print(f"{name:34}{ROWS / seconds:12,.0f}", flush=True)


if __name__ == "__main__":
    main()
