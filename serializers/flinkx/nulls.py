"""Null where a value begins with an int that is never negative: the least int (flink-scala-api: ``NullMarker``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from state_processor.serializers.codec import Codec
from state_processor.serializers.core.nullable import NullMarking
from state_processor.serializers.flinkx.case_classes import NULL_MARKER
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.kernel.opcodes import Op

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder

_FIRST_BYTE: int = 0x80
_NULL: bytes = NULL_MARKER.to_bytes(4, "big", signed=True)


class NullMarked(NullMarking[Codec]):
    """A value that begins with an int, or the least int for null.

    Parameters
    ----------
    inner
        The codec of a value that is not null: of a collection, which begins with its size.
    """

    min_size = 4

    def is_null(self, source: DataInput) -> bool:
        start = source.position
        if source.read_int() == NULL_MARKER:
            return True
        source.position = start
        return False

    def write(self, value: Any, target: DataOutput) -> None:
        if value is None:
            target.write_bytes(_NULL)
        else:
            self.inner.write(value, target)

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        present, null, end = builder.label(), builder.label(), builder.label()
        mark = builder.register()
        builder.op(Op.MARK, register=mark)
        targets = [(null if byte == _FIRST_BYTE else present,) for byte in range(256)]
        builder.op(Op.CHOOSE_BYTE, column, branches=builder.aux(targets), count=len(targets))
        builder.place(null)
        for _ in range(3):
            builder.expect(0)
        builder.fill_nulls(column)
        builder.jump(end)
        builder.place(present)
        builder.op(Op.MOVE, register=mark)
        self.inner.emit_decode(builder, column)
        builder.place(end)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        null, end = builder.label(), builder.label()
        builder.op(Op.SKIP_NULL, column, null=null)
        self.inner.emit_encode(builder, column)
        builder.jump(end)
        builder.place(null)
        builder.bytes(_NULL)
        builder.place(end)
