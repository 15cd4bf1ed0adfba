"""Reads of a state: their arguments, the reader for their options, and the open state.

What asks for the rows of an open state chooses columns, fields and keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from logging import getLogger
from os import PathLike
from pickle import PicklingError, dumps
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

from state_processor.backends.files.ordered_threads import read_all
from state_processor.backends.formats.row_layout import KEY_COLUMN
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.read.keyed_reader import KeyedStateReader
from state_processor.backends.read.operator_state import OperatorStateReader
from state_processor.backends.read.raw_state import RawStateReader
from state_processor.backends.read.schemas import with_comments_of
from state_processor.backends.read.state_access import RAW_KINDS, SelectableStateReader, StateReader, StatesToRead
from state_processor.backends.read.stored_operator import StoredOperator, naming_state
from state_processor.backends.state.descriptions import StateDescription
from state_processor.backends.state.python_states import check_known
from state_processor.display.progress import progress
from state_processor.options.access import SnapshotAccess
from state_processor.options.data_sources import SourceOptions
from state_processor.options.keywords import EFFECTIVE_OPTIONS, check_arguments
from state_processor.options.option import check_effects, check_time_to_live
from state_processor.read.projection import Projection, overridden, selection
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.decode_options import ColumnType
from state_processor.serializers.kryo.classes import log_undescribed, undescribed_classes
from state_processor.serializers.shared_types import PortableType
from state_processor.serializers.traversal import ELEMENT, KEY, VALUE, join_path
from state_processor.support.doors import Door, entered, spelled
from state_processor.support.errors import OptionError, UndecodableValueError
from state_processor.support.mappings import only_keys, without_keys
from state_processor.types.identifier import OperatorIdentifier

if TYPE_CHECKING:
    from state_processor.serializers.java.types import JavaType


_LOG: Final = getLogger("state_processor")


@dataclass(frozen=True)
class KnownStates:
    """The states of an operator, as its subtasks register them: a request to storage for each. They can be pickled."""

    digest: str  # of the snapshot's metadata
    operator: str  # the operator's id
    states: dict[str, list[StateDescription]]  # the states by name

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling; what many subtasks register alike is in it once."""
        alike: dict[bytes, StateDescription] = {}
        states: dict[str, list[StateDescription]] = {}
        try:
            for name, variants in self.states.items():
                states[name] = [alike.setdefault(dumps(state), state) for state in variants]
        except (PicklingError, AttributeError, TypeError):  # classes that Spark's pickler knows better
            states = self.states
        return {**vars(self), "states": states}


def known_states(options: SourceOptions, stored: StoredOperator) -> KnownStates | None:
    """Return the states that the options ask for; ``None`` if the operator does not have them, or one can't be read."""
    if options.kind in RAW_KINDS:
        return None
    with naming_state(options.state, stored.operator):
        states, unread = stored.surveyed
    if options.state is not None and not options.read.types.python_types:
        states = only_keys(states, (options.state,))
    return None if unread or not states else KnownStates(stored.snapshot.digest, stored.operator.operator_id, states)


def open_operator(options: SourceOptions, cached: KnownStates | None = None) -> StoredOperator:
    """Open the snapshot, and find the operator that the options name.

    ``cached``: the operator's states, if they were read before. Those of another snapshot or operator are not used.
    """
    if options.operator is None:
        raise OptionError(f"no operator: name it by {spelled('uid')}, or by {spelled('uid_hash')} if its uid is unknown")
    stored = StoredOperator.find(options.access.open(options.path), options.operator.uid, options.operator.uid_hash)
    if cached is None or (cached.digest, cached.operator) != (stored.snapshot.digest, stored.operator.operator_id):
        return stored
    return replace(stored, earlier_survey=(cached.states, []))


def find_reader(options: SourceOptions, read: StatesToRead) -> SelectableStateReader:
    """Return the reader of states, unless an option does not act on them."""
    stored, states = read.stored, list(chain.from_iterable(read.variants.values()))
    place = stored.label if options.state is None else f"state {options.state!r} of {stored.label}"
    check_effects(options.named_arguments, read.kind, EFFECTIVE_OPTIONS, place)
    check_time_to_live(options.named_arguments, place, has_ttl=any(state.has_ttl for state in states))
    if options.read.types.python_types:
        check_known(options.read.types.python_types, stored.surveyed[0], stored.label)
    if read.note:
        _LOG.warning("%s", read.note)
    reader = read.open(options.read)
    log_undescribed(undescribed_classes(*(tuple(state.serializers.values()) for state in states)))
    if options.read.values.nanos == "error":
        of_state = "" if options.state is None else f", state {options.state!r}"
        refuse_nanoseconds(reader.described_schema, f"{stored.label}{of_state}")
    return reader


def takes_keys(reader: StateReader) -> bool:
    """Return True if a reader can look for keys; operator state and raw state are not indexed by key."""
    return not isinstance(reader, (OperatorStateReader, RawStateReader))


