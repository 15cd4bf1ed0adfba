"""Null where a value begins with an int that is never negative: the least int (flink-scala-api: ``NullMarker``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from state_processor.serializers.codec import Codec
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.flinkx.case_classes import NULL_MARKER
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.kernel.opcodes import Op

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder

_FIRST_BYTE: int = 0x80
_NULL: bytes = NULL_MARKER.to_bytes(4, "big", signed=True)


class NullMarked(Codec):
    """A value that begins with an int, or the least int for null.

    Parameters
    ----------
    inner
        The codec of a value that is not null: of a collection, which begins with its size.
    """

    child_names = ("",)
    min_size = 4

    def __init__(self, inner: Codec) -> None:
        self.inner = inner

    def __str__(self) -> str:
        return str(self.inner)

    @property
    def children(self) -> Sequence[Codec]:
        return (self.inner,)

    def with_children(self, children: Sequence[Any]) -> Self:
        (inner,) = children
        return self._copy_with(inner=inner)

    def _is_null(self, source: DataInput) -> bool:
        """Step over a null; return whether there was one."""
        start = source.position
        if source.read_int() == NULL_MARKER:
            return True
        source.position = start
        return False

    def read(self, source: DataInput) -> Any:
        return None if self._is_null(source) else self.inner.read(source)

    def skip(self, source: DataInput) -> None:
        if not self._is_null(source):
            self.inner.skip(source)

    def write(self, value: Any, target: DataOutput) -> None:
        if value is None:
            target.write_bytes(_NULL)
        else:
            self.inner.write(value, target)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.inner.arrow_type(options)

    def to_column(self, value: Any, options: DecodeOptions) -> Any:
        return None if value is None else self.inner.to_column(value, options)

    def from_column(self, value: Any) -> Any:
        return None if value is None else self.inner.from_column(value)

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
