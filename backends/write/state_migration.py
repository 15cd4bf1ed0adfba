"""State for Flink 2.x from state of Flink 1.x: which states change, and their entries with other bytes.

A migration is an evolution whose new serializers follow from the old ones by rules
(:mod:`~state_processor.serializers.evolution.migration`). Keys stay in their key groups, because the Java objects
stay the same. State with the same bytes in both versions is copied.

Paths of types begin with the part of the state: ``key:``, ``namespace:``, ``map_key:``; those without are of the
value (of a list's element, of a map's value).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.backends.formats.serialized_entries import PassThroughCodec
from state_processor.backends.formats.source import KeyedStateSource
from state_processor.backends.metadata import handles as h
from state_processor.backends.state import state_headers
from state_processor.backends.state.descriptions import (
    LIST,
    MAP,
    BroadcastDescription,
    KeyedDescription,
    describe_keyed,
    describe_operator_state,
)
from state_processor.backends.write.pass_through import KeyedPassThrough
from state_processor.serializers.base import CompositeTypeSerializerSnapshot, TypeSerializer
from state_processor.serializers.codec import Codec
from state_processor.serializers.core.collections import ListSerializerSnapshot, MapSerializerSnapshot
from state_processor.serializers.evolution.migrated_values import converting
from state_processor.serializers.evolution.migration import Adapt, Migrated, Note, TypeMigration
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.runtime.namespaces import TimerSerializer
from state_processor.support.errors import NotCompilableError
from state_processor.support.mappings import without_keys

KEY_PATH: Final = "key:"
NAMESPACE_PATH: Final = "namespace:"
MAP_KEY_PATH: Final = "map_key:"

TypesByPath = Mapping[str, Mapping[str, TypeSerializer]]
"""New types of parts by state and path; see :class:`~state_processor.serializers.evolution.migration.TypeMigration`."""

_FOLDING: Final = Note("", "Flink 2.x has no folding state", "leave it out with remove_state")


@dataclass(frozen=True)
class StateMigration:
    """The migration of one state.

    ``new`` and ``reading``: its registration for Flink 2.x, and one whose serializers read values of Flink 1.x as values of the
    new. ``changes`` and ``problems``: the parts that are converted, and the parts that can't be converted.
    """

    new: state_headers.StateMetaInfo
    reading: state_headers.StateMetaInfo
    changes: tuple[Note, ...] = ()
    problems: tuple[Note, ...] = ()
    # collections whose elements' type is not known: the declared class, by path
    undecided: Mapping[str, str] = field(default_factory=dict)
    used: frozenset[str] = frozenset()  # the paths of types that were used

    @property
    def is_changed(self) -> bool:
        """True if the state has to be converted, or can't be."""
        return bool(self.changes or self.problems or self.undecided)

    @classmethod
    def of(cls, meta: state_headers.StateMetaInfo, roles: Mapping[str, Migrated], migration: TypeMigration) -> StateMigration:
        """Build the migration of a state from the migrations of its serializers."""
        notes = (tuple(migration.changes), tuple(migration.problems), dict(migration.undecided), frozenset(migration.used))
        if not any(m.is_changed for m in roles.values()):
            return cls(meta, meta, *notes)
        new = {role: roles[role].new for role in meta.serializers}
        reading = {role: roles[role].reading for role in meta.serializers}
        return cls(replace(meta, serializers=new), replace(meta, serializers=reading), *notes)


@dataclass(frozen=True)
class KeyedMigration:
    """The migration of the keyed states of one header: the header for Flink 2.x, one to read with, and each state."""

    new: state_headers.KeyedHeader
    reading: state_headers.KeyedHeader
    states: Mapping[str, StateMigration]

    def roles(self, name: str) -> tuple[KeyedDescription, KeyedDescription]:
        """Return a state with the serializers that read it, and with the serializers that write it."""
        state = self.states[name]
        return describe_keyed(self.reading, state.reading), describe_keyed(self.new, state.new)

    def converted(self, name: str, *, write: bool = True) -> KeyedDescription:
        """Return the state with bytes for Flink 2.x instead of values.

        ``write``: ``False`` to read values without writing them: the result is empty.
        """
        old, new = self.roles(name)
        writing = new.serializers
        converted = {role: _converted(reading, writing[role], write=write) for role, reading in old.serializers.items()}
        return old.with_serializers(**converted)


def migrate_keyed(
    header: state_headers.KeyedHeader, types: TypesByPath, adapt: Mapping[str, Adapt] | None = None
) -> KeyedMigration:
    """Plan the migration of the keyed states of a header.

    ``header``: as Flink 1.x wrote it. ``types``: new types by state and path. Types of keys may be given with any state: all
    states share one key. ``adapt``: functions that make the serializers for Kryo's values, by state; by default serializers that
    convert the values.
    """
    given_types = chain.from_iterable(paths.items() for paths in types.values())
    of_keys = {path: type_ for path, type_ in given_types if path.startswith(KEY_PATH)}
    states = {}
    of_key = Migrated.unchanged(header.key)
    for meta in header.states:
        migration = TypeMigration({**types.get(meta.name, {}), **of_keys}, (adapt or {}).get(meta.name, converting))
        of_key = migration.migrate(header.key, KEY_PATH)
        if meta.backend_type == state_headers.PRIORITY_QUEUE:
            migration.changes.clear()  # the key is in the value, too
        namespaces = without_keys(meta.serializers, (state_headers.VALUE,))
        roles = {role: migration.migrate(namespace, NAMESPACE_PATH) for role, namespace in namespaces.items()}
        roles[state_headers.VALUE] = _migrated_value(meta, migration)
        if meta.options.get(state_headers.KEYED_STATE_TYPE) == "FOLDING":
            migration.problems.append(_FOLDING)
        states[meta.name] = StateMigration.of(meta, roles, migration)
    return KeyedMigration(
        replace(header, key=of_key.new, states=tuple(s.new for s in states.values())),
        replace(header, key=of_key.reading, states=tuple(s.reading for s in states.values())),
        states,
    )


