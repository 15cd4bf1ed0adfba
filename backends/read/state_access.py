"""Access to every kind of state by name, and to several states: a reader with a schema, splits and batches.

Several states are read one after the other, or side by side: one row per key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import pyarrow as pa

from state_processor.backends.formats import row_layout as layouts
from state_processor.backends.formats import row_shapes as shapes
from state_processor.backends.formats.field_selection import EVERYTHING, Selection, applied, selected
from state_processor.backends.formats.row_layout import KEY_BYTES_COLUMN, KEY_GROUP_COLUMN
from state_processor.backends.formats.source import KeyedStateSource
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.read.keyed_reader import KeyedStateReader, PlannedReader, plan_read, read_state, with_text_namespace
from state_processor.backends.read.keyed_splits import SPLIT_BYTES, KeyedSplit, key_group_chunks, keys_to_read, wanted_keys
from state_processor.backends.read.operator_state import OperatorStateReader
from state_processor.backends.read.raw_state import RAW_KEYED, RAW_OPERATOR, RawStateReader
from state_processor.backends.read.read_options import NAMED, OPERATOR, Kind, ReadOptions
from state_processor.backends.read.schemas import with_note
from state_processor.backends.read.stored_operator import StoredOperator, naming_state
from state_processor.backends.state.column_types import TypeByPath, evolved
from state_processor.backends.state.descriptions import (
    BROADCAST,
    OPERATOR_KINDS,
    OPERATOR_LIST,
    TIMERS,
    UNION_LIST,
    KeyedDescription,
    StateDescription,
    UnreadState,
    first_variants,
    keyed_variants,
)
from state_processor.backends.state.python_states import blaming_declared_type, shown_name, stored_name, type_of_one_state
from state_processor.serializers.decode_options import plain_schema
from state_processor.serializers.traversal import is_inside, moved
from state_processor.support.doors import read_with, spelled
from state_processor.support.errors import NotFoundError, OptionError
from state_processor.support.late import pc
from state_processor.support.locks import cached_property
from state_processor.support.mappings import map_values, only_keys

if TYPE_CHECKING:
    from state_processor.backends.read.key_lookup import Keys

TIMER_KIND: Final = "TIMER"
KEYED_KIND: Final = "KEYED"

RAW_KINDS: Final = frozenset({RAW_KEYED, RAW_OPERATOR})
_READ_KINDS: Final = {OPERATOR_LIST: Kind.LIST, UNION_LIST: Kind.UNION, BROADCAST: Kind.BROADCAST}
_EXPECTED: Final = {
    TIMER_KIND: frozenset({Kind.TIMERS}),
    KEYED_KIND: NAMED | {Kind.TIMERS},
    **{kind: frozenset({read}) for kind, read in _READ_KINDS.items()},
}
"""What a state is, by the kind that users expect."""


class StateReader(Protocol):
    """Reads one state, or several side by side, in parts that tasks can take."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the batches of a read."""

    def splits(self, split_bytes: int = ...) -> Sequence[Any]:
        """Plan splits. Splits can be pickled."""

    def read(self, split: Any) -> Iterator[pa.RecordBatch]:
        """Read the rows of one part."""


class SelectableStateReader(StateReader, Protocol):
    """Reads a state, and can skip columns."""

    @property
    def described_schema(self) -> pa.Schema:
        """The columns that a read gives, with what their types declare (:mod:`~state_processor.serializers.decode_options`)."""

    def select(self, selection: Selection) -> SelectableStateReader:
        """Return a reader of some of the columns, and of some fields in them."""


