"""Speed of encoding columns of richer types, with the kernel and value by value in Python, in one process without files."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from figures import Figure
from specimens import SPECIMENS

from state_processor.serializers import DecodeOptions, TypeSerializer
from state_processor.serializers.hash_codes import hash_codes
from state_processor.serializers.kernel.encode.encoder import encode_column

ROWS, DISTINCT, REPEATS = 500_000, 1_000, 5
IN_PYTHON = 20_000


def seconds_of(run: Callable[[], object], repeats: int = REPEATS) -> float:
    """Return the CPU seconds of the fastest of several runs."""
    runs = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        runs.append(time.process_time() - start)
    return min(runs)


def by_value(serializer: TypeSerializer, column: pa.Array) -> list[bytes]:
    """Return the bytes of each value, written by Python."""
    return [serializer.serialize(serializer.from_column(v)) for v in column.to_pylist()]


def main() -> list[Figure]:
    """Print a row per type, and one for the key groups of rows."""
    figures = []
    print(f"{'encoding, one core':34}{'rows/s':>12}{'in Python':>12}{'times':>8}")
    for name, make in SPECIMENS.items():
        serializer, value = make()
        distinct = pa.array([value(i) for i in range(DISTINCT)], serializer.arrow_type(DecodeOptions()))
        column = pa.concat_arrays([distinct] * (ROWS // DISTINCT))
        few = column.slice(0, IN_PYTHON)
        if list(encode_column(serializer, distinct)) != by_value(serializer, distinct):
            raise AssertionError(f"{name}: the kernel writes other bytes than Python")
        fast = ROWS / seconds_of(lambda s=serializer, c=column: encode_column(s, c))  # type: ignore[misc]
        slow = IN_PYTHON / seconds_of(lambda s=serializer, c=few: by_value(s, c), 2)  # type: ignore[misc]
        print(f"{name:34}{fast:12,.0f}{slow:12,.0f}{fast / slow:8.1f}", flush=True)
        figures.append(Figure(f"encode {name}", fast, "rows/s", (slow, "value by value in Python")))
        if name == "RowData":
            fast = ROWS / seconds_of(lambda s=serializer, c=column: hash_codes(s, c))  # type: ignore[misc]
            hashed = [serializer.hash_code(serializer.key_from_column(v)) for v in distinct.to_pylist()]
            if not np.array_equal(hash_codes(serializer, distinct), hashed):
                raise AssertionError("the kernel hashes keys otherwise than Python")
            print(f"{'hashCode of RowData keys':34}{fast:12,.0f}", flush=True)
            figures.append(Figure("hashCode of RowData keys", fast, "rows/s"))
    return figures


if __name__ == "__main__":
    main()
