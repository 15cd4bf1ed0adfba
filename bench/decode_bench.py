"""Speed of the decode kernel on values of richer types, in one process and without files."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa
from figures import Figure
from specimens import SPECIMENS, wide_pojo

from state_processor.backends.formats.field_selection import applied, selected
from state_processor.serializers import DecodeOptions, TypeSerializer
from state_processor.serializers.kernel.decode.decoder import ColumnDecoder
from state_processor.serializers.kernel.decode.program import DecodeBuilder
from state_processor.serializers.kernel.opcodes import Op

ROWS, DISTINCT, REPEATS = 1_000_000, 1_000, 5
OPTIONS = DecodeOptions()


def decode_seconds(
    serializer: TypeSerializer, values: list[Any], columns: tuple[str, ...] = ("value",), rows: int = ROWS
) -> float:
    """Return the CPU seconds for decoding some columns of a number of values; the minimum of several runs."""
    payload = b"".join(serializer.serialize(serializer.from_column(v)) for v in values) * (rows // len(values))
    buffer = np.frombuffer(payload, dtype=np.uint8)
    buffer.flags.writeable = False
    whole = pa.schema([("value", serializer.arrow_type(OPTIONS))])
    builder = DecodeBuilder(applied(selected(columns, whole), whole), OPTIONS, whole)
    serializer.emit_decode(builder, builder.column("value"))
    builder.op(Op.ROW_END)
    program = builder.build()
    runs = []
    for _ in range(REPEATS):
        decoder = ColumnDecoder(program)
        start = time.process_time()
        found = sum(b.num_rows for b in (*decoder.rows(buffer, 0, rows, lambda *at: f"{at}"), *decoder.finish()))
        runs.append(time.process_time() - start)
        if found != rows:
            raise AssertionError(f"{rows} rows expected, {found} decoded")
    return min(runs)


def main() -> list[Figure]:
    """Print a row per type."""
    figures = []
    print(f"{'decoding, one core':34}{'rows/s':>12}")
    for name, make in SPECIMENS.items():
        serializer, value = make()
        seconds = decode_seconds(serializer, [value(i) for i in range(DISTINCT)])
        print(f"{name:34}{ROWS / seconds:12,.0f}", flush=True)
        figures.append(Figure(f"decode {name}", ROWS / seconds, "rows/s"))
    return [*figures, one_field()]


def one_field() -> Figure:
    """Compare decoding one field of a wide POJO with decoding all fields."""
    serializer, value = wide_pojo()
    values = [value(i) for i in range(DISTINCT)]
    every, one = decode_seconds(serializer, values), decode_seconds(serializer, values, ("value.f01",))
    print(f"{'POJO of 30 fields, one of them':34}{ROWS / one:12,.0f}  {one:.2f} CPU s; all fields {every:.2f}", flush=True)
    return Figure("decode one field of a POJO of 30", one, "CPU s", (every, "all fields"))


if __name__ == "__main__":
    main()
