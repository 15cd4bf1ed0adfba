"""Access to every kind of state by name: a reader with a schema, splits and batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from state_processor.backends.formats import row_layout as layouts
from state_processor.backends.formats import row_shapes as shapes
from state_processor.backends.formats.field_selection import EVERYTHING, Selection, applied, selected
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.read.joined_states import JoinedStatesReader
from state_processor.backends.read.keyed_reader import KeyedStateReader, with_text_namespace
from state_processor.backends.read.operator_state import OperatorStateReader
from state_processor.backends.read.option import NAMED, OPERATOR, Kind
from state_processor.backends.read.planned_reader import plan_read
from state_processor.backends.read.raw_state import RAW_KEYED, RAW_OPERATOR, RawStateReader
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.stored_operator import StoredOperator
from state_processor.backends.state.descriptions import (
    BROADCAST,
    OPERATOR_KINDS,
    OPERATOR_LIST,
    TIMERS,
    UNION_LIST,
    KeyedDescription,
    StateDescription,
    UnreadState,
    keyed_variants,
)
from state_processor.backends.state.python_states import shown_name, stored_name, type_of_one_state
from state_processor.serializers.decode_options import plain_schema
from state_processor.support.doors import read_with, spelled
from state_processor.support.errors import NotFoundError, OptionError
from state_processor.support.locks import cached_property

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
        variants, unread = stored.survey(state)
        if state is not None:
            state = stored_name(state, (*variants, *(u.name for u in unread if u.name is not None)))
        concerned = [u for u in unread if state not in variants and _may_be(u, state, kind)]
        if concerned:
            raise concerned[0].error
        if not variants and not unread:
            raise NotFoundError(f"{stored.label} has no state{_other_state(stored.operator)}")
        if state is None:
            return cls._unnamed(stored, kind == TIMER_KIND, variants)
        if state not in variants:
            raise NotFoundError.naming_nearest("state", state, map(shown_name, variants), stored.label)
        first_variant = variants[state][0]
        if kind_of(first_variant) not in _EXPECTED.get(kind or "", {kind_of(first_variant)}):
            fitting_kind = next(name for name, kinds in _EXPECTED.items() if kind_of(first_variant) in kinds)
            raise NotFoundError(
                f"state {first_variant.name!r} of {stored.label} is {first_variant.kind}; read it with {read_with(fitting_kind)}"
            )
        return cls(stored, kind_of(first_variant), {state: variants[state]}, state)

    @classmethod
    def _unnamed(cls, stored: StoredOperator, timers: bool, variants: Mapping[str, list[StateDescription]]) -> StatesToRead:
        """Return the timers of an operator, or its keyed states that a row has side by side."""
        kinds = {name: kind_of(descriptions[0]) for name, descriptions in variants.items()}
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
        options = plan_read(self.stored, [variants_of_state[0] for variants_of_state in self.variants.values()], options)
        if self.state is not None and self.kind in OPERATOR:
            return OperatorStateReader(self.stored, self.variants[self.state], options)
        keyed = keyed_variants(self.variants)
        if self.kind is Kind.WHOLE:
            return JoinedStatesReader(self.stored, keyed, options, self.note)
        readers = [KeyedStateReader(self.stored, variants_of_state, options) for variants_of_state in keyed.values()]
        return UnionReader(readers) if self.state is None else readers[0]


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
        size = (split_bytes,) if split_bytes else ()
        return [UnionSplit(i, s) for i, r in enumerate(self.readers) for s in r.splits(*size)]

    def read(self, split: UnionSplit) -> Iterator[pa.RecordBatch]:
        """Read the rows of one split."""
        yield from map(self.conform, self.readers[split.reader].read(split.split))

    def conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of one of the readers with the columns of all readers."""
        names = batch.schema.names
        arrays = [
            shapes.conform(batch.column(f.name), f.type) if f.name in names else pa.nulls(batch.num_rows, f.type)
            for f in self.schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
