"""Readers for the options of a read: shared by the Spark data source and the Arrow functions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from logging import getLogger
from pickle import PicklingError, dumps
from typing import Any, Final

import pyarrow as pa

from state_processor.backends.read.operator_state import OperatorStateReader
from state_processor.backends.read.raw_state import RawStateReader
from state_processor.backends.read.state_access import RAW_KINDS, SelectableStateReader, StateReader, StatesToRead
from state_processor.backends.read.stored_operator import StoredOperator
from state_processor.backends.state.descriptions import StateDescription
from state_processor.backends.state.python_states import check_known
from state_processor.options.effects import check_effects, check_time_to_live
from state_processor.options.source import SourceOptions
from state_processor.options.table import EFFECTIVE_OPTIONS
from state_processor.read.projection import Projection, selection
from state_processor.serializers.column_type import ColumnType
from state_processor.serializers.doors import spelled
from state_processor.serializers.errors import OptionError, UndecodableValueError
from state_processor.serializers.kryo.classes import log_undescribed, undescribed_classes
from state_processor.serializers.paths import ELEMENT, KEY, VALUE, join

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
        try:
            states = {name: [alike.setdefault(dumps(s), s) for s in variants] for name, variants in self.states.items()}
        except (PicklingError, AttributeError, TypeError):  # classes that Spark's pickler knows better
            states = self.states
        return {**vars(self), "states": states}


def known_states(options: SourceOptions, stored: StoredOperator) -> KnownStates | None:
    """Return the states that the options ask for; ``None`` if the operator does not have them, or one can't be read."""
    if options.kind in RAW_KINDS:
        return None
    states, unread = stored.survey(options.state)
    asked = {name: variants for name, variants in states.items() if options.state in (None, name) or options.read.python_types}
    return None if unread or not asked else KnownStates(stored.snapshot.digest, stored.operator.operator_id, asked)


def open_operator(options: SourceOptions, cached: KnownStates | None = None) -> StoredOperator:
    """Open the snapshot, and find the operator that the options name.

    ``cached``: the operator's states, if they were read before. Those of another snapshot or operator are not used.
    """
    if options.operator is None:
        raise OptionError(f"no operator: name it by {spelled('uid')}, or by {spelled('uid_hash')} if its uid is unknown")
    stored = StoredOperator.find(options.access.open(options.path), options.operator.uid, options.operator.uid_hash)
    if cached is None or (cached.digest, cached.operator) != (stored.snapshot.digest, stored.operator.operator_id):
        return stored
    return replace(stored, known=(cached.states, []))


def find_reader(options: SourceOptions, read: StatesToRead) -> SelectableStateReader:
    """Return the reader of states, unless an option does not act on them."""
    stored, states = read.stored, list(chain.from_iterable(read.variants.values()))
    place = stored.label if options.state is None else f"state {options.state!r} of {stored.label}"
    check_effects(options.given, read.kind, EFFECTIVE_OPTIONS, place)
    check_time_to_live(options.given, place, has_ttl=any(state.has_ttl for state in states))
    if options.read.python_types:
        check_known(options.read.python_types, stored.survey()[0], stored.label)
    if read.note:
        _LOG.warning("%s", read.note)
    reader = read.open(options.read)
    log_undescribed(undescribed_classes(*(tuple(state.serializers.values()) for state in states)))
    if options.read.nanos == "error":
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
    paths = [path for field in schema for path in _paths(field.name, field.type)]
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
            yield from _paths(join(name, field.name), field.type)
    elif pa.types.is_map(kind):
        yield from _paths(join(name, KEY), kind.key_type)
        yield from _paths(join(name, VALUE), kind.item_type)
    elif pa.types.is_list(kind):
        yield from _paths(join(name, ELEMENT), kind.value_type)
