"""The bytes of record batches, by an encode program, and the positions of the entries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.serializers.codec import Codec
from state_processor.serializers.kernel import outcomes
from state_processor.serializers.kernel.encode import loop as k
from state_processor.serializers.kernel.encode.conversion import bind, lower, shown_value
from state_processor.serializers.kernel.encode.distinct_keys import check_map_keys
from state_processor.serializers.kernel.encode.input_arena import InputArena
from state_processor.serializers.kernel.encode.program import EncodeBuilder, EncodeOptions, EncodeProgram
from state_processor.serializers.kernel.families import addresses
from state_processor.serializers.kernel.opcodes import Op
from state_processor.support.errors import InvalidRowError

_FIRST_BYTES: Final = 64
_GROWTH: Final = 1.25
"""Room for the first batch: so many bytes for each row, and so many for each byte of the batch."""
_SHOWN: Final = ("key", "namespace", "window", "map_key", "value")


@dataclass(frozen=True, slots=True)
class Encoded:
    """The entries of a batch in the order of its rows.

    ``entries`` has a line for each: begin and end in ``data``, and its row.
    A row may have several entries or none.
    """

    data: npt.NDArray[np.uint8]
    entries: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[bytes]:
        for begin, end, _ in self.entries.tolist():
            yield self.data[begin:end].tobytes()


class ColumnEncoder:
    """Writes the rows of record batches.

    ``program``: the program of one kind of row. ``context``: operator and state, for error messages.
    """

    def __init__(self, program: EncodeProgram, context: str = "") -> None:
        self._program = program
        self._context = context
        self._bytes_per_row = 0.0
        self._entries_per_row = 1.0
        self._families = addresses(k.FAMILIES, program.instructions)

    def encode(
        self,
        batch: pa.RecordBatch,
        key_groups: npt.NDArray[np.int32] | None = None,
    ) -> Encoded:
        """Return the entries of a batch.

        ``batch``: rows with at least the program's columns. ``key_groups``: the key group of each row of the batch, for programs
        that write it.
        """
        p = self._program
        if key_groups is None:
            key_groups = np.zeros(batch.num_rows, dtype=np.int32)
        try:
            lowered = lower(p, batch)
            for name, array in zip(lowered.schema.names, lowered.columns, strict=True):
                check_map_keys(array, name)
                if p.prepared:  # values written in Python are already bytes
                    check_map_keys(batch.column(batch.schema.get_field_index(name)), name)
            arena = InputArena(p.columns, lowered, p.numbers)
        except InvalidRowError as problem:
            raise self._located(problem, batch) from None
        size = len(p.columns.all) + 1
        registers = np.zeros(p.registers, dtype=np.int64)
        level, stop = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
        result = np.zeros(k.RESULT_FIELDS, dtype=np.int64)
        room = batch.num_rows * (self._bytes_per_row or _FIRST_BYTES + _GROWTH * batch.nbytes / max(1, batch.num_rows))
        out = np.empty(int(room) + 256, dtype=np.uint8)
        entries = np.empty((int(batch.num_rows * self._entries_per_row) + 16, k.ENTRY_FIELDS), dtype=np.int64)
        while True:
            at, position, count = (int(result[f]) for f in (k.ROWS, k.POSITION, k.ENTRIES))
            k.run(
                p.instructions,
                self._families,
                p.aux,
                p.constants,
                arena.memory,
                arena.table,
                batch.num_rows,
                key_groups,
                at,
                position,
                count,
                level,
                stop,
                registers,
                out,
                entries,
                result,
            )
            if result[k.STATUS] == outcomes.OK:
                break
            if result[k.STATUS] != outcomes.FULL:
                raise self._error(result, batch)
            out, entries = self._more_room(out, entries, result, batch.num_rows)
        position, count = int(result[k.POSITION]), int(result[k.ENTRIES])
        if batch.num_rows:
            self._bytes_per_row = max(position / batch.num_rows * 1.1, 1.0)
            self._entries_per_row = max(count / batch.num_rows * 1.1, 1.0)
        return Encoded(out[:position], entries[:count])

    @staticmethod
    def _more_room(
        out: npt.NDArray[np.uint8], entries: npt.NDArray[np.int64], result: npt.NDArray[np.int64], rows: int
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """Return copies of bytes and entries with at least twice the room."""
        done, used, count = (int(result[f]) for f in (k.ROWS, k.POSITION, k.ENTRIES))
        scale = min(rows / max(done, 1) * 1.1, 64.0)
        bigger = np.empty(max(2 * len(out), int(used * scale)), dtype=np.uint8)
        bigger[:used] = out[:used]
        longer = np.empty((max(2 * len(entries), int(count * scale)), k.ENTRY_FIELDS), dtype=np.int64)
        longer[:count] = entries[:count]
        return bigger, longer

    def _error(self, result: npt.NDArray[np.int64], batch: pa.RecordBatch) -> InvalidRowError:
        row = int(result[k.ROWS])
        if result[k.STATUS] == outcomes.UNKNOWN_INSTRUCTION:
            raise self._program.unknown_instruction(int(result[k.INSTRUCTION]), "encode")
        path = self._program.paths[int(result[k.INSTRUCTION])]
        error = InvalidRowError(f"column {path} of row {row} {outcomes.ENCODING[int(result[k.STATUS])]}")
        error.row = row
        return self._located(error, batch)

    def _located(self, problem: InvalidRowError, batch: pa.RecordBatch) -> InvalidRowError:
        words = [self._context] if self._context else []
        if problem.row is not None:
            words += describe_row(batch, problem.row)
        error = InvalidRowError(f"{', '.join(words)}: {problem}" if words else str(problem))
        error.row = problem.row
        return error


def describe_row(batch: pa.RecordBatch, row: int) -> list[str]:
    """Return key and value of a row for error messages."""
    parts = []
    for name in _SHOWN:
        index = batch.schema.get_field_index(name)
        if index >= 0:
            text = repr(shown_value(batch.column(index)[row]))
            parts.append(f"{name} {text if len(text) <= 120 else text[:117] + '...'}")
    return parts


def encode_column(serializer: Codec, values: pa.Array, options: EncodeOptions | None = None, *, as_keys: bool = False) -> Encoded:
    """Encode a column with one entry for each value.

    ``serializer``: how values are written. ``values``: a column of a type that the serializer's values fit in. ``options``: what
    the column does not hold. ``as_keys``: in the form that keys of keyed state have.
    """
    builder = EncodeBuilder(pa.schema([("value", bind(serializer, values.type, "value"))]), options)
    with builder.field("value"):
        (serializer.emit_encode_key if as_keys else serializer.emit_encode)(builder, builder.column("value"))
    builder.op(Op.ENTRY_END)
    builder.op(Op.ROW_END)
    return ColumnEncoder(builder.build()).encode(pa.RecordBatch.from_arrays([values], names=["value"]))