def splits_of(reader: StateReader, options: SourceOptions) -> list[Any]:
    """Return the parts that tasks read, of the size in the options or the default one."""
    return list(reader.splits() if options.split_size is None else reader.splits(options.split_size))


@dataclass(frozen=True, slots=True)
class ProjectedReader:
    """A reader whose rows are projected to another schema. After unpickling it can read, but not plan."""

    reader: StateReader
    projection: Projection | None = None  # none for the columns of the reader

    @classmethod
    def of(cls, reader: SelectableStateReader, schema: pa.Schema) -> ProjectedReader:
        """Return a reader of the columns of a schema. What it leaves out, fields of structs too, is skipped, not decoded."""
        if schema is reader.schema:
            return cls(reader)
        whole = cls(reader, Projection(reader.schema, schema))
        selected = reader.select(selection(reader.schema, schema))
        return whole if selected.schema.equals(reader.schema) else cls(selected, Projection(selected.schema, schema))

    @property
    def schema(self) -> pa.Schema:
        """The columns of the batches of a read."""
        return self.reader.schema if self.projection is None else self.projection.schema

    def read(self, split: Any) -> Iterator[pa.RecordBatch]:
        """Read the rows of one part."""
        batches = self.reader.read(split)
        return batches if self.projection is None else map(self.projection.apply, batches)


def refuse_nanoseconds(schema: pa.Schema, place: str) -> None:
    """Refuse columns that Spark's timestamps, which end at microseconds, may not hold.

    ``schema``: the columns of a read, with what their types declare. ``place``: the operator and the state, for the message.
    """
    paths: list[str] = []
    for name, type_ in zip(schema.names, schema.types, strict=True):
        paths += _paths(name, type_)
    if paths:
        raise UndecodableValueError(
            f"{place}: the type of column {' and of '.join(map(repr, paths))} has nanoseconds. Spark's timestamps "
            f"can't hold them; read with {spelled('nanos', 'string')} (text with all digits), {spelled('nanos', 'truncate')} "
            f"(cuts them off), or {spelled('nanos', 'check')} if all values are whole microseconds"
        )


def _paths(name: str, kind: pa.DataType) -> Iterator[str]:
    """Yield the paths of columns and fields whose types declare nanoseconds."""
    if isinstance(kind, ColumnType):
        if kind.declares_nanos:
            yield name
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from _paths(join_path(name, field.name), field.type)
    elif pa.types.is_map(kind):
        yield from _paths(join_path(name, KEY), kind.key_type)
        yield from _paths(join_path(name, VALUE), kind.item_type)
    elif pa.types.is_list(kind):
        yield from _paths(join_path(name, ELEMENT), kind.value_type)


ArrowSchema: TypeAlias = pa.Schema | TypeSerializer | Mapping[str, pa.DataType | TypeSerializer]
_INTEGERS: Final = frozenset({pa.int8(), pa.int16(), pa.int32(), pa.int64()})


@dataclass(frozen=True, slots=True)
class StateRequest:
    """The arguments of a read of a state; see :func:`state_processor.arrow.read_state`."""

    operator: OperatorIdentifier
    state: str | None = None
    kind: str | None = None
    schema: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def _uid(self) -> str | None:
        """The uid of the operator; ``None`` if it is text that is taken for a hash."""
        uid = self.operator.uid
        return uid if uid is not None and OperatorIdentifier.of(uid) == self.operator else None

    def find(self, snapshot: Snapshot) -> StoredOperator:
        """Find the operator in a snapshot."""
        return StoredOperator.find(snapshot, self._uid, self.operator.uid_hash)

    def open_path(self, path: str | PathLike[str]) -> StateScan:
        """Open a snapshot, and the state in it."""
        return self.open(self.find(SnapshotAccess.among(self.options).open(path)))

    def open(self, stored: StoredOperator, door: Door = Door.FUNCTIONS) -> StateScan:
        """Check the arguments, and open the state of an operator that :meth:`find` returns.

        ``door``: messages spell options as at this door.
        """
        with entered(door):
            values = check_arguments({**self.options, "kind": self.kind})
            evolving, schema = evolving_types(self.schema)
            types = {**evolving, **self._inferred(stored, values), **dict(values.get("types", ()))}
            uid = self._uid
            values |= {"uid_hash": self.operator.uid_hash} if uid is None else {"uid": uid}
            values |= ({} if self.state is None else {"state": self.state}) | ({"types": tuple(types.items())} if types else {})
            source = SourceOptions.of(stored.snapshot.directory, values)
            states = StatesToRead.find(stored, source.state, source.kind)
            reader = find_reader(source, states)
            delivered = reader.schema if schema is None else arrow_schema(schema, reader.schema)
            ProjectedReader.of(reader, delivered)  # refuses conversions
            return StateScan(values, source, states, reader, delivered)

    def _inferred(self, stored: StoredOperator, values: Mapping[str, Any]) -> Mapping[str, JavaType]:
        """Return the Java types that the values of the state have, by path, if the options ask for them."""
        if not values.get("infer_kryo", False):
            return {}
        from state_processor.backends.read.java_type_inference import inferred_java_types  # most reads infer nothing

        return inferred_java_types(stored, self.state)


