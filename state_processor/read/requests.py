"""From arguments of a read to its options and the schema to deliver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.read.column_comments import with_comments_of
from state_processor.options.keywords import check_arguments
from state_processor.read.kryo_inference import inferred_kryo_types
from state_processor.read.projection import overridden
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.errors import OptionError
from state_processor.serializers.evolution.portable_type import PortableType
from state_processor.types.identifier import OperatorIdentifier

ArrowSchema: TypeAlias = pa.Schema | TypeSerializer | Mapping[str, pa.DataType | TypeSerializer]


def state_values(
    snapshot: Snapshot,
    operator: OperatorIdentifier,
    state: str | None,
    kind: str | None,
    evolving: Mapping[str, PortableType],
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the normal forms of the options that read a state, by keyword argument.

    Parameters
    ----------
    snapshot
        The snapshot, for types that are inferred from values.
    operator, state, kind
        The state.
    evolving
        Types of columns, see :func:`evolving_types`.
    options
        Keyword arguments.

    Raises
    ------
    OptionError
        If an argument has a value of another kind.
    """
    values = check_arguments({**options, "kind": kind})
    inferred = inferred_kryo_types(snapshot, operator, state) if values.get("infer_kryo", False) else {}
    types = {**evolving, **inferred, **dict(values.get("types", ()))}
    is_by_uid = operator.uid is not None and OperatorIdentifier.of(operator.uid) == operator  # a uid may look like a hash
    named = {"uid": operator.uid} if is_by_uid else {"uid_hash": operator.uid_hash}
    return values | named | ({"state": state} if state is not None else {}) | ({"types": tuple(types.items())} if types else {})


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
