"""Tests of the state of Flink jobs: :func:`assert_state`, and what the plugin of pytest uses.

The plugin has the fixtures ``savepoint``, which builds a savepoint from dictionaries, and ``state_schema``, which compares the
states of a savepoint with a file of the project.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any, Final, TypeAlias, Unpack

import pyarrow as pa

from state_processor import ListState, MapState, OperatorIdentifier, Types, ValueState
from state_processor.applications.jobs.check import compare
from state_processor.applications.jobs.contents import TYPES_ALONE
from state_processor.applications.jobs.opening import signature_of
from state_processor.applications.jobs.rules import RestoringJob
from state_processor.applications.jobs.signature import JobSignature, parse_signature, states_in
from state_processor.applications.jobs.verdicts import JobReport, Outcome
from state_processor.arrow import SavepointWriter
from state_processor.errors import OptionError
from state_processor.options import SnapshotAccess, SnapshotOptions, check_values, takes_options
from state_processor.serializers import DecodeOptions, TypeSerializer
from state_processor.states import PythonTypeArgument, StateRequest, parse_json, takes_keys

__all__ = ["assert_state"]

# States of a savepoint, and a file of the project

_BAD: Final = (Outcome.REFUSED, Outcome.LOST, Outcome.CHANGED)


class StateSchemaError(AssertionError):
    """Flink would refuse to restore the states of a file into the job that wrote a savepoint, or lose or change values."""


def check_schema(path: str | PathLike[str], file: Path, options: Mapping[str, Any]) -> list[str]:
    """Compare a savepoint with the states of a file.

    ``file``: the signature of the job that the savepoint has to fit. ``options``: options of opening the savepoint.

    Returns: changes that Flink accepts.
    """
    written = parse_signature(parse_json(file.read_text("utf-8")), str(file))
    now = _signature(path, options)
    report = compare(written, now, RestoringJob(), str(file), TYPES_ALONE)
    states = states_in((*written.operators, *now.operators))
    unread = {(operator.uid_hash, state.name) for operator, state in states if state.unread}
    refused = list(_refused(report, unread))
    if refused:
        raise StateSchemaError(
            "\n".join(
                [
                    f"Flink would refuse to restore the states of {file.name}, or lose or change values:",
                    *refused,
                    "--update-state-schema accepts this",
                ]
            )
        )
    return list(_accepted(report, written, now))


def write_schema(path: str | PathLike[str], file: Path, options: Mapping[str, Any]) -> None:
    """Write the signature of a savepoint into a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{_signature(path, options)}\n", "utf-8")


def _signature(path: str | PathLike[str], options: Mapping[str, Any]) -> JobSignature:
    return signature_of(path, SnapshotAccess.among(options))


def _refused(report: JobReport, unread: set[tuple[str | None, str]]) -> Iterator[str]:
    for operator in report.operators:
        if operator.outcome in _BAD and operator.reason:
            yield f"  operator {operator.operator!r}: {operator.reason}"
        for state in operator.states:
            if state.outcome in _BAD or (operator.uid_hash, state.state) in unread:
                yield f"  state {state.state!r} of operator {operator.operator!r}: {state.reason}"


def _contents(job: JobSignature) -> dict[tuple[str | None, str], Any]:
    """Return the contents of the states of a job, by the hash of the uid and the name."""
    return {(operator.uid_hash, state.name): state.content for operator, state in states_in(job.operators)}


def _accepted(report: JobReport, written: JobSignature, now: JobSignature) -> Iterator[str]:
    before, after = _contents(written), _contents(now)
    for operator in report.operators:
        for state in operator.states:
            place = operator.uid_hash, state.state
            if place not in after:
                yield f"state {state.state!r} of operator {operator.operator!r} is missing"
            elif state.outcome is Outcome.NEW:
                yield f"state {state.state!r} of operator {operator.operator!r} is new"
            elif before[place] != after[place] and state.outcome is Outcome.UNKNOWN:
                yield f"state {state.state!r} of operator {operator.operator!r} has changed, and can't be checked: {state.reason}"
            elif before[place] != after[place]:
                yield f"state {state.state!r} of operator {operator.operator!r} has changed compatibly"
        if operator.outcome is Outcome.NEW:
            yield f"operator {operator.operator!r} is new"


