"""Types as bytes, for other processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from state_processor.serializers.base import TypeSerializer, read_versioned_snapshot
from state_processor.serializers.io import DataInput

if TYPE_CHECKING:
    from state_processor.serializers.table.row_names import RowNames


@dataclass(frozen=True, slots=True)
class PortableType:
    """A type as bytes that can be pickled: its serializer snapshot, and the names of row fields that the snapshot omits."""

    snapshot: bytes  # the snapshot as Flink frames it
    rows: RowNames = ()  # the field names of all rows in the type, outermost first; ``None`` for rows without names

    @classmethod
    def of(cls, serializer: TypeSerializer) -> PortableType:
        """Return the bytes of a serializer's type."""
        from state_processor.serializers.table.row_names import row_names  # most reads have the written types

        return cls(serializer.snapshot().to_bytes(), row_names(serializer))

    def restore(self) -> TypeSerializer:
        """Return the serializer."""
        source = DataInput(self.snapshot, "type")
        serializer = read_versioned_snapshot(source).restore_serializer()
        if not source.at_end():
            raise source.corrupt(f"{source.remaining} bytes are left over after a type")
        if not self.rows:
            return serializer
        from state_processor.serializers.table.row_names import with_row_names

        return with_row_names(serializer, self.rows)