@dataclass(frozen=True, slots=True)
class StatesToRead:
    """The states that a read gives."""

    stored: StoredOperator  # the operator that has the states
    kind: Kind  # what is read
    variants: Mapping[str, list[StateDescription]]  # the states by name, as the subtasks register them; empty for raw state
    state: str | None = None  # the name of the state, if one is read
    raw: str = ""  # ``RAW_KEYED`` or ``RAW_OPERATOR``, for raw state
    # names of keyed states that a row for each key can't have: states of windows and of other namespaces
    left_out: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """What the read leaves out, in a sentence; empty if it is nothing."""
        if not self.left_out:
            return ""
        names, way = ", ".join(map(repr, map(shown_name, self.left_out))), spelled("state")
        return (
            f"{self.stored.label}: a row for each key does not have the states of windows and other namespaces: {names}. Read "
            f"them by name ({way})"
        )

    @classmethod
    def find(cls, stored: StoredOperator, state: str | None = None, kind: str | None = None) -> StatesToRead:
        """Find the states of a read; for parameters and errors see :func:`open_state`."""
        if kind in OPERATOR_KINDS and state is None:
            raise OptionError(f"{spelled('kind', kind)} needs {spelled('state')}: name the state, or leave {spelled('kind')} out")
        if kind is not None and kind in RAW_KINDS:
            if state is not None:
                raise NotFoundError(f"raw state of {stored.label} does not have names, found the name {state!r}")
            return cls(stored, Kind.RAW, {}, raw=kind)
        with naming_state(state, stored.operator):
            variants, unread = stored.surveyed
        if state is not None:
            state = stored_name(state, (*variants, *map(attrgetter("name"), unread)))
        for unread_state in unread:
            if state not in variants and _may_be(unread_state, state, kind):
                raise unread_state.error
        if not variants and not unread:
            raise NotFoundError(f"{stored.label} has no state{_other_state(stored.operator)}")
        if state is None:
            return cls._unnamed(stored, kind == TIMER_KIND, variants)
        if state not in variants:
            raise NotFoundError.naming_nearest("state", state, map(shown_name, variants), stored.label)
        first_variant = variants[state][0]
        read_kind = kind_of(first_variant)
        if read_kind not in _EXPECTED.get(kind or "", {read_kind}):
            fitting_kind = next(name for name, kinds in _EXPECTED.items() if read_kind in kinds)
            raise NotFoundError(
                f"state {first_variant.name!r} of {stored.label} is {first_variant.kind}; read it with {read_with(fitting_kind)}"
            )
        return cls(stored, read_kind, {state: variants[state]}, state)

    @classmethod
    def _unnamed(cls, stored: StoredOperator, timers: bool, variants: Mapping[str, list[StateDescription]]) -> StatesToRead:
        """Return the timers of an operator, or its keyed states that a row has side by side."""
        kinds = map_values(kind_of, first_variants(variants))
        read_kind = Kind.TIMERS if timers else Kind.KEYED
        read = {name: descriptions for name, descriptions in variants.items() if kinds[name] is read_kind}
        if read and timers:
            return cls(stored, Kind.TIMERS, read)
        if read:
            windows = tuple(name for name, kind in kinds.items() if kind is Kind.WINDOW)
            return cls(stored, Kind.WHOLE, read, left_out=windows)
        names = ", ".join(map(repr, variants))
        if timers:
            raise NotFoundError(f"{stored.label} has no timers; its states are {names}")
        raise NotFoundError(f"{stored.label} does not have keyed state outside windows; name one of its states: {names}")

    def open(self, options: ReadOptions) -> SelectableStateReader:
        """Open the reader of the states; for parameters and errors see :func:`open_state`."""
        reader = self._open_whole(options)
        return reader if options.columns is None else reader.select(selected(options.columns, reader.schema))

    def _open_whole(self, options: ReadOptions) -> SelectableStateReader:
        """Open the reader of all columns."""
        if self.raw:
            return RawStateReader(self.stored, self.raw, options.of_states())
        options = plan_read(self.stored, map(itemgetter(0), self.variants.values()), options)
        if self.state is not None and self.kind in OPERATOR:
            return OperatorStateReader(self.stored, self.variants[self.state], options)
        keyed = keyed_variants(self.variants)
        if self.state is not None:
            return KeyedStateReader(self.stored, keyed[self.state], options)
        if self.kind is Kind.WHOLE:
            return JoinedStatesReader(self.stored, keyed, options, self.note)
        return UnionReader([KeyedStateReader(self.stored, variants, options) for variants in keyed.values()])


def open_state(
    stored: StoredOperator, state: str | None = None, kind: str | None = None, options: ReadOptions | None = None
) -> SelectableStateReader:
    """Open the reader of a state.

    ``stored``: the operator that has the state. ``state``: its name; ``None`` for all keyed states side by side or, with kind
    ``TIMER``, all timers. ``kind``: the expected kind: ``KEYED``, ``TIMER``, ``OPERATOR_LIST``, ``UNION_LIST``, ``BROADCAST``, or
    ``None`` for any. ``RAW_KEYED`` and ``RAW_OPERATOR`` are bytes of the operator's own format; they don't have a name.
    ``options``: shape and content.
    """
    options = options or ReadOptions()
    if options.types.python_type is not None and state is None:
        raise type_of_one_state()
    return StatesToRead.find(stored, state, kind).open(options)