# Contents of a state as Python values, and their comparison with the expected ones

Contents: TypeAlias = dict[Any, Any] | list[Any]

_SHOWN: Final = 20
_MISSING: Final = object()


@takes_options
def assert_state(
    path: str | PathLike[str],
    uid: str | OperatorIdentifier,
    state: str,
    expected: Mapping[Any, Any] | Iterable[Any],
    *,
    python_type: PythonTypeArgument | None = None,
    **options: Unpack[SnapshotOptions],
) -> None:
    """Assert the contents of a state.

    ``path``: directory of the savepoint or checkpoint, or its ``_metadata``. ``expected``: of keyed and broadcast state, the
    value for each key: of list state a list, of map state a dictionary. Keys that are structs, such as tuples and POJOs, are
    tuples of their fields. Of window state, the value for each ``(key, window)``; a window is the tuple of its start and end. Of
    list and union state, the elements in any order. ``python_type``: type that a PyFlink job declares for the state, such as
    ``Types.LONG()`` or ``ListState(Types.LONG())``. Without it, values of PyFlink are bytes. ``**options``: see
    :class:`~state_processor.options.groups.SnapshotOptions`.
    """
    __tracebackhide__ = True
    contents = contents_of(path, uid, state, options if python_type is None else {**options, "python_type": python_type})
    _check_expected(contents, expected, state)
    lines = list(_differences(contents, expected))
    if lines:
        rest = [f"  … {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
        noun = "keys" if isinstance(contents, dict) else "elements"
        head = f"state {state!r} of operator {str(uid)!r} has {len(lines)} {noun} that differ:"
        raise AssertionError("\n".join([head, *lines[:_SHOWN], *rest]))


def contents_of(path: str | PathLike[str], uid: str | OperatorIdentifier, state: str, options: Mapping[str, Any]) -> Contents:
    """Return the values of a state by key, or its elements."""
    request = StateRequest(OperatorIdentifier.of(uid), state, options={"nanos": "string", **options})
    scan = request.open_path(path)
    if takes_keys(scan.reader):
        scan = replace(request, options={"flatten": False, **request.options}).open(scan.stored)
    table = pa.Table.from_batches(scan.read(), scan.schema)
    columns = list(map(_plain_values, table.columns))
    if len(columns) == 1:
        return columns[0]
    *places, values = columns
    keys = (
        map(_hashable, places[0]) if len(places) == 1 else (tuple(map(_hashable, place)) for place in zip(*places, strict=True))
    )
    return dict(zip(keys, values, strict=True))


def _plain_values(column: pa.ChunkedArray) -> list[Any]:
    return [_plain(value, column.type) for value in column.to_pylist()]


def _plain(value: Any, type_: pa.DataType) -> Any:
    """Return a value with dictionaries for maps, which Arrow has as pairs."""
    if value is None:
        return None
    if pa.types.is_map(type_):
        return {_hashable(_plain(k, type_.key_type)): _plain(v, type_.item_type) for k, v in value}
    if pa.types.is_list(type_):
        return [_plain(element, type_.value_type) for element in value]
    if pa.types.is_struct(type_):
        return {field.name: _plain(value[field.name], field.type) for field in type_}
    return value


def _hashable(value: Any) -> Any:
    """Return a value as a key of dictionaries: a struct is the tuple of its fields."""
    if isinstance(value, Mapping):
        return tuple(map(_hashable, value.values()))
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def _expected_form(contents: Contents) -> str:
    return "a dictionary of values by key" if isinstance(contents, dict) else "a list of elements"


def _check_expected(contents: Contents, expected: Any, state: str) -> None:
    """Refuse expected contents that are neither a dictionary nor elements."""
    if not isinstance(expected, Iterable) or isinstance(expected, str | bytes):
        kind = type(expected).__name__
        raise OptionError(
            f"expected: state {state!r} is compared with {_expected_form(contents)}, found an object of type {kind}"
        )


def _differences(contents: Contents, expected: Any) -> Iterator[str]:
    if isinstance(contents, dict) != isinstance(expected, Mapping):
        yield f"  expected contents are {type(expected).__name__}; this state is compared with {_expected_form(contents)}"
    elif isinstance(contents, dict):
        for key in sorted({*contents, *expected}, key=repr):
            is_, should = contents.get(key, _MISSING), expected.get(key, _MISSING)
            if is_ is _MISSING:
                yield f"  {key!r}: expected {should!r}, the key is missing"
            elif should is _MISSING:
                yield f"  {key!r}: expected no value, found {is_!r}"
            elif is_ != should:
                yield f"  {key!r}: expected {should!r}, found {is_!r}"
    else:
        is_, should = (Counter(map(repr, elements)) for elements in (contents, expected))
        for element in (should - is_).elements():
            yield f"  expected {element}, which is missing"
        for element in (is_ - should).elements():
            yield f"  found {element}, which is not expected"


# Savepoints from dictionaries

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
        for uid in argument_by_uid:
            if uid not in operators:
                raise OptionError(
                    f"{argument}: expected operators of this savepoint, found {uid!r}; it has {', '.join(operators)}"
                )
    writer = SavepointWriter.new(max_parallelism, flink_version)
    for uid, states in operators.items():
        declared = types.get(uid, {})
        for name in declared:
            if name not in states:
                raise OptionError(f"types: operator {uid!r} does not have the state {name!r}; its states are {', '.join(states)}")
        keyed = {name: values for name, values in states.items() if isinstance(values, Mapping)}
        if keyed:
            specs = {name: _spec(f"{uid}.{name}", values, declared.get(name)) for name, values in keyed.items()}
            keys = list(dict.fromkeys(chain.from_iterable(keyed.values())))
            key_type = key_types.get(uid) or _inferred(f"keys of {uid}", keys)
            columns = {_KEY: _array(keys, key_type.arrow_type(DecodeOptions()))}
            columns |= {name: _array(list(map(keyed[name].get, keys)), _arrow_type(spec)) for name, spec in specs.items()}
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
        inner = chain.from_iterable(value.values() for value in elements)
        return MapState(_inferred(place, chain.from_iterable(elements)), _inferred(place, inner))
    if elements and all(isinstance(value, list) for value in elements):
        return ListState(_inferred(place, chain.from_iterable(elements)))
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
    converted = [_arrow_form(value, type_) for value in values]
    check_values(type_, converted, "values")
    return pa.array(converted, type_)


def _arrow_form(value: Any, type_: pa.DataType) -> Any:
    """Return a value in the form that Arrow accepts: maps as pairs, structs by the names of their fields."""
    if value is None:
        return None
    if pa.types.is_map(type_):
        pairs = value.items() if isinstance(value, Mapping) else value
        return [(_arrow_form(k, type_.key_type), _arrow_form(v, type_.item_type)) for k, v in pairs]
    if pa.types.is_list(type_):
        return [_arrow_form(element, type_.value_type) for element in value]
    if pa.types.is_struct(type_):
        named = value if isinstance(value, Mapping) else dict(zip(type_.names, value, strict=True))
        unknown = [name for name in named if name not in type_.names]
        if unknown:
            raise OptionError(f"value {value!r}: the type does not have the field {', '.join(map(repr, unknown))}")
        lacking = [f.name for f in type_ if f.name not in named]
        if lacking:
            raise OptionError(f"value {value!r} does not have the field {lacking[0]!r}; write None for a null")
        return {field.name: _arrow_form(named[field.name], field.type) for field in type_}
    return value
