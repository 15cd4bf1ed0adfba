"""All keyed states of an operator side by side: one row per key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from state_processor.backends.formats import row_layout as layouts
from state_processor.backends.formats import row_shapes as shapes
from state_processor.backends.formats.row_layout import KEY_BYTES_COLUMN, KEY_GROUP_COLUMN
from state_processor.backends.formats.source import KeyedStateSource
from state_processor.backends.metadata import handles as h
from state_processor.backends.read.keyed_reader import KeyedStateReader, read_state
from state_processor.backends.read.keyed_splits import SPLIT_BYTES, KeyedSplit, key_group_chunks, keys_to_read, wanted_keys
from state_processor.backends.read.planned_reader import PlannedReader
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.schema_text import with_note
from state_processor.backends.read.stored_operator import StoredOperator, naming_state
from state_processor.backends.state.column_types import TypeByPath, evolved
from state_processor.backends.state.descriptions import KeyedDescription
from state_processor.backends.state.python_states import blaming_declared_type, shown_name
from state_processor.serializers.traversal import is_inside, moved
from state_processor.support.errors import OptionError
from state_processor.support.late import pc

if TYPE_CHECKING:
    from state_processor.backends.read.key_lookup import Keys

_CHUNK_BYTES: Final = 8 << 20


class JoinedStatesReader(PlannedReader):
    """Reads all keyed states of an operator side by side: ``key``, a column per state, and the metadata columns.

    A row has all states of a key. States in a namespace and timers are read by name.

    ``states``: the states by name, as each handle's header registers them. ``options``: the read. ``note``: the parts
    that the rows leave out, for the comment of the column ``key``.
    """

    def __init__(
        self, stored: StoredOperator, states: Mapping[str, list[KeyedDescription]], options: ReadOptions, note: str = ""
    ) -> None:
        super().__init__(stored, options)
        self._note = note
        self._columns = _column_names(states)
        self._by_state = self._options_of_states()
        self._readers = {name: KeyedStateReader(stored, variants, self._by_state[name]) for name, variants in states.items()}
        keys, first = options.keys, next(iter(states))
        self._keys = None if keys is None else keys_to_read(evolved(states[first][0], self._by_state[first].types), keys)

    def _options_of_states(self) -> dict[str, ReadOptions]:
        """Return the read of each state. A column of the whole read is the value of its state."""
        types: dict[str, list[TypeByPath]] = {n: [] for n in self._columns}
        by_column = {layouts.KEY: [*types], **{column: [n] for n, column in self._columns.items()}}
        for path, type_ in self._options.types.types:
            column = next((c for c in by_column if is_inside(path, c)), None)
            if column is None:
                raise OptionError(
                    f"a type is given for the column {path!r}, which does not exist: the "
                    f"columns are {', '.join(sorted(by_column))}"
                )
            for name in by_column[column]:
                own_path = path if column == layouts.KEY else moved(path, column, layouts.VALUE)
                types[name].append((own_path, type_))
        whole = replace(self._options, flatten=False, keys=None)
        return {name: replace(whole, types=whole.types._replace(types=tuple(type_list))) for name, type_list in types.items()}

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_keys": None}  # each split has the keys in it

    def _whole_schema(self) -> pa.Schema:
        schemas = {name: reader.described_schema for name, reader in self._readers.items()}
        fields = [with_note(shapes.wider_field([schema.field(layouts.KEY) for schema in schemas.values()]), self._note)]
        fields += [schema.field(layouts.VALUE).with_name(self._columns[n]) for n, schema in schemas.items()]
        return pa.schema([*fields, *shapes.KEYED_METADATA] if self._options.metadata else fields)

    def _selecting(self, state: str) -> ReadOptions:
        """Return the read of one state with its part of the selection."""
        options, selection = self._by_state[state], self._options.selection
        if selection is None:
            return options
        chosen = {n: f for n, f in selection.items() if n in (layouts.KEY, KEY_GROUP_COLUMN)}
        column = self._columns[state]
        return replace(options, selection=chosen | ({layouts.VALUE: selection[column]} if column in selection else {}))

    def splits(self, split_bytes: int = SPLIT_BYTES) -> list[KeyedSplit]:
        """Plan splits, one for each task."""
        return next(iter(self._readers.values())).splits(split_bytes, self._keys, whole_key_groups=True)

    def _rows(self, split: KeyedSplit) -> Iterator[pa.RecordBatch]:
        """Read a few key groups at a time. A key has the same key group in every state."""
        source = split.handle.open(self._stored.snapshot)
        described_states = (state for name in self._readers if (state := source.describe(name)) is not None)
        states = {state.name: evolved(state, self._by_state[state.name].types) for state in described_states}
        keys_to_read = None
        if split.keys is not None and states:
            keys_to_read = wanted_keys(next(iter(states.values())), split.keys, self._stored.operator.max_parallelism)
        for chunk in key_group_chunks(split.key_groups, split.size, _CHUNK_BYTES):
            keys = None if keys_to_read is None else keys_to_read.within(chunk)
            yield from self._join(source, states, split.handle.subtask, chunk, keys)

    def _join(
        self,
        source: KeyedStateSource,
        states: Mapping[str, KeyedDescription],
        subtask: int,
        key_groups: h.KeyGroupRange,
        keys: Keys | None,
    ) -> Iterator[pa.RecordBatch]:
        tables: dict[str, pa.Table] = {}
        for name, state in states.items():
            options = self._selecting(name)
            with naming_state(name, self._stored.operator), blaming_declared_type(name, options.types.type_in_python(name)):
                batches = [b for b in read_state(source, state, options, key_groups, keys, key_bytes=True) if b.num_rows]
            if batches:
                tables[name] = pa.Table.from_batches(batches).combine_chunks()
        if not tables:
            return
        all_keys = pa.chunked_array([t.column(KEY_BYTES_COLUMN).combine_chunks() for t in tables.values()]).combine_chunks()
        unique = pc.unique(all_keys)
        first = pa.array(_first_positions(all_keys, unique))
        names, arrays = self.schema.names, {}
        if layouts.KEY in names:
            arrays[layouts.KEY] = _taken(tables, layouts.KEY, first, self.schema.field(layouts.KEY).type)
        for name, column in self._columns.items():
            if column not in names:
                continue
            column_type = self.schema.field(column).type
            if name in tables:
                at = pc.index_in(unique, value_set=tables[name].column(KEY_BYTES_COLUMN).combine_chunks())
                arrays[column] = shapes.conform(tables[name].column(layouts.VALUE).combine_chunks().take(at), column_type)
            else:
                arrays[column] = pa.nulls(len(unique), column_type)
        if KEY_GROUP_COLUMN in names:
            arrays[KEY_GROUP_COLUMN] = _taken(tables, KEY_GROUP_COLUMN, first, pa.int32())
        if self._options.metadata:
            arrays[shapes.SUBTASK] = shapes.constant(subtask, len(unique))
            arrays[shapes.LAST_ACCESS] = pa.nulls(len(unique), shapes.TIMESTAMP)
        yield pa.RecordBatch.from_arrays([arrays[f.name] for f in self.schema], schema=self.schema)


def _column_names(states: Iterable[str]) -> dict[str, str]:
    """Return a column for each state: its name, unless that is taken."""
    names = list(states)
    reserved = {layouts.KEY, KEY_GROUP_COLUMN, shapes.SUBTASK, shapes.LAST_ACCESS}
    columns: dict[str, str] = {}
    for name in names:
        column = usual_name = shown_name(name)
        while column in reserved or column in columns.values() or (column != usual_name and column in names):
            column += "_state"
        columns[name] = column
    return columns


def _first_positions(values: pa.Array, unique: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    codes = pc.index_in(values, value_set=unique).to_numpy()
    first = np.empty(len(unique), dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return first


def _taken(tables: dict[str, pa.Table], column: str, rows: pa.Array, column_type: pa.DataType) -> pa.Array:
    chunks = [shapes.conform(t.column(column).combine_chunks(), column_type) for t in tables.values()]
    return pa.concat_arrays(chunks).take(rows)
