"""From the arguments of a read to an open state and the schema to deliver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.read.column_comments import with_comments_of
from state_processor.backends.read.stored_operator import StoredOperator
from state_processor.options.keywords import check_arguments
from state_processor.options.source import SourceOptions
from state_processor.read.projection import overridden
from state_processor.read.sources import find_reader
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.errors import OptionError
from state_processor.serializers.evolution.portable_type import PortableType
from state_processor.serializers.records import dataclass
from state_processor.types.identifier import OperatorIdentifier

if TYPE_CHECKING:
    from state_processor.backends.read.state_access import SelectableStateReader
    from state_processor.serializers.java.types import JavaType

ArrowSchema: TypeAlias = pa.Schema | TypeSerializer | Mapping[str, pa.DataType | TypeSerializer]


@dataclass(frozen=True, slots=True)
class OpenState:
    """A state that is open, with the checked arguments of its read.

    Parameters
    ----------
    values
        The normal forms of the options, by keyword argument.
    source
        The options of the read.
    stored
        The operator that has the state.
    reader
        Reads all columns of all keys.
    schema
        The argument ``schema`` without types of Flink, which are in the options.
    """

    values: dict[str, Any]
    source: SourceOptions
    stored: StoredOperator
    reader: SelectableStateReader
    schema: Any


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
        """Find the operator in a snapshot.

        Raises
        ------
        NotFoundError
            If it does not exist.
        """
        return StoredOperator.find(snapshot, self._uid, self.operator.uid_hash)

    def open(self, stored: StoredOperator) -> OpenState:
        """Check the arguments, and open the state of an operator that :meth:`find` returns.

        Raises
        ------
        OptionError
            If an argument has a value of another kind, or does not act on the state.
        NotFoundError
            If the operator does not have the state.
        """
        values = check_arguments({**self.options, "kind": self.kind})
        evolving, schema = evolving_types(self.schema)
        types = {**evolving, **self._inferred(stored, values), **dict(values.get("types", ()))}
        named = {"uid_hash": self.operator.uid_hash} if self._uid is None else {"uid": self._uid}
        values |= named | ({} if self.state is None else {"state": self.state})
        values |= {"types": tuple(types.items())} if types else {}
        source = SourceOptions.of(stored.snapshot.directory, values)
        return OpenState(values, source, stored, find_reader(source, stored), schema)

    def _inferred(self, stored: StoredOperator, values: Mapping[str, Any]) -> Mapping[str, JavaType]:
        """Return the Java types that the values of the state have, by path, if the options ask for them."""
        if not values.get("infer_kryo", False):
            return {}
        from state_processor.backends.read.java_type_inference import inferred_java_types  # most reads infer nothing

        return inferred_java_types(stored, self.state)


def evolving_types(schema: Any) -> tuple[dict[str, PortableType], Any]:
    """Return the columns that a schema has in types of Flink, and the schema without them."""
    if isinstance(schema, TypeSerializer):
        return {"value": PortableType.of(schema)}, None
    if not isinstance(schema, Mapping):
        return {}, schema
    types = {name: PortableType.of(t) for name, t in schema.items() if isinstance(t, TypeSerializer)}
    return types, {name: t for name, t in schema.items() if name not in types}


def arrow_schema(schema: pa.Schema | Mapping[str, pa.DataType], given: pa.Schema) -> pa.Schema:
    """Return the schema to deliver.

    Parameters
    ----------
    schema
        The user's argument.
    given
        The schema of the state.

    Raises
    ------
    OptionError
        If the argument is neither a schema nor a mapping of names to types, or names an unknown column.
    """
    if isinstance(schema, pa.Schema):
        return with_comments_of(schema, given)
    if not isinstance(schema, Mapping):
        raise OptionError(f"schema={schema!r}: expected a pyarrow.Schema, or a mapping of column names to types")
    for name, data_type in schema.items():
        if not isinstance(data_type, pa.DataType):
            raise OptionError(f"schema: the type of {name!r} is {data_type!r}; expected a type of Types or of pyarrow")
    return overridden(given, dict(schema))
