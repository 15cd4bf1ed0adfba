"""Savepoints from dictionaries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from state_processor import ListState, MapState, Types, ValueState
from state_processor.arrow import SavepointWriter
from state_processor.errors import OptionError
from state_processor.options import check_values
from state_processor.serializers import DecodeOptions, TypeSerializer

Spec = Any
"""A state of :mod:`state_processor.types.state_specs`, or the type of its values."""

_KEY: Final = "key"
_SCALARS: Final[tuple[tuple[type, Any], ...]] = (
    (bool, Types.BOOLEAN),
    (int, Types.LONG),
    (float, Types.DOUBLE),
    (str, Types.STRING),
    (bytes, Types.BYTES),
)
"""Types of Python values, and the types of states that are not declared."""


def write_savepoint(
    path: str,
    operators: Mapping[str, Mapping[str, Any]],
    types: Mapping[str, Mapping[str, Spec]],
    key_types: Mapping[str, TypeSerializer],
    max_parallelism: int,
    flink_version: str,
) -> None:
    """Write a savepoint; see the fixture ``savepoint``."""
    for argument_by_uid, argument in ((types, "types"), (key_types, "key_types")):
        for uid in argument_by_uid.keys() - operators.keys():
            raise OptionError(f"{argument}: expected operators of this savepoint, found {uid!r}; it has {', '.join(operators)}")
    writer = SavepointWriter.new(max_parallelism, flink_version)
    for uid, states in operators.items():
        declared = types.get(uid, {})
        for name in declared.keys() - states.keys():
            raise OptionError(f"types: operator {uid!r} does not have the state {name!r}; its states are {', '.join(states)}")
        keyed = {name: values for name, values in states.items() if isinstance(values, Mapping)}
        if keyed:
            specs = {name: _spec(f"{uid}.{name}", values, declared.get(name)) for name, values in keyed.items()}
            keys = list(dict.fromkeys(key for values in keyed.values() for key in values))
            key_type = key_types.get(uid) or _inferred(f"keys of {uid}", keys)
            columns = {_KEY: _array(keys, key_type.arrow_type(DecodeOptions()))}
            columns |= {name: _array([keyed[name].get(key) for key in keys], _arrow_type(spec)) for name, spec in specs.items()}
            writer.with_keyed_state(uid, pa.table(columns), key_type=key_type, states=specs)
        for name, elements in states.items():
            if name not in keyed:
                type_ = declared.get(name) or _inferred(f"{uid}.{name}", list(elements))
                rows = pa.table({"value": _array(list(elements), type_.arrow_type(DecodeOptions()))})
                writer.with_list_state(uid, name, rows, type_)
    writer.write(path)


def _spec(place: str, values: Mapping[Any, Any], declared: Spec | None) -> Spec:
    if declared is not None:
        return ValueState(declared) if isinstance(declared, TypeSerializer) else declared
    elements = list(values.values())
    if elements and all(isinstance(value, Mapping) for value in elements):
        keys, inner = ([x for value in elements for x in part(value)] for part in (dict.keys, dict.values))
        return MapState(_inferred(place, keys), _inferred(place, inner))
    if elements and all(isinstance(value, list) for value in elements):
        return ListState(_inferred(place, [element for value in elements for element in value]))
    return ValueState(_inferred(place, elements))


def _inferred(place: str, values: Iterable[Any]) -> TypeSerializer:
    kinds = {type(value) for value in values if value is not None}
    for kind, type_ in _SCALARS:
        if kinds == {kind}:
            serializer: TypeSerializer = type_()
            return serializer
    names = ", ".join(sorted(kind.__name__ for kind in kinds)) or "no values"
    expected = ", ".join(kind.__name__ for kind, _ in _SCALARS)
    raise OptionError(
        f"{place}: expected values of one of the types {expected}, found {names}; declare the type in types or key_types"
    )


def _arrow_type(spec: Spec) -> pa.DataType:
    options = DecodeOptions()
    if isinstance(spec, MapState):
        return pa.map_(spec.key.arrow_type(options), spec.value.arrow_type(options))
    value = spec.type.arrow_type(options)
    return pa.list_(value) if isinstance(spec, ListState) else value


def _array(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    converted = [_given(value, type_) for value in values]
    check_values(type_, converted, "values")
    return pa.array(converted, type_)


def _given(value: Any, type_: pa.DataType) -> Any:
    """Return a value in the form that Arrow accepts: maps as pairs, structs by the names of their fields."""
    if value is None:
        return None
    if pa.types.is_map(type_):
        pairs = value.items() if isinstance(value, Mapping) else value
        return [(_given(k, type_.key_type), _given(v, type_.item_type)) for k, v in pairs]
    if pa.types.is_list(type_):
        return [_given(element, type_.value_type) for element in value]
    if pa.types.is_struct(type_):
        named = value if isinstance(value, Mapping) else dict(zip((f.name for f in type_), value, strict=True))
        unknown = named.keys() - {f.name for f in type_}
        if unknown:
            raise OptionError(f"value {value!r}: the type does not have the field {', '.join(map(repr, unknown))}")
        lacking = [f.name for f in type_ if f.name not in named]
        if lacking:
            raise OptionError(f"value {value!r} does not have the field {lacking[0]!r}; write None for a null")
        return {field.name: _given(named[field.name], field.type) for field in type_}
    return value
