"""Flat programs that decode, and the builder that a serializer's ``emit_decode`` writes into."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.kernel.builder import Program, ProgramBuilder
from state_processor.serializers.kernel.columns import DISCARD, Column
from state_processor.serializers.kernel.opcodes import Op

if TYPE_CHECKING:
    from state_processor.serializers.core.time_values import JavaZone

CONTEXT: Final = 0
"""The register with the number that the caller gives for rows that come without entries (their key group)."""


@dataclass(frozen=True, slots=True)
class DecodeProgram(Program):
    """A program of the decode kernel; ``nulls`` is its null table."""

    nulls: npt.NDArray[np.int64]


class DecodeBuilder(ProgramBuilder):
    """Collects the instructions of one kind of row.

    ``schema``: the columns that a row fills. With an empty schema the program only steps over its input. ``options``: how values
    are represented. ``whole``: the columns with all fields of the serializers, if ``schema`` lacks some; the missing ones are
    skipped.
    """

    direction = "decode"

    def __init__(self, schema: pa.Schema, options: DecodeOptions, whole: pa.Schema | None = None) -> None:
        super().__init__(schema, registers=CONTEXT + 1, whole=whole)
        self.options = options
        self._nulls: list[int] = []
        self._converted: dict[int, Callable[[pa.Array], pa.Array]] = {}

    def column(self, name: str | None) -> Column:
        """Return the column of a field of the schema; the discarding one for ``None`` or a name that the schema lacks."""
        if name is None or self.columns.schema.get_field_index(name) < 0:
            return DISCARD
        return self.columns.root(name)

    def null_range(self, *columns: Column) -> tuple[int, int]:
        first = len(self._nulls)
        for column in columns:
            self._nulls += column.null_slots()
        return first, len(self._nulls)

    # Patterns that serializers share

    @contextmanager
    def null_flag(self, column: Column, *, null_when: bool, padding: int = 0) -> Iterator[None]:
        """Read a byte that is ``null_when`` (0, or any other) where no value follows, and then so many bytes of padding."""
        with self.unless(Op.NULL_FLAG, column, null_when=int(null_when), nulls=column, padding=padding):
            yield

    @contextmanager
    def counted(self, column: Column, *, min_size: int = 1) -> Iterator[None]:
        """Read an int count, then that many elements of at least ``min_size`` bytes, into a list or map column."""
        with self.loop(Op.LIST, Op.LIST_NEXT, column, register=self.register(), child=column.child(0), min_size=min_size):
            yield

    @contextmanager
    def joined(self, column: Column) -> Iterator[None]:
        """Read elements up to the end of the part with a comma between them (``ListDelimitedSerializer``)."""
        with self.loop(Op.JOINED, Op.JOINED_NEXT, column, child=column.child(0)):
            yield

    @contextmanager
    def frame(self) -> Iterator[None]:
        """Read an int with the number of bytes of the instructions emitted inside. They must use all of these bytes."""
        register = self.register()
        self.op(Op.FRAME, register=register)
        yield
        self.op(Op.END_FRAME, register=register)

    @contextmanager
    def inside(self, region: int) -> Iterator[None]:
        """Run the instructions emitted inside on a region. They must use all of it; then go on at the present position."""
        position, end = self.register(), self.register()
        self.op(Op.MARK, register=position)
        self.op(Op.INSIDE, register=end, region=region)
        yield
        self.op(Op.END_FRAME, register=end)
        self.op(Op.MOVE, register=position)

    @contextmanager
    def until_end(self) -> Iterator[None]:
        """Repeat the instructions emitted inside up to the end of the part."""
        begin = self.place()
        end = self.label()
        self.op(Op.UNTIL_END, target=end)
        yield
        self.jump(begin)
        self.place(end)

    @contextmanager
    def blocks(self, column: Column) -> Iterator[None]:
        """Read blocks of a varint count and that many elements, ended by an empty one (Avro arrays and maps)."""
        with self.loop(Op.BLOCKS, Op.BLOCKS_NEXT, column, register=self.register(), child=column.child(0)):
            yield

    def time(self, op: Op, column: Column) -> None:
        """Read a date or time as the options represent it."""
        self.op(op, column, mode=self.options.time_mode)

    def zoned_time(self, op: Op, column: Column, zone: JavaZone) -> None:
        """Read a date or time of ``java.sql`` in a time zone."""
        self.op(op, column, mode=self.options.time_mode, zone=-1 if zone.is_utc else self.constant(zone.table()))

    def fixed(self, size: int, column: Column, convert: Callable[[pa.Array, pa.DataType], pa.Array]) -> None:
        """Read values of so many bytes; ``convert`` makes the column of each batch from their bytes and its type."""
        if column.index < 0:
            self.skip(size)
            return
        self._converted[column.index] = lambda encoded: convert(encoded, column.type)
        self.op(Op.FIXED_BYTES, column, size=size)

    def skip(self, count: int) -> None:
        """Step over so many bytes."""
        self.op(Op.SKIP, count=count)

    def expect(self, byte: int) -> None:
        """Read a byte that must be this one."""
        self.op(Op.EXPECT, byte=byte)

    def fill_nulls(self, *columns: Column) -> None:
        """Give each column a null."""
        if any(column.index >= 0 for column in columns):
            self.op(Op.FILL_NULLS, nulls=columns)

    def text(self, column: Column, value: str) -> None:
        """Give a string column a constant."""
        data = value.encode()
        self.op(Op.CONST, column, constant=self.constant(data), size=len(data))

    def build(self) -> DecodeProgram:
        """Return the finished program."""
        self.columns.hold_bytes(self._converted)
        return DecodeProgram(
            instructions=self._instruction_table(),
            nulls=np.array(self._nulls or [0], dtype=np.int64),
            aux=self._aux_table(),
            constants=self._constant_bytes(),
            registers=self._registers,
            columns=self.columns,
            paths=tuple(self._paths),
        )
