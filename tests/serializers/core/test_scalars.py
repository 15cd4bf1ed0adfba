"""Every scalar type has a method of ``Types``, a text, kernel instructions both ways, a hash of columns of keys, a Java type."""

from __future__ import annotations

from decimal import Decimal
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import pyarrow as pa
import pytest

from state_processor.serializers import DecodeOptions, core, read_serializer_snapshot
from state_processor.serializers.core.basic import PythonCoder, ScalarType
from state_processor.serializers.core.scalars import SCALARS, scalar_type_of
from state_processor.serializers.hash_codes import hash_codes
from state_processor.serializers.kernel.decode.program import DecodeBuilder
from state_processor.serializers.kernel.encode.program import EncodeBuilder
from state_processor.serializers.kryo.user_classes import java_type_of
from state_processor.serializers.table.python_state import python_coder
from state_processor.support.errors import UnsupportedFormatError
from state_processor.types.declared_types import parse_type, type_of_column
from state_processor.types.flink_types import Types
from tests.serializers.harness import check_codec, decode_with_kernel
from tests.serializers.scalar_samples import SAMPLES

HASHED_ONE_BY_ONE = {"CHAR": "is rare", "BIG_INT": "is of any size", "BIG_DEC": "is of any size"}
NOT_A_KEY = {"BYTES": "an array is equal to itself only in Java"}

each_type = pytest.mark.parametrize("scalar", SCALARS.values(), ids=lambda scalar: scalar.name)


def _column(scalar: ScalarType) -> pa.Array:
    serializer, options = scalar.serializer, DecodeOptions()
    shown = [serializer.to_column(serializer.from_column(value), options) for value in SAMPLES[scalar.name].values]
    return pa.array(shown, serializer.arrow_type(options))


@each_type
def test_types_and_text(scalar: ScalarType) -> None:
    method = getattr(Types, scalar.name, None)
    assert method is not None, f"Types has no method {scalar.name}"
    assert method() == scalar.serializer == parse_type(scalar.name)
    assert str(method()) == scalar.name
    assert scalar_type_of(method()) is scalar


@each_type
def test_snapshot_is_registered(scalar: ScalarType) -> None:
    snapshot = scalar.serializer.snapshot()
    assert read_serializer_snapshot(snapshot.to_bytes(), scalar.name).restore_serializer() == scalar.serializer


@each_type
def test_kernel_instructions(scalar: ScalarType) -> None:
    column = _column(scalar)
    reading = DecodeBuilder(pa.schema([("value", column.type)]), DecodeOptions())
    scalar.serializer.emit_decode(reading, reading.column("value"))
    writing = EncodeBuilder(pa.schema([("value", column.type)]))
    scalar.serializer.emit_encode(writing, writing.column("value"))
    program = writing.build()
    in_python = [column for column in program.prepared.values() if column.convert is None]
    assert not in_python, f"{scalar.name} is written in Python"
    assert len(reading.build().instructions) > 0
    assert len(program.instructions) > 0


@each_type
def test_round_trip_by_every_path(scalar: ScalarType) -> None:
    serializer, expected = scalar.serializer, _column(scalar).to_pylist()
    values = [serializer.from_column(v) for v in SAMPLES[scalar.name].values]
    check_codec(serializer, values)
    assert decode_with_kernel(serializer, [serializer.serialize(v) for v in values]) == expected


@each_type
def test_hash_of_a_column_of_keys(scalar: ScalarType, monkeypatch: pytest.MonkeyPatch) -> None:
    if scalar.name in NOT_A_KEY:
        return
    one_by_one: list[Any] = []
    monkeypatch.setattr("state_processor.serializers.hash_codes.log_fallback", lambda *about: one_by_one.append(about))
    serializer = scalar.serializer
    found = hash_codes(serializer, _column(scalar)).tolist()
    assert found == [serializer.hash_code(serializer.from_column(v)) for v in SAMPLES[scalar.name].values]
    assert bool(one_by_one) == (scalar.name in HASHED_ONE_BY_ONE), f"write hash_encoded for {scalar.name}, or list the reason"


@each_type
def test_java_type(scalar: ScalarType) -> None:
    assert java_type_of(scalar.serializer).name == scalar.java_class
    assert (scalar.boxed_class is None) == ("." in scalar.java_class or scalar.java_class.startswith("["))


@each_type
def test_python_coder(scalar: ScalarType) -> None:
    if scalar.python_coder is PythonCoder.NONE:
        with pytest.raises(UnsupportedFormatError):
            python_coder(scalar.serializer)
    else:
        assert (python_coder(scalar.serializer) == scalar.serializer) == (scalar.python_coder is PythonCoder.SAME)


@each_type
def test_columns_that_become_the_type(scalar: ScalarType) -> None:
    for given in scalar.inferred_from:
        assert type_of_column(given, "value") == scalar.serializer


def test_no_column_becomes_two_types() -> None:
    given = [type_ for scalar in SCALARS.values() for type_ in scalar.inferred_from]
    assert len(set(given)) == len(given)


def test_decimals_become_big_decimals() -> None:
    assert type_of_column(pa.decimal128(10, 2), "value") == SCALARS["BIG_DEC"].serializer
    assert SCALARS["BIG_DEC"].serializer.from_column(Decimal("1.50")) == Decimal("1.50")


def test_every_module_with_scalar_types_is_listed() -> None:
    modules = [import_module(f"{core.__name__}.{found.name}") for found in iter_modules(core.__path__)]
    declared = {s.name for m in modules for s in getattr(m, "SCALARS", ()) if isinstance(s, ScalarType)}
    assert declared == set(SCALARS), "list the module in serializers/core/scalars.py"
    assert set(SAMPLES) == set(SCALARS)
