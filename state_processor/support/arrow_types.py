"""Nested types of Arrow: the types inside a type, and the same type with other types inside."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

ChangeType = Callable[[pa.DataType], pa.DataType]


def inner_types(type_: pa.DataType) -> list[pa.DataType]:
    """Return the types inside a type: of the fields of a struct, of the elements of a list, of the entries of a map."""
    return [type_.field(i).type for i in range(type_.num_fields)]


def holds(type_: pa.DataType, is_kind: Callable[[pa.DataType], bool]) -> bool:
    """Return whether a type is of a kind, or holds such a type at any depth."""
    return is_kind(type_) or any(holds(inner, is_kind) for inner in inner_types(type_))


def with_inner_types(type_: pa.DataType, change: ChangeType) -> pa.DataType:
    """Return a struct, list or map whose fields, elements, keys and values have other types. Other types stay."""
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(change(field.type)) for field in type_])
    if pa.types.is_map(type_):
        return pa.map_(change(type_.key_type), change(type_.item_type))
    if pa.types.is_list(type_):
        return pa.list_(change(type_.value_type))
    if pa.types.is_large_list(type_):
        return pa.large_list(change(type_.value_type))
    return type_