@dataclass(frozen=True)
class StateScan:
    """A state of a snapshot that is open, and the columns to deliver."""

    values: Mapping[str, Any]  # the normal forms of the options, by keyword argument
    source: SourceOptions  # the checked options of the read
    states: StatesToRead  # what the state consists of
    reader: SelectableStateReader  # reads all columns of all keys
    schema: pa.Schema
    # the registrations and the spelling of options where the state was found. Libraries read in threads of their own.
    context: Context = field(default_factory=copy_context, compare=False, repr=False)

    @property
    def stored(self) -> StoredOperator:
        """The operator that has the state."""
        return self.states.stored

    def read(self, schema: pa.Schema | None = None, keys: frozenset[Any] | None = None) -> Iterator[pa.RecordBatch]:
        """Read rows, lazily; at least one batch, which may be empty.

        ``schema``: the columns and fields to decode. All other columns, and other fields of structs, are skipped. ``keys``: only
        rows of these keys are needed; ``None`` for all. See :meth:`narrowing_keys`.
        """
        context, batches = self.context.copy(), self._batches(schema, keys)
        while (batch := context.run(next, batches, None)) is not None:
            yield batch
            del batch  # before the next one is decoded

    def count(self) -> int:
        """Return the number of rows. Entries are counted where each is a row; else the first column is decoded."""
        return self.context.copy().run(sum, self._counts())

    def _counts(self) -> Iterator[int]:
        self.stored.snapshot.check_plan()
        projected = ProjectedReader.of(self.reader, pa.schema([self.schema.field(0)]))
        reader = projected.reader

        def count(split: Any) -> Iterator[int]:
            entries = reader.count(split) if isinstance(reader, KeyedStateReader) else None
            yield sum(batch.num_rows for batch in projected.read(split)) if entries is None else entries

        watched = partial(progress, doing="counting")
        yield from read_all(reader.splits, count, self.stored.snapshot.threads, watched)

    def _batches(self, schema: pa.Schema | None, keys: frozenset[Any] | None) -> Iterator[pa.RecordBatch]:
        self.stored.snapshot.check_plan()
        reader = self.reader
        if keys is not None:
            reader = self.states.open(replace(self.source.read, keys=tuple(keys)))
        projected = ProjectedReader.of(reader, self.schema if schema is None else schema)
        empty = True
        watched = partial(progress, doing="reading")
        for batch in read_all(projected.reader.splits, projected.read, self.stored.snapshot.threads, watched):
            empty = False
            yield batch
            del batch
        if empty:
            yield pa.RecordBatch.from_pylist([], projected.schema)

    @property
    def notes(self) -> tuple[str, ...]:
        """States of windows that a row for each key does not have, and the times of a regional checkpoint."""
        with entered(Door.FUNCTIONS):
            note = self.states.note
        return tuple(filter(None, (note, self.stored.mixed_times)))

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

        ``values``: the values that the condition allows the key to have. Values that no key of this type can have are left out.
        """
        type_ = None if values is None else self.key_type
        if values is None or type_ is None:
            return None
        if type_ in _INTEGERS and all(type(v) is int for v in values):
            limit = 1 << (type_.bit_width - 1)
            return frozenset(v for v in values if -limit <= v < limit)
        same = str if type_ == pa.string() else bool if type_ == pa.bool_() else None
        return values if same is not None and all(type(v) is same for v in values) else None


def evolving_types(schema: Any) -> tuple[dict[str, PortableType], Any]:
    """Return the columns that a schema has in types of Flink, and the schema without them."""
    if isinstance(schema, TypeSerializer):
        return {"value": PortableType.of(schema)}, None
    if not isinstance(schema, Mapping):
        return {}, schema
    types = {name: PortableType.of(t) for name, t in schema.items() if isinstance(t, TypeSerializer)}
    return types, without_keys(schema, types)


def arrow_schema(schema: pa.Schema | Mapping[str, pa.DataType], read_schema: pa.Schema) -> pa.Schema:
    """Return the schema to deliver.

    ``schema``: the user's argument. ``read_schema``: the schema of the state.
    """
    if isinstance(schema, pa.Schema):
        return with_comments_of(schema, read_schema)
    if not isinstance(schema, Mapping):
        raise OptionError(f"schema={schema!r}: expected a pyarrow.Schema, or a mapping of column names to types")
    for name, data_type in schema.items():
        if not isinstance(data_type, pa.DataType):
            raise OptionError(f"schema: the type of {name!r} is {data_type!r}; expected a type of Types or of pyarrow")
    return overridden(read_schema, dict(schema))


def columns_of(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """Return some of the columns of a schema, in the order of the names."""
    return pa.schema(list(map(schema.field, names)))
