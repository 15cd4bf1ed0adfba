"""Reading operator state: split lists, union lists and broadcast state. Flink: ``OperatorStateRestoreOperation``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.backends.formats import row_shapes as shapes
from state_processor.backends.formats.field_selection import NOTHING, FieldSelection
from state_processor.backends.formats.framing import ENTRY_FIELDS
from state_processor.backends.formats.operator_file import StateBytes, locate, operator_header
from state_processor.backends.formats.row_layout import KEY, KEY_BYTES_COLUMN, KEY_GROUP_COLUMN, VALUE, Field, RowLayout, RowPart
from state_processor.backends.formats.source import EntryLocator, decode_framed
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.read.keyed_reader import PlannedReader
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.schemas import with_comments
from state_processor.backends.read.stored_operator import StoredOperator, naming_state, subtask_label
from state_processor.backends.state.column_types import evolved
from state_processor.backends.state.descriptions import (
    BROADCAST,
    OperatorDescription,
    StateDescription,
    describe_operator_state,
)
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.io import DataInput
from state_processor.support.errors import CorruptSnapshotError, third_party_errors
from state_processor.support.mappings import names_of, only_keys


@dataclass(frozen=True, slots=True)
class OperatorSplit:
    """The operator state of one subtask: what one task reads. It can be pickled."""

    handle: h.OperatorStateHandle
    subtask: int
    context: str

    @property
    def size(self) -> int:
        """Bytes of the subtask's operator state."""
        return self.handle.state_size


def _columns(state: OperatorDescription) -> list[tuple[str, TypeSerializer]]:
    return list(state.serializers.items())


def _fields(state: OperatorDescription) -> tuple[Field, ...]:
    return tuple(Field(name, serializer) for name, serializer in _columns(state))


