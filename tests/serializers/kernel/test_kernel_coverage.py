"""Serializers whose values Python reads or writes one by one: each is listed, with the reason."""

from __future__ import annotations

import importlib
import inspect
import logging
import pkgutil
from collections.abc import Iterator
from decimal import Decimal

import pyarrow as pa
import pytest

from state_processor import plugins, serializers
from state_processor.serializers.codec import Codec
from state_processor.serializers.kernel.encode.encoder import encode_column
from state_processor.serializers.table.python_state import PythonDecimalSerializer
from tests.plugins import modules_of_plugins

_MIGRATION = "reads values that a migration converts in Python anyway"
_RECORDS = "a job rarely has many of them"
_HADOOP = "Hadoop's integers have a variable length"
READ_IN_PYTHON = {
    "BeamBytesSerializer": "has the framing of a coder of Beam",
    "AvroReference": "is recursive, and a program is not",
    "KryoSerializer": "Kryo's format refers back to objects",
    "JavaSerializer": "Java's object streams refer back to objects",
    "UserCodeSerializer": "only code of a class knows the format",
    "UndescribedClassesCodec": "finds the end of a value whose class nothing describes",
    **dict.fromkeys(("ConvertedCodec", "ObservedCodec"), _MIGRATION),
    **dict.fromkeys(("PendingCodec", "EvolvedAvroCodec"), _MIGRATION),
    "PythonDecimalSerializer": _RECORDS,
    **dict.fromkeys(("VariableIntegerSerializer", "HadoopTextSerializer", "MapWritableSerializer"), _HADOOP),
    **dict.fromkeys(("EmptySerializer", "FixedBytesSerializer"), _RECORDS),
    **{name: reason for module in modules_of_plugins("exceptions") for name, reason in module.READ_IN_PYTHON.items()},
}
WRITTEN_IN_PYTHON = {
    **READ_IN_PYTHON,
    "NothingSerializer": "has no values",
    "StreamElementSerializer": "is of elements in flight, which are only read",
    "DefaultCodec": "is of fields that a reader adds, which are only read",
    **{name: reason for module in modules_of_plugins("exceptions") for name, reason in module.WRITTEN_IN_PYTHON.items()},
}


def _serializers() -> Iterator[type[Codec]]:
    for package in (serializers, plugins):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    classes = [Codec]
    for each in classes:
        classes += each.__subclasses__()
        if each.__module__.startswith((serializers.__name__, plugins.__name__)) and not inspect.isabstract(each):
            yield each


def _lacking(method: str) -> set[str]:
    return {c.__name__ for c in _serializers() if getattr(c, method) is getattr(Codec, method)}


@pytest.mark.parametrize(("method", "listed"), [("emit_decode", READ_IN_PYTHON), ("emit_encode", WRITTEN_IN_PYTHON)])
def test_every_serializer_has_a_kernel_form_or_a_reason(method: str, listed: dict[str, str]) -> None:
    found = _lacking(method)
    assert not found - listed.keys(), f"write {method}, or list the reason in {__name__}"
    assert not listed.keys() - found, f"these have {method}"


def test_python_instead_of_the_kernel_is_logged_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("state_processor.serializers.kernel.outcomes._LOGGED", set())
    with caplog.at_level(logging.WARNING, "state_processor"):
        for _ in range(2):
            encode_column(PythonDecimalSerializer(3, 1), pa.array([Decimal("2.5")]))
    type_ = str(PythonDecimalSerializer(3, 1))
    assert caplog.messages == [f"values of type {type_} in column value are encoded one by one in Python, not by the kernel"]
