"""Targets of a write: the state of one operator that tasks write, as it travels to them.

Serializers do not travel to tasks: a task restores them from the header of the files to write, like readers of the files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self, cast

from state_processor.backends.state import state_headers
from state_processor.backends.state.column_types import DeclaredNames, undescribed_as_bytes, with_names
from state_processor.backends.state.descriptions import (
    KeyedDescription,
    OperatorDescription,
    describe_keyed,
    describe_operator_state,
)
from state_processor.backends.state.hash_inference import HashRule, LearnedHash, UserHash
from state_processor.backends.state.python_states import PythonType, with_python_type
from state_processor.backends.write.entry_encoder import KeyHash
from state_processor.options.user_serializers import TaskSerializers
from state_processor.serializers.core.calendars import java_zone
from state_processor.serializers.core.pojo import PojoSerializer
from state_processor.serializers.core.sql_times import in_time_zone
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java.types import JavaType
from state_processor.serializers.kryo.nested_kryo import declare
from state_processor.support.locks import cached_property

if TYPE_CHECKING:
    from state_processor.write.plan.outcome import OperatorOutcome


@dataclass(frozen=True)
class StateTarget:
    """State of one operator of the new savepoint.

    ``operator_id`` and ``label``: of the operator; the label is for messages.
    """

    operator_id: str
    label: str
    header: bytes  # the header of its files, as bytes
    flink_major: int  # the major version of Flink of the header's serializers, which decides the version of Kryo
    parallelism: int
    max_parallelism: int
    serializers: TaskSerializers = field(default_factory=TaskSerializers)  # serializers that users register
    time_zone: str = "UTC"  # the zone of the JVM of the job
    # by state, the types of the parts that Kryo writes: headers do not contain their type arguments
    java_types: Mapping[str, tuple[JavaType, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, outcome: OperatorOutcome, header: state_headers.KeyedHeader | state_headers.OperatorHeader, **fields: Any
    ) -> Self:
        """Return the target for the outcome of an operator, with the fields that only this class has."""
        sizes = (outcome.parallelism, outcome.max_parallelism)
        settings = (outcome.settings.serializers, outcome.settings.time_zone)
        return cls(
            outcome.identifier.uid_hash, outcome.label, header_bytes(header), outcome.flink_major, *sizes, *settings, **fields
        )

    def _open(self) -> DataInput:
        """Open the header, for serializers of users, too."""
        self.serializers.enter()
        return DataInput(self.header, f"{self.label}, header", flink_major=self.flink_major)


@dataclass(frozen=True)
class KeyedTarget(StateTarget):
    """Keyed state of one operator."""

    # ``hashCode`` of keys, where the serializer does not know it: a function of a column, or inferred rules
    hashing: UserHash | tuple[HashRule, ...] | None = None
    # the states of the source savepoint that rows change: parts that Kryo writes are compared with the stored ones
    updated: frozenset[str] = frozenset()
    with_bytes: frozenset[str] = frozenset()  # the updated states whose rows have bytes for values of undescribed classes
    raw_timers: bool = False  # whether timers are written to raw keyed state
    python: Mapping[str, PythonType] = field(default_factory=dict)  # by state of a PyFlink job, the kind and type of its rows

    def open_header(self) -> state_headers.KeyedHeader:
        """Read the header with its serializers."""
        return state_headers.KeyedHeader.read(self._open())

    def open_managed_header(self) -> state_headers.KeyedHeader:
        """Read the header without timers in raw keyed state. These timers are behind all other states."""
        header = self.open_header()
        managed = tuple(s for s in header.states if not (self.raw_timers and s.backend_type == state_headers.PRIORITY_QUEUE))
        return replace(header, states=managed)

    @cached_property
    def states(self) -> tuple[KeyedDescription, ...]:
        """The states by their ids."""
        header, states = self.open_header(), []
        for meta in header.states:
            state = declare(self.java_types.get(meta.name, ()), describe_keyed(header, meta))
            if state.name in self.with_bytes:
                state = undescribed_as_bytes(state)
            state = in_time_zone(state, java_zone(self.time_zone))
            states.append(with_python_type(state, self.python[state.name]) if state.name in self.python else state)
        return tuple(states)

    @property
    def key_hash(self) -> KeyHash | None:
        """Function from a column of keys to their ``hashCode``; ``None`` if the serializer has it."""
        if not isinstance(self.hashing, tuple):
            return self.hashing
        key = in_time_zone(self.open_header().key.restore_serializer(), java_zone(self.time_zone))
        return LearnedHash(cast(PojoSerializer, key), self.hashing, self.max_parallelism)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "states"}


@dataclass(frozen=True)
class OperatorTarget(StateTarget):
    """Operator state of one operator.

    ``names`` has the names of the fields of rows by state: headers do not contain them.
    """

    names: Mapping[str, DeclaredNames] = field(default_factory=dict)

    def metas(self) -> tuple[state_headers.StateMetaInfo, ...]:
        """Read the states from the header, in the order of their ids."""
        header = state_headers.OperatorHeader.read(self._open())
        return (*header.lists, *header.broadcasts)

    def state(self, state_id: int) -> OperatorDescription:
        """Return a state by its id."""
        state = describe_operator_state(self.metas()[state_id])
        state = declare(self.java_types.get(state.name, ()), state)
        state = in_time_zone(state, java_zone(self.time_zone))
        return with_names(state, self.names.get(state.name, {}))


def header_bytes(header: state_headers.KeyedHeader | state_headers.OperatorHeader) -> bytes:
    """Return the bytes of a header."""
    target = DataOutput()
    header.write(target)
    return target.to_bytes()
