"""Pickles in the state of PyFlink jobs, as JSON text or as values of a type.

.. warning:: Loading a pickle runs its code. Functions of this module are called only if a caller requests it in Python code.
"""

from __future__ import annotations

import json
import pickle
from typing import Any

import pyarrow as pa

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.arrays import BytesSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.errors import StateProcessorError, UndecodableValueError
from state_processor.serializers.io import DataInput
from state_processor.serializers.traversal import transform


def load_pickle(content: bytes) -> Any:
    """Return the object of a pickle.

    Raises
    ------
    UndecodableValueError
        If it is not a pickle, or needs modules that are not installed.
    """
    try:
        return pickle.loads(content)
    except Exception as error:
        raise UndecodableValueError(f"the pickle of {len(content)} bytes can't be loaded: {error!r}") from error


def json_of(value: Any) -> str:
    """Return the JSON of an object.

    Raises
    ------
    UndecodableValueError
        If JSON can't express a part: keys that are not text, numbers that are not finite, other objects.
    """
    try:
        _check_keys(value)
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UndecodableValueError(
            f"a pickled {type(value).__name__} does not fit JSON ({error}): name its type, unpickle=Types.…, or read the bytes "
            "and load them with sp.pyflink.load_pickle"
        ) from None


def _check_keys(value: Any) -> None:
    """Refuse keys that ``json.dumps`` would convert to text."""
    if isinstance(value, dict):
        other = next((key for key in value if not isinstance(key, str)), None)
        if other is not None:
            raise TypeError(f"the key {other!r} is not text")
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ():
        _check_keys(inner)


class PickleSerializer(BytesSerializer):
    """A pickle that is loaded, as JSON text or as a value of a type.

    Parameters
    ----------
    shown
        The type; ``None`` for JSON text.
    """

    def __init__(self, shown: TypeSerializer | None) -> None:
        super().__init__()
        self.shown = shown

    def __str__(self) -> str:
        return f"PICKLE<{self.shown or 'JSON'}>"

    def read(self, source: DataInput) -> Any:
        value = load_pickle(super().read(source))
        if self.shown is None:
            return json_of(value)
        try:
            accepted = None if value is None else self.shown.from_column(value)
            shown = (
                None if value is None else self.shown.to_column(self.shown.deserialize(self.shown.serialize(accepted)), _PLAIN)
            )
            pa.array([shown], self.shown.arrow_type(_PLAIN))
        except StateProcessorError:
            raise
        except Exception as error:
            raise UndecodableValueError(f"a pickled {type(value).__name__} is no {self.shown}: {error!r}") from None
        return accepted

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.string() if self.shown is None else self.shown.arrow_type(options)

    def to_column(self, value: Any, options: DecodeOptions) -> Any:
        return value if value is None or self.shown is None else self.shown.to_column(value, options)

    def emit_decode(self, builder: Any, column: Any) -> None:
        TypeSerializer.emit_decode(self, builder, column)

    def emit_encode(self, builder: Any, column: Any) -> None:
        raise UndecodableValueError("pickles are written as bytes: leave unpickle out")


_PLAIN = DecodeOptions()


def loading_pickles(coder: TypeSerializer, shown: TypeSerializer | None) -> TypeSerializer:
    """Return a coder whose byte arrays are loaded as pickles, and shown as values of a type or as JSON text."""
    return transform(coder, lambda part: PickleSerializer(shown) if type(part) is BytesSerializer else part)