class OperatorStateReader(PlannedReader):
    """Reads one operator state of an operator, from all subtasks: ``value``, or ``key`` and ``value`` of broadcast state.

    ``stored``: the operator that has the state. ``states``: the state as each subtask registers it. ``options``: rows and
    columns of the read. Operator state does not have key groups or TTL: these metadata columns are null.
    """

    def __init__(self, stored: StoredOperator, states: Sequence[StateDescription], options: ReadOptions) -> None:
        super().__init__(stored, options)
        described = [evolved(s, options.types) for s in states if isinstance(s, OperatorDescription)]
        self._name = described[0].name
        self._variants = tuple(dict.fromkeys(described))

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_variants": ()}

    def _whole_schema(self) -> pa.Schema:
        options = self._options.described
        schemas = []
        for variant in self._variants:
            columns = [(name, serializer.arrow_type(options)) for name, serializer in _columns(variant)]
            schemas.append(with_comments(pa.schema(columns), variant))
        merged = shapes.wider_schema(schemas)
        return pa.schema([*merged, *shapes.METADATA]) if self._options.metadata else merged

    def splits(self, split_bytes: int = 0) -> list[OperatorSplit]:
        """Plan a split per subtask. Broadcast state has one split, since each subtask has a copy."""
        splits = []
        for subtask in self._stored.operator.subtasks:
            handle = subtask.managed_operator
            if handle is not None and self._name in names_of(handle.states):
                splits.append(OperatorSplit(handle, subtask.index, subtask_label(self._stored.operator, subtask)))
        if self._variants[0].kind == BROADCAST and splits:
            self._check_copies(splits)
            return splits[:1]
        return splits

    def _rows(self, split: OperatorSplit) -> Iterator[pa.RecordBatch]:
        for batch in self._named(split):
            rows = batch.num_rows
            extra = {
                KEY_GROUP_COLUMN: pa.nulls(rows, pa.int32()),
                shapes.SUBTASK: shapes.constant(split.subtask, rows),
                shapes.LAST_ACCESS: pa.nulls(rows, shapes.TIMESTAMP),
            }
            arrays = [extra[f.name] if f.name in extra else shapes.conform(batch.column(f.name), f.type) for f in self.schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _named(self, split: OperatorSplit) -> Iterator[pa.RecordBatch]:
        with naming_state(self._name, self._stored.operator):
            yield from self._read(split, self._decoded())

    def _decoded(self) -> FieldSelection:
        """Return the columns that are read or, since rows count, as little of the value as there is."""
        selection = self._options.selection
        if selection is None:
            return frozenset({KEY, VALUE})
        return only_keys(selection, (KEY, VALUE)) or {VALUE: NOTHING}

    def _read(self, split: OperatorSplit, columns: FieldSelection) -> Iterator[pa.RecordBatch]:
        name = self._name
        header = operator_header(self._stored.snapshot, split.handle, split.context)
        meta = header.state(name)
        assert meta is not None  # a split has the states of its handle, and the header registers them
        state = evolved(describe_operator_state(meta), self._options.types)
        stream = self._stored.snapshot.open(split.handle.stream, split.context)
        context = f"{split.context}, state {name!r}, {stream.describe()}"
        with third_party_errors(context, parts=state.serializers.values()):
            stored = locate(self._stored.snapshot, split.handle, header, name, context)
            decode = self._entries if state.kind == BROADCAST else self._elements
            yield from decode(stored, _fields(state), columns, context)

    def _elements(
        self, stored: StateBytes, fields: tuple[Field, ...], columns: FieldSelection, context: str
    ) -> Iterator[pa.RecordBatch]:
        """Read the elements of a list."""
        entries = np.zeros((len(stored.starts), ENTRY_FIELDS), dtype=np.int64)
        entries[:, 0], entries[:, 1] = stored.starts, stored.ends
        layout = RowLayout((RowPart(0, fields),), columns)
        yield from decode_framed(layout, self._options.values, context, iter([(stored.buffer, stored.base, entries)]))

    def _entries(
        self, stored: StateBytes, fields: tuple[Field, ...], columns: FieldSelection, context: str
    ) -> Iterator[pa.RecordBatch]:
        """Read the entries of broadcast state."""
        layout = RowLayout((RowPart(None, fields, (0, 2)),), columns)
        decoder = layout.decoder(self._options.values)
        for start, end in zip(stored.starts.tolist(), stored.ends.tolist(), strict=True):
            source = DataInput(stored.buffer.data, context, start, end)
            count = source.read_count("broadcast entries", 1)
            site = EntryLocator(context, layout, stored.buffer, stored.base)
            yield from decoder.rows(stored.buffer[:end], source.position, count, site)
            last = decoder.position if count else source.position
            if last != end:
                raise source.corrupt(f"{end - last} bytes are left over behind the last entry", last)
        yield from decoder.finish()

    def broadcast_entries(self, split: OperatorSplit) -> Iterator[bytes]:
        """Yield the bytes of the entries of a broadcast state, in the order of its rows: key and value."""
        for batch in self._read(split, frozenset({KEY_BYTES_COLUMN})):
            yield from batch.column(KEY_BYTES_COLUMN).to_pylist()

    def _check_copies(self, splits: Sequence[OperatorSplit]) -> None:
        """Compare the serialized entries of all subtasks; their order is an accident of hashing."""
        first: list[bytes] | None = None
        for split in splits:
            copy = sorted(self.broadcast_entries(split))
            if first is None:
                first = copy
            elif copy != first:
                raise CorruptSnapshotError(
                    f"{split.context}: its copy of the broadcast state {self._name!r} differs from the copy of "
                    f"subtask {splits[0].subtask}; every subtask should hold the same"
                )


def raw_elements(snapshot: Snapshot, split: OperatorSplit, name: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Read the elements of a list state in one subtask: their bytes, and where each begins; the last bound is the end.

    Of broadcast state there is one element: the number of entries, then keys and values.
    """
    header = operator_header(snapshot, split.handle, split.context)
    meta = header.state(name)
    if meta is None:
        return np.zeros(0, dtype=np.uint8), np.zeros(1, dtype=np.int64)
    stored = locate(snapshot, split.handle, header, name, f"{split.context}, state {name!r}")
    pieces = [stored.buffer[a:b] for a, b in zip(stored.starts, stored.ends, strict=True)]
    data = np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.uint8)
    return data, np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(stored.ends - stored.starts)])
