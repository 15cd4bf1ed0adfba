"""Keys that a user looks up: their serialized form, and the key groups that they are in."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.backends.metadata import handles as h
from state_processor.backends.state.descriptions import KeyedDescription
from state_processor.backends.state.key_groups import key_group
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.errors import OptionError, StateProcessorError, UnsupportedFormatError
from state_processor.serializers.kernel.encode.encoder import encode_column
from state_processor.serializers.keys.hash_codes import hash_codes

_PLAIN_KEYS: Final[dict[str, type]] = {
    "STRING": str,
    **dict.fromkeys(("BYTE", "SHORT", "INT", "LONG"), Integral),
    **dict.fromkeys(("FLOAT", "DOUBLE"), Real),
    "BOOLEAN": bool,
}
"""Python types of keys of plain types; serializers alone accept more, such as any value for a boolean."""

_COLUMN_KEYS: Final[dict[str, type]] = {"STRING": str, **dict.fromkeys(("BYTE", "SHORT", "INT", "LONG"), int)}
"""Types whose keys are serialized and hashed as a column, if there are :data:`_MANY`."""
_MANY: Final = 256

_T = TypeVar("_T")


def serialized_keys(state: KeyedDescription, keys: Sequence[Any]) -> tuple[bytes, ...]:
    """Return keys as the state's key serializer writes them.

    Raises
    ------
    OptionError
        If one is not of the state's key type.
    """
    column = _as_column(state.key, keys)
    if column is not None:
        return tuple(encode_column(state.key, column))
    return tuple(_of_key(state, k, lambda key, accepted: key.serialize(accepted)) for k in keys)


class WantedKeys:
    """Keys that a user looks up, with the key groups that they are in.

    Parameters
    ----------
    state
        A state of the operator: what its keys are.
    keys
        The keys, as Python values.
    max_parallelism
        The number of key groups.

    Raises
    ------
    OptionError
        If a key is not of the state's key type.
    """

    def __init__(self, state: KeyedDescription, keys: Sequence[Any], max_parallelism: int) -> None:
        self._keys = keys
        self._groups: npt.NDArray[np.int64] | None = None
        column = _as_column(state.key, keys)
        try:
            if column is not None:
                hashes: Any = hash_codes(state.key, column)
            else:
                hashes = [_of_key(state, k, lambda key, accepted: key.hash_code(accepted)) for k in keys]
        except UnsupportedFormatError:  # hashCode is code of the job
            return
        self._groups = np.asarray(key_group(np.array(hashes, dtype=np.int64), max_parallelism), dtype=np.int64)

    @property
    def key_groups(self) -> list[int] | None:
        """The key groups, in order; ``None`` if the keys may be in any."""
        return None if self._groups is None else np.unique(self._groups).tolist()

    def within(self, key_groups: h.KeyGroupRange) -> tuple[Any, ...]:
        """Return the keys that may be in these key groups."""
        if self._groups is None:
            return tuple(self._keys)
        inside = (self._groups >= key_groups.start) & (self._groups <= key_groups.end_inclusive)
        return tuple(self._keys[i] for i in np.flatnonzero(inside).tolist())


def _as_column(key: TypeSerializer, keys: Sequence[Any]) -> pa.Array | None:
    """Return many keys of a plain type as a column; ``None`` for few, for other types, and if one does not fit."""
    accepted = _COLUMN_KEYS.get(str(key))
    if len(keys) < _MANY or accepted is None or any(type(k) is not accepted for k in keys):
        return None
    try:
        return pa.array(keys, key.arrow_type(DecodeOptions()))
    except (pa.ArrowException, ValueError, OverflowError):
        return None


def _of_key(state: KeyedDescription, key: Any, use: Callable[[TypeSerializer, Any], _T]) -> _T:
    where = f"keys: state {state.name!r} has keys of type {state.key}, found {key!r} of type {type(key).__name__}"
    accepted = _PLAIN_KEYS.get(str(state.key), object)
    if key is None or not isinstance(key, accepted) or (isinstance(key, (bool, np.bool_)) and accepted in (Integral, Real)):
        raise OptionError(where)
    try:
        return use(state.key, state.key.accept_key(key))
    except StateProcessorError:
        raise
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, struct.error) as e:
        raise OptionError(f"{where}: {e}") from e
