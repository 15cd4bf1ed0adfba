"""Keys that a user looks up: their serialized form, and the key groups that they are in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Final, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.backends.formats.key_index import SerializedKeys
from state_processor.backends.formats.row_layout import KEY_COLUMN
from state_processor.backends.metadata import handles as h
from state_processor.backends.state.descriptions import KeyedDescription
from state_processor.backends.state.key_groups import key_group
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.hash_codes import hash_codes
from state_processor.serializers.kernel.encode.conversion import conform
from state_processor.serializers.kernel.encode.encoder import encode_column
from state_processor.serializers.kernel.encode.loop import BEGIN, END
from state_processor.support.errors import (
    UNWRITABLE,
    InvalidRowError,
    OptionError,
    StateProcessorError,
    UnsupportedFormatError,
    why_unwritable,
)

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


class Keys(Protocol):
    """Keys of one type. They can be pickled."""

    def __len__(self) -> int: ...

    def take(self, positions: npt.NDArray[np.int64]) -> Self:
        """Return some of the keys."""

    def serialized(self, state: KeyedDescription) -> SerializedKeys:
        """Return the keys as the state's key serializer writes them."""

    def hash_codes(self, state: KeyedDescription) -> npt.NDArray[np.int64]:
        """Return Java's ``hashCode`` of each key."""


@dataclass(frozen=True, slots=True)
class KeyValues:
    """Keys as Python values."""

    values: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.values)

    def take(self, positions: npt.NDArray[np.int64]) -> KeyValues:
        """See :meth:`Keys.take`."""
        return KeyValues(tuple(self.values[i] for i in positions.tolist()))

    def serialized(self, state: KeyedDescription) -> SerializedKeys:
        """See :meth:`Keys.serialized`."""
        return SerializedKeys.of(_of_key(state, k, lambda key, accepted: key.serialize(accepted)) for k in self.values)

    def hash_codes(self, state: KeyedDescription) -> npt.NDArray[np.int64]:
        """See :meth:`Keys.hash_codes`."""
        hashes = [_of_key(state, k, lambda key, accepted: key.hash_code(accepted)) for k in self.values]
        return np.array(hashes, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class KeyColumn:
    """Keys as a column: many keys, or the keys of a table."""

    column: pa.Array

    def __len__(self) -> int:
        return len(self.column)

    def take(self, positions: npt.NDArray[np.int64]) -> KeyColumn:
        """See :meth:`Keys.take`."""
        return KeyColumn(self.column.take(pa.array(positions)))

    def serialized(self, state: KeyedDescription) -> SerializedKeys:
        """See :meth:`Keys.serialized`."""
        encoded = encode_column(state.key, self.column, as_keys=True)
        return SerializedKeys(encoded.data, encoded.entries[:, [BEGIN, END]])

    def hash_codes(self, state: KeyedDescription) -> npt.NDArray[np.int64]:
        """See :meth:`Keys.hash_codes`."""
        return hash_codes(state.key, self.column).astype(np.int64)


def keys_of(state: KeyedDescription, selected: Sequence[Any] | pa.Table) -> Keys:
    """Return keys of a state.

    ``state``: a state of the operator, for the type of its keys. ``selected``: Python values; or a table with a row for each key:
    the column ``key``, or if keys are structs the columns of their fields.
    """
    column = _key_column(state, selected) if isinstance(selected, pa.Table) else _as_column(state.key, selected)
    if column is None:
        values = KeyValues(tuple(selected))
        values.serialized(state)
        return values
    try:
        keys = KeyColumn(conform(state.key, column, KEY_COLUMN, as_key=True))
        keys.serialized(state)
    except InvalidRowError as problem:
        raise OptionError(f"keys: state {state.name!r} has keys of type {state.key}: {problem}") from None
    return keys


class WantedKeys:
    """Keys that a user looks up, with the key groups that they are in.

    ``state``: a state of the operator, for the type of its keys. ``max_parallelism``: the number of key groups.
    """

    def __init__(self, state: KeyedDescription, keys: Keys, max_parallelism: int) -> None:
        self._keys = keys
        self._groups: npt.NDArray[np.int64] | None = None
        try:
            hashes = keys.hash_codes(state)
        except UnsupportedFormatError:  # hashCode is code of the job
            return
        self._groups = np.asarray(key_group(hashes, max_parallelism), dtype=np.int64)

    @property
    def key_groups(self) -> list[int] | None:
        """The key groups, in order; ``None`` if the keys may be in any."""
        return None if self._groups is None else np.flatnonzero(np.bincount(self._groups)).tolist()

    def within(self, key_groups: h.KeyGroupRange) -> Keys:
        """Return the keys that may be in these key groups."""
        if self._groups is None:
            return self._keys
        inside = (self._groups >= key_groups.start) & (self._groups <= key_groups.end_inclusive)
        return self._keys.take(np.flatnonzero(inside))


def _key_column(state: KeyedDescription, table: pa.Table) -> pa.Array:
    """Return the keys of a table as one column."""
    key_type = state.key.arrow_type(DecodeOptions())
    names = table.column_names
    if pa.types.is_struct(key_type) and not (names == [KEY_COLUMN] and pa.types.is_struct(table.schema.field(KEY_COLUMN).type)):
        columns = [column.combine_chunks() for column in table.columns]
        return pa.StructArray.from_arrays(columns, fields=list(table.schema))
    if names != [KEY_COLUMN]:
        or_columns = f", or the columns {', '.join(key_type.names)}" if pa.types.is_struct(key_type) else ""
        raise OptionError(
            f"keys: state {state.name!r} has keys of type {state.key}: expected the column {KEY_COLUMN!r}{or_columns}, "
            f"found {', '.join(map(repr, names)) or 'no column'}; select it"
        )
    keys = table.column(KEY_COLUMN).combine_chunks()
    if keys.null_count:
        row = int(np.flatnonzero(keys.is_null().to_numpy(zero_copy_only=False))[0])
        raise OptionError(
            f"keys: the column {KEY_COLUMN!r} is null in {keys.null_count} rows, the first is row {row}; no key is null"
        )
    return keys


def _as_column(key: TypeSerializer, keys: Sequence[Any]) -> pa.Array | None:
    """Return many keys of a plain type as a column; ``None`` for few, for other types, and if one does not fit."""
    accepted = _COLUMN_KEYS.get(str(key))
    if len(keys) < _MANY or accepted is None or set(map(type, keys)) != {accepted}:
        return None
    try:
        return pa.array(keys, key.arrow_type(DecodeOptions()))
    except (pa.ArrowException, ValueError, OverflowError):
        return None


def _of_key(state: KeyedDescription, key: Any, use: Callable[[TypeSerializer, Any], _T]) -> _T:
    problem = f"keys: state {state.name!r} has keys of type {state.key}, found {key!r} of type {type(key).__name__}"
    accepted = _PLAIN_KEYS.get(str(state.key), object)
    if key is None or not isinstance(key, accepted) or (isinstance(key, (bool, np.bool_)) and accepted in (Integral, Real)):
        raise OptionError(problem)
    try:
        return use(state.key, state.key.key_from_column(key))
    except InvalidRowError as e:
        raise OptionError(f"{problem}: {e}") from e
    except StateProcessorError:
        raise
    except UNWRITABLE as e:
        raise OptionError(f"{problem}: {why_unwritable(e, state.key, key)}") from e
