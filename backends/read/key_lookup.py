"""Keys that a user looks up: their serialized form, and the key groups that they are in."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Final, TypeVar

import numpy as np

from state_processor.backends.metadata import handles as h
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.state.descriptions import KeyedDescription
from state_processor.backends.state.key_groups import key_group
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.errors import OptionError, StateProcessorError, UnsupportedFormatError

_PLAIN_KEYS: Final[dict[str, type]] = {
    "STRING": str,
    **dict.fromkeys(("BYTE", "SHORT", "INT", "LONG"), Integral),
    **dict.fromkeys(("FLOAT", "DOUBLE"), Real),
    "BOOLEAN": bool,
}
"""Python types of keys of plain types; serializers alone accept more, such as any value for a boolean."""

_T = TypeVar("_T")


def serialized_keys(state: KeyedDescription, keys: Sequence[Any]) -> tuple[bytes, ...]:
    """Return keys as the state's key serializer writes them.

    Raises
    ------
    OptionError
        If one is not of the state's key type.
    """
    return tuple(_of_key(state, k, lambda key, accepted: key.serialize(accepted)) for k in keys)


def key_groups_of(state: KeyedDescription, keys: Sequence[Any], max_parallelism: int) -> frozenset[int] | None:
    """Return the key groups that hold these keys; ``None`` where the keys' ``hashCode`` is user code, and all have to be read."""
    groups = _groups(state, keys, max_parallelism)
    return None if groups is None else frozenset(groups)


def with_keys_of(state: KeyedDescription, options: ReadOptions, key_groups: h.KeyGroupRange, max_parallelism: int) -> ReadOptions:
    """Return the options with those keys only that lie in these key groups, where that is known."""
    groups = _groups(state, options.keys, max_parallelism) if options.keys is not None else None
    if options.keys is None or groups is None:
        return options
    return replace(options, keys=tuple(k for k, g in zip(options.keys, groups, strict=True) if g in key_groups))


def _groups(state: KeyedDescription, keys: Sequence[Any], max_parallelism: int) -> list[int] | None:
    try:
        hashes = [_of_key(state, k, lambda key, accepted: key.hash_code(accepted)) for k in keys]
    except UnsupportedFormatError:
        return None
    groups: list[int] = key_group(np.array(hashes, dtype=np.int64), max_parallelism).tolist() if hashes else []
    return groups


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