def kind_of(state: StateDescription) -> Kind:
    """Return what reading a state by its name is."""
    if isinstance(state, KeyedDescription) and not state.is_timer:
        return Kind.KEYED if state.in_void_namespace else Kind.WINDOW
    return Kind.TIMERS if state.is_timer else _READ_KINDS[state.kind]


def _other_state(operator: OperatorState) -> str:
    """Return the part of a message about the other state of an operator whose states don't have names."""
    raw = [kind for kind, raw_kind in ((RAW_KEYED, "raw_keyed"), (RAW_OPERATOR, "raw_operator")) if _has(operator, raw_kind)]
    if raw:
        return f" with a name, but raw state; read it with {read_with(raw[0])}"
    return " but that of its coordinator" if operator.coordinator_state is not None else " in this snapshot"


def _has(operator: OperatorState, part: str) -> bool:
    return any(getattr(subtask, part) is not None for subtask in operator.subtasks)


def _may_be(unread: UnreadState, state: str | None, kind: str | None) -> bool:
    """Return whether a state that can't be read is one that is asked for."""
    if unread.name is None:
        return True
    if state is not None:
        return unread.name == state
    return (unread.kind in TIMERS) if kind == TIMER_KIND else unread.kind not in OPERATOR_KINDS | TIMERS


@dataclass(frozen=True, slots=True)
class UnionSplit:
    """A part of one of several readers."""

    reader: int
    split: Any

    @property
    def size(self) -> int:
        """Bytes of the snapshot to read."""
        return int(self.split.size)


class UnionReader:
    """Reads several states one after the other. Columns that a state lacks are null."""

    def __init__(self, readers: Sequence[KeyedStateReader], selection: Selection | None = None) -> None:
        self.readers = list(readers)
        self._selection = selection

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"schema": self.schema}

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of all readers, in order."""
        return plain_schema(self.described_schema)

    @property
    def described_schema(self) -> pa.Schema:
        """See :attr:`SelectableStateReader.described_schema`."""
        return applied(self._selection, with_text_namespace(shapes.wider_schema([r.known_types() for r in self.readers])))

    def select(self, selection: Selection) -> UnionReader:
        """See :meth:`SelectableStateReader.select`."""
        counted = {**selection, layouts.TIMESTAMP: EVERYTHING}  # batches without columns do not count rows
        return UnionReader([r.select(counted) for r in self.readers], selection)

    def splits(self, split_bytes: int = 0) -> list[UnionSplit]:
        """Plan splits, one for each task."""
        splits: list[UnionSplit] = []
        for position, reader in enumerate(self.readers):
            splits += map(partial(UnionSplit, position), reader.splits(split_bytes or SPLIT_BYTES))
        return splits

    def read(self, split: UnionSplit) -> Iterator[pa.RecordBatch]:
        """Read the rows of one split."""
        yield from map(self.conform, self.readers[split.reader].read(split.split))

    def conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of one of the readers with the columns of all readers."""
        return shapes.with_schema(batch, self.schema)


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
        chosen = only_keys(selection, (layouts.KEY, KEY_GROUP_COLUMN))
        column = self._columns[state]
        return replace(options, selection=chosen | ({layouts.VALUE: selection[column]} if column in selection else {}))

    def splits(self, split_bytes: int = SPLIT_BYTES) -> list[KeyedSplit]:
        """Plan splits, one for each task."""
        return next(iter(self._readers.values())).splits(split_bytes, self._keys, whole_key_groups=True)

    def _rows(self, split: KeyedSplit) -> Iterator[pa.RecordBatch]:
        """Read a few key groups at a time. A key has the same key group in every state."""
        source = split.handle.open(self._stored.snapshot)
        states = {}
        for name in self._readers:
            state = source.describe(name)
            if state is not None:
                states[name] = evolved(state, self._by_state[name].types)
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
            arrays[layouts.KEY] = _values_at(tables, layouts.KEY, first, self.schema.field(layouts.KEY).type)
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
            arrays[KEY_GROUP_COLUMN] = _values_at(tables, KEY_GROUP_COLUMN, first, pa.int32())
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


def _values_at(tables: dict[str, pa.Table], column: str, rows: pa.Array, column_type: pa.DataType) -> pa.Array:
    chunks = [shapes.conform(t.column(column).combine_chunks(), column_type) for t in tables.values()]
    return pa.concat_arrays(chunks).take(rows)
