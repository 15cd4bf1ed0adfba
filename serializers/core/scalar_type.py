"""The description of a scalar type: a serializer without parameters and its names elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

import pyarrow as pa

from state_processor.serializers.base import SimpleSerializer, register_simple
from state_processor.serializers.snapshot_versions import declare_simple


class PythonCoder(Enum):
    """Form in which PyFlink's workers write a value (PyFlink: ``pyflink.fn_execution.coders``)."""

    SAME = auto()
    """The bytes of the serializer itself."""
    TEXT = auto()
    LONG = auto()
    DECIMAL_TEXT = auto()
    DATE = auto()
    TIME = auto()
    TIMESTAMP = auto()
    NONE = auto()
    """PyFlink lacks a coder for the type."""


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A type of one value, without parameters.

    The serializer has the rest: name (``str``), width, Arrow type, kernel instruction, snapshot class, hash code.
    """

    serializer: SimpleSerializer  # the serializer. Its ``str`` is the name of the type in ``Types`` and in the text of types.
    java_class: str  # the Java type of values: ``java.time.Instant``, or ``long`` for a primitive type
    python_coder: PythonCoder  # the form in which PyFlink's workers write a value
    inferred_from: tuple[pa.DataType, ...] = ()  # Arrow types of columns that become this type if none is declared
    boxed_class: str | None = None  # the class of values that may be null, for a primitive type
    since: str = "1.7"  # the first Flink that wrote the snapshot class
    # true if Flink infers the serializer for fields of the class (``TypeExtractor``); it leaves other classes to Kryo
    extracted: bool = True

    @property
    def name(self) -> str:
        """The type's name."""
        return str(self.serializer)


def register_scalars(scalars: Iterable[ScalarType]) -> None:
    """Register the snapshot classes of scalar types, and the versions that Flink writes."""
    for scalar in scalars:
        declare_simple(scalar.serializer.snapshot_class, scalar.since)
        register_simple(scalar.serializer)