def migrate_operator_state(meta: state_headers.StateMetaInfo, types: TypesByPath, adapt: Adapt = converting) -> StateMigration:
    """Plan the migration of a list, union or broadcast state; parameters as for :func:`migrate_keyed`."""
    migration = TypeMigration(types.get(meta.name, {}), adapt)
    paths = {state_headers.KEY: KEY_PATH, state_headers.VALUE: ""}
    roles = {role: migration.migrate(snapshot, paths.get(role, role)) for role, snapshot in meta.serializers.items()}
    return StateMigration.of(meta, roles, migration)


def _migrated_value(meta: state_headers.StateMetaInfo, migration: TypeMigration) -> Migrated:
    """Migrate the registered value; the parts of lists, maps and timers have separate paths."""
    value, kind = meta.serializers[state_headers.VALUE], meta.options.get(state_headers.KEYED_STATE_TYPE)
    paths: tuple[str, ...] = ()
    if meta.backend_type == state_headers.PRIORITY_QUEUE and value.class_name == TimerSerializer.snapshot_class:
        paths = (KEY_PATH, NAMESPACE_PATH)
    elif kind == LIST and isinstance(value, ListSerializerSnapshot):
        paths = ("",)
    elif kind == MAP and isinstance(value, MapSerializerSnapshot):
        paths = (MAP_KEY_PATH, "")
    if paths and isinstance(value, CompositeTypeSerializerSnapshot):
        return migration.migrate_nested(value, "", paths)
    return migration.migrate(value)


# Entries


class ConvertedBytes(PassThroughCodec):
    """The bytes that one serializer writes for the values that another reads.

    ``reading`` and ``writing``: the two serializers, whose values are the same. ``write``: ``False`` to read only.
    """

    def __init__(self, reading: Codec, writing: Codec, *, write: bool = True) -> None:
        super().__init__(reading)
        self.writing = writing
        self._write = write

    def read(self, source: DataInput) -> bytes:
        value = self.inner.read(source)
        return self.writing.serialize(value) if self._write else b""

    def emit_decode(self, builder: object, column: object) -> None:
        raise NotCompilableError(str(self))


def _converted(reading: Codec, writing: Codec, *, write: bool) -> Codec:
    return PassThroughCodec(reading) if reading == writing else ConvertedBytes(reading, writing, write=write)


@dataclass(frozen=True)
class MigratingPassThrough(KeyedPassThrough):
    """Takes over keyed states whose bytes change."""

    types: TypesByPath = field(default_factory=dict)  # new types by state and path

    def blobs(self, source: KeyedStateSource, name: str, state_id: int, key_groups: h.KeyGroupRange) -> Iterator[pa.RecordBatch]:
        """See :meth:`KeyedPassThrough.blobs`."""
        if source.describe(name) is None:
            return
        migration = migrate_keyed(source.header, self.types)
        bare, new = migration.converted(name), migration.roles(name)[1]
        for run in source.runs(name, key_groups):
            yield from self._encoded(run, new, bare, state_id, source.context)


# Operator state

Elements = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]
"""Elements back to back, and where each begins; the last bound is the end."""


def converted_elements(state: StateMigration, elements: Elements, *, write: bool = True) -> Elements:
    """Convert the elements of a list or union state; ``write`` as for :meth:`KeyedMigration.converted`."""
    old, new = describe_operator_state(state.reading), describe_operator_state(state.new)
    convert = _converted(old.value, new.value, write=write)
    data, bounds = elements
    parts = [convert.deserialize(data[a:b].data) for a, b in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)]
    ends = np.cumsum([0, *map(len, parts)], dtype=np.int64)
    return np.frombuffer(b"".join(parts), dtype=np.uint8), ends


def converted_broadcast(state: StateMigration, data: bytes | memoryview, *, write: bool = True) -> bytes:
    """Convert a broadcast state's number of entries, keys and values; ``write`` as for :func:`converted_elements`."""
    old, new = describe_operator_state(state.reading), describe_operator_state(state.new)
    assert isinstance(old, BroadcastDescription)
    assert isinstance(new, BroadcastDescription)
    key, value = _converted(old.key, new.key, write=write), _converted(old.value, new.value, write=write)
    source, target = DataInput(data, f"state {old.name!r}"), DataOutput()
    count = source.read_count("broadcast entries", 1)
    target.write_int(count)
    for _ in range(count):
        target.write_bytes(key.read(source))
        target.write_bytes(value.read(source))
    return target.to_bytes()
