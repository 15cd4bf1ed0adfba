"""Reads of a state whose columns, fields and keys are chosen late, by the query that asks for the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextvars import Context, copy_context
from dataclasses import field, replace
from os import PathLike
from typing import Any, Final, Self

import pyarrow as pa

from state_processor.backends.formats.row_layout import KEY_COLUMN
from state_processor.backends.read.state_access import SelectableStateReader
from state_processor.backends.read.stored_operator import StoredOperator
from state_processor.display.progress import progress
from state_processor.options.access import SnapshotAccess
from state_processor.options.source import SourceOptions
from state_processor.read.requests import StateRequest, arrow_schema
from state_processor.read.sources import ProjectedReader, find_reader, takes_keys
from state_processor.serializers.doors import Door, entered
from state_processor.serializers.records import dataclass

_INTEGERS: Final = frozenset({pa.int8(), pa.int16(), pa.int32(), pa.int64()})


@dataclass(frozen=True)
class StateScan:
    """A state of a snapshot that is open, and the columns to deliver.

    Parameters
    ----------
    source
        The checked options of the read.
    stored
        The operator that has the state.
    reader
        Reads all columns of all keys.
    schema
        The columns to deliver.
    context
        The registrations and the spelling of options where the state was found. Libraries read in threads of their own.
    """

    source: SourceOptions
    stored: StoredOperator
    reader: SelectableStateReader
    schema: pa.Schema
    context: Context = field(default_factory=copy_context, compare=False, repr=False)

    @classmethod
    def of(cls, stored: StoredOperator, request: StateRequest) -> Self:
        """Open a state of an operator."""
        with entered(Door.FUNCTIONS):
            opened = request.open(stored)
        reader = opened.reader
        delivered = reader.schema if opened.schema is None else arrow_schema(opened.schema, reader.schema)
        ProjectedReader.of(reader, delivered)  # refuses conversions
        return cls(opened.source, stored, reader, delivered)

    @classmethod
    def open(cls, path: str | PathLike[str], request: StateRequest) -> Self:
        """Open a snapshot, and a state in it."""
        return cls.of(request.find(SnapshotAccess.among(request.options).open(path)), request)

    def read(self, wanted: pa.Schema | None = None, keys: frozenset[Any] | None = None) -> Iterator[pa.RecordBatch]:
        """Read rows, lazily; at least one batch, which may be empty.

        Parameters
        ----------
        wanted
            The columns and fields to decode. All other columns, and other fields of structs, are skipped.
        keys
            Only rows of these keys are needed; ``None`` for all. See :meth:`narrowing_keys`.
        """
        context, batches = self.context.copy(), self._batches(wanted, keys)
        while (batch := context.run(next, batches, None)) is not None:
            yield batch
            del batch  # before the next one is decoded

    def _batches(self, wanted: pa.Schema | None, keys: frozenset[Any] | None) -> Iterator[pa.RecordBatch]:
        reader = self.reader
        if keys is not None:
            source = replace(self.source, read=replace(self.source.read, keys=tuple(keys)))
            reader = find_reader(source, self.stored)
        projected = ProjectedReader.of(reader, self.schema if wanted is None else wanted)
        empty = True
        for split in progress(projected.reader.splits(), "reading"):
            for batch in projected.read(split):
                empty = False
                yield batch
                del batch
        if empty:
            yield pa.RecordBatch.from_pylist([], projected.projection.schema)

    @property
    def key_type(self) -> pa.DataType | None:
        """The type of keys that can be looked up by a condition; ``None`` if the state is read whole whatever the condition."""
        if self.source.read.keys is not None or KEY_COLUMN not in self.schema.names:
            return None
        type_, stored = self.schema.field(KEY_COLUMN).type, self.reader.schema
        is_stored = KEY_COLUMN in stored.names and stored.field(KEY_COLUMN).type == type_
        return type_ if is_stored and takes_keys(self.reader) else None

    def narrowing_keys(self, values: frozenset[Any] | None) -> frozenset[Any] | None:
        """Return the keys to look up for a condition, or ``None`` to read all.

        Parameters
        ----------
        values
            The values that the condition allows the key to have. Values that no key of this type can have are left out.
        """
        type_ = None if values is None else self.key_type
        if values is None or type_ is None:
            return None
        if type_ in _INTEGERS and all(type(v) is int for v in values):
            limit = 1 << (type_.bit_width - 1)
            return frozenset(v for v in values if -limit <= v < limit)
        same = str if type_ == pa.string() else bool if type_ == pa.bool_() else None
        return values if same is not None and all(type(v) is same for v in values) else None


def columns_of(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """Return some of the columns of a schema, in the order of the names."""
    return pa.schema([schema.field(name) for name in names])
