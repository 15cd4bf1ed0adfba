"""Operators of the source savepoint, and operators of other snapshots that are copied."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from state_processor.backends.files.ordered_threads import at_once
from state_processor.backends.formats.operator_file import operator_header
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.read.field_names import with_names_of_plan
from state_processor.backends.read.keyed_splits import KeyedHandle, keyed_handles, managed_handles
from state_processor.backends.read.stored_operator import StoredOperator, operator_label, subtask_label
from state_processor.backends.state import state_headers
from state_processor.backends.state.descriptions import (
    KeyedDescription,
    OperatorDescription,
    describe_keyed,
    describe_operator_state,
    key_of,
)
from state_processor.backends.write.keyed_formats import KeyedFormat
from state_processor.options.access import SnapshotAccess
from state_processor.serializers.base import TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.format_versions import Release, release_of
from state_processor.serializers.shared_types import merged
from state_processor.support.errors import UnsupportedFormatError, WriteError
from state_processor.support.locks import cached_property
from state_processor.support.mappings import map_values, names_of
from state_processor.types.identifier import OperatorIdentifier

_FIRST_ASYNCHRONOUS: Final = 2
"""The first major version of Flink that registers states of the asynchronous API separately."""


class SourceOperator:
    """Operator of the source savepoint, or of another snapshot.

    ``snapshot``: the source savepoint, or the other snapshot. ``operator``: the metadata of the operator. ``access``: the options
    that the other snapshot was opened with; ``None`` for the source savepoint.
    """

    def __init__(self, snapshot: Snapshot, operator: OperatorState, access: SnapshotAccess | None = None) -> None:
        self.snapshot = snapshot
        self.operator = operator
        self.access = access

    @property
    def identifier(self) -> OperatorIdentifier:
        """The identifier in its snapshot."""
        return OperatorIdentifier(self.operator.uid, self.operator.operator_id)

    @property
    def is_copied(self) -> bool:
        """True if it is an operator of another snapshot than the source savepoint."""
        return self.access is not None

    @property
    def mixed_times(self) -> str:
        """See :attr:`StoredOperator.mixed_times`."""
        return StoredOperator(self.snapshot, self.operator).mixed_times

    @cached_property
    def handles(self) -> list[KeyedHandle]:
        """Handles of keyed state and timers."""
        return list(keyed_handles(self.operator, self.snapshot))

    def has_later_files(self, release: Release) -> bool:
        """Return whether a release does not read the unchanged files of the operator."""
        return self.has_later_tables(release) or self.has_later_operator_state(release)

    def has_later_tables(self, release: Release) -> bool:
        """Return whether tables of RocksDB are of Flink 2, and the release is older: its RocksDB lacks their checksums."""
        if release[0] >= _FIRST_ASYNCHRONOUS or self.snapshot.flink_major < _FIRST_ASYNCHRONOUS:
            return False
        return any(isinstance(s.managed_keyed, h.IncrementalRemoteKeyedStateHandle) for s in self.operator.subtasks)

    def has_later_operator_state(self, release: Release) -> bool:
        """Return whether files of operator state have a header that a release does not read."""
        return any(release < release_of(state_headers.OPERATOR_STATE.since[version]) for version in self._operator_versions)

    @cached_property
    def _operator_versions(self) -> frozenset[int]:
        try:
            handles = [handle for handle in self.operator.operator_handles if handle.states]
            label = operator_label(self.operator)
            return frozenset(operator_header(self.snapshot, handle, label).version for handle in handles)
        except UnsupportedFormatError:  # of serializers that are not known: files are copied
            return frozenset()

    @cached_property
    def header(self) -> state_headers.KeyedHeader | None:
        """Header that fits the files of all subtasks."""
        key = None
        states: dict[str, state_headers.StateMetaInfo] = {}
        headers = at_once(lambda handle: handle.open(self.snapshot).header, self.handles, is_local=self.snapshot.is_local)
        for handle, header in zip(self.handles, headers, strict=True):
            if handle.raw and not header.states:  # of an asynchronous operator without timers: keys are not described there
                continue
            key = key or header.key
            if header.key is not key and header.key.to_bytes() != key.to_bytes():
                raise self._differs("keys", handle.context)
            self._merge(states, header.states, handle.context)
        return None if key is None else state_headers.KeyedHeader(state_headers.KEYED_VERSION, False, key, tuple(states.values()))

    @property
    def stored_states(self) -> list[KeyedDescription]:
        """Keyed states and timers; rows have the names that the snapshot stores."""
        header = self.header
        return [] if header is None else [describe_keyed(header, m) for m in header.states]

    @cached_property
    def keyed_states(self) -> dict[str, KeyedDescription]:
        """Keyed states and timers by name; rows have the names of the plan that the snapshot was opened with."""
        return with_names_of_plan(self.snapshot, self.operator, self.stored_states)

    @cached_property
    def operator_metas(self) -> dict[str, state_headers.StateMetaInfo]:
        """Registrations of list, union and broadcast states by name."""
        states: dict[str, state_headers.StateMetaInfo] = {}
        handles = []
        for subtask in self.operator.subtasks:
            handle = subtask.managed_operator
            if handle is not None and handle.states:
                handles.append((handle, subtask_label(self.operator, subtask)))
        is_local = self.snapshot.is_local
        headers = at_once(lambda located_handle: operator_header(self.snapshot, *located_handle), handles, is_local=is_local)
        for (_, context), header in zip(handles, headers, strict=True):
            self._merge(states, (*header.lists, *header.broadcasts), context)
        return states

    @cached_property
    def operator_states(self) -> dict[str, OperatorDescription]:
        """List, union and broadcast states by name."""
        return map_values(describe_operator_state, self.operator_metas)

    @property
    def recorded_states(self) -> tuple[str, ...]:
        """Names of list, union and broadcast states as `_metadata` has them; no file is read."""
        return tuple(dict.fromkeys(names_of(self.operator.operator_metas)))

    @property
    def states(self) -> tuple[str, ...]:
        """Names of all states, keyed or not."""
        return (*self.keyed_states, *self.operator_metas)

    @property
    def key(self) -> TypeSerializer | None:
        """The key's serializer; ``None`` without keyed state."""
        if self.header is None:
            return None
        states = self.keyed_states.values() if self.snapshot.query_plan is not None else ()
        return next((state.key for state in states), key_of(self.header))

    def is_in(self, format: KeyedFormat) -> bool:
        """Return whether all keyed state is in files that a format can copy."""
        subtasks = self.operator.subtasks
        handles = managed_handles(self.operator)
        managed = all(format.has(keyed.handle, partial(keyed.open, self.snapshot)) for keyed in handles)
        return managed and (format.keeps_raw_timers or all(s.raw_keyed is None for s in subtasks) or not self.has_raw_timers)

    @property
    def has_raw_timers(self) -> bool:
        """True if timers are in raw keyed state."""
        return any(k.raw for k in self.handles)

    @property
    def timers(self) -> frozenset[str]:
        """Names of timers."""
        return frozenset(name for name, state in self.keyed_states.items() if state.is_timer)

    @property
    def is_asynchronous(self) -> bool:
        """True if keyed state is registered for the asynchronous API: in a store, by Flink 2.0 or later."""
        if self.snapshot.flink_major < _FIRST_ASYNCHRONOUS:
            return False
        for keyed in self.handles:
            if isinstance(keyed.handle, h.IncrementalRemoteKeyedStateHandle):
                states = keyed.open(self.snapshot).header.states
                if any(meta.backend_type == state_headers.KEY_VALUE_V2 for meta in states):
                    return True
        return False

    def _merge(
        self, states: dict[str, state_headers.StateMetaInfo], metas: Iterable[state_headers.StateMetaInfo], context: str
    ) -> None:
        """Add the registrations in a header to those of the subtasks so far. Most subtasks have the same header, read once."""
        for meta in metas:
            earlier = states.setdefault(meta.name, meta)
            if earlier is not meta:
                states[meta.name] = self._merged(earlier, meta, context)

    def _merged(
        self, earlier: state_headers.StateMetaInfo, meta: state_headers.StateMetaInfo, context: str
    ) -> state_headers.StateMetaInfo:
        """Return the registration of a state that fits the subtasks so far and another subtask."""
        serializers: dict[str, TypeSerializerSnapshot] = {}
        for role in filter(meta.serializers.__contains__, earlier.serializers):
            snapshot = merged(earlier.serializers[role], meta.serializers[role])
            if snapshot is not None:
                serializers[role] = snapshot
        same = (earlier.backend_type, earlier.options) == (meta.backend_type, meta.options)
        if not same or not serializers.keys() == earlier.serializers.keys() == meta.serializers.keys():
            raise self._differs(f"state {meta.name!r}", context)
        return replace(earlier, serializers=serializers)

    def _differs(self, subject: str, context: str) -> UnsupportedFormatError:
        return UnsupportedFormatError(
            f"{context}: {subject} registered with another serializer than in other subtasks; "
            f"the bytes of {operator_label(self.operator)} can't be moved between them"
        )


def replaced_source(source: Snapshot) -> WriteError:
    """Return the error about a source savepoint that was replaced."""
    return WriteError(
        f"the source savepoint {source.directory} was replaced or removed since it was opened: its _metadata has another "
        "content. The new savepoint would mix both, so that it was not written. Open the writer again, and repeat the changes"
    )
