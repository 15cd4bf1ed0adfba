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
    """PyFlink has no coder for the type."""


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A type of one value, without parameters.

    The serializer has the rest: name (``str``), width, Arrow type, kernel instruction, snapshot class, hash code.

    Parameters
    ----------
    serializer
        The serializer. Its ``str`` is the name of the type in ``Types`` and in the text of types.
    java_class
        The Java type of values: ``java.time.Instant``, or ``long`` for a primitive type.
    python_coder
        The form in which PyFlink's workers write a value.
    inferred_from
        Arrow types of columns that become this type if none is declared.
    boxed_class
        The class of values that may be null, for a primitive type.
    since
        The first Flink that wrote the snapshot class.
    extracted
        True if Flink infers the serializer for fields of the class (``TypeExtractor``); it leaves other classes to Kryo.
    """

    serializer: SimpleSerializer
    java_class: str
    python_coder: PythonCoder
    inferred_from: tuple[pa.DataType, ...] = ()
    boxed_class: str | None = None
    since: str = "1.7"
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
