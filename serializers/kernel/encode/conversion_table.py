"""Table of conversions from the types of columns to the types of values: exact, checked for each value, or refused.

Values never change on the way into state. A conversion that was not requested, such as a number to text, is refused by type, with
the cast to write. A conversion that is not exact for all values is checked for each value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.serializers.decode_options import SPARK_NAMES, ColumnType
from state_processor.support.late import pc

Conversion = Literal["exact", "checked", "refused"]
EXACT: Final = "exact"
"""Every value is one of the type."""
CHECKED: Final = "checked"
"""A value that the type can't hold exactly is an error that shows it."""
REFUSED: Final = "refused"
"""The types are incompatible."""

Family = Literal[
    "boolean", "integer", "floating", "decimal", "whole", "number", "text", "bytes", "date", "local", "instant", "other"
]

CONVERSIONS: Final[dict[tuple[Family, Family], Conversion]] = {
    ("boolean", "boolean"): EXACT,
    ("integer", "integer"): CHECKED,
    ("integer", "floating"): CHECKED,
    ("integer", "whole"): EXACT,
    ("integer", "number"): EXACT,
    ("floating", "floating"): CHECKED,
    ("decimal", "decimal"): CHECKED,
    ("decimal", "whole"): CHECKED,
    ("decimal", "number"): EXACT,
    ("text", "text"): EXACT,
    ("text", "whole"): CHECKED,
    ("text", "number"): CHECKED,
    ("text", "date"): CHECKED,
    ("text", "local"): CHECKED,
    ("text", "instant"): CHECKED,
    ("bytes", "bytes"): EXACT,
    ("date", "date"): CHECKED,
    ("local", "local"): CHECKED,
    ("instant", "instant"): CHECKED,
}
"""From the family of a column to the family of a type; missing pairs are refused. Types of one size are exact, see below."""

_TIMES: Final = frozenset({"date", "local", "instant"})
_MANTISSA: Final = {16: 11, 32: 24, 64: 53}


def family_of(type_: pa.DataType) -> Family:
    """Return the family of a column's type without fields or elements."""
    if isinstance(type_, ColumnType):
        return type_.domain or family_of(type_.arrow)
    tests = pa.types
    families: tuple[tuple[Family, bool], ...] = (
        ("boolean", tests.is_boolean(type_)),
        ("integer", tests.is_integer(type_)),
        ("floating", tests.is_floating(type_)),
        ("decimal", tests.is_decimal(type_)),
        ("text", tests.is_string(type_) or tests.is_large_string(type_)),
        ("bytes", tests.is_binary(type_) or tests.is_large_binary(type_) or tests.is_fixed_size_binary(type_)),
        ("date", tests.is_date(type_)),
        ("local", tests.is_timestamp(type_) and type_.tz is None),
        ("instant", tests.is_timestamp(type_) and type_.tz is not None),
    )
    return next((family for family, is_of_family in families if is_of_family), "other")


def conversion(source: pa.DataType, target: pa.DataType) -> Conversion:
    """Return the conversion of a column of one type to another, both without fields or elements."""
    if source == target:
        return EXACT
    outcome = CONVERSIONS.get((family_of(source), family_of(target)), REFUSED)
    return EXACT if outcome == CHECKED and _is_wider(source, target) else outcome


def is_castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether Spark's ``CAST`` keeps the meaning of values. Between times and numbers it does not."""
    families = {family_of(source), family_of(target)}
    return "other" not in families and not (families & _TIMES and families - _TIMES - {"text"})


def _is_wider(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether a type of the same family, or of floating numbers, holds all values of integers or smaller types."""
    match family_of(source), family_of(target):
        case "integer", "integer":
            signed = pa.types.is_signed_integer(source), pa.types.is_signed_integer(target)
            return bool(source.bit_width <= target.bit_width) if signed[0] == signed[1] else False
        case "integer", "floating":
            return bool(source.bit_width <= _MANTISSA[target.bit_width])
        case "floating", "floating":
            return bool(source.bit_width <= target.bit_width)
        case "decimal", "decimal":
            return bool(source.scale <= target.scale and source.precision - source.scale <= target.precision - target.scale)
    return False


def convert(array: pa.Array, target: pa.DataType) -> tuple[pa.Array, int, str]:
    """Convert the values of a column exactly.

    Returns: the new column, -1 and an empty text; or the old column, the first slot with a value that does not fit, and the
    reason.
    """
    if pa.types.is_floating(target) and not pa.types.is_float16(array.type):
        return _to_floating(array, target)
    try:
        converted = array.cast(target)
    except pa.ArrowInvalid as problem:
        return array, first_failure(array, lambda part: part.cast(target)), str(problem)
    if pa.types.is_date64(array.type):  # Arrow drops the time of day without an error
        changed = _changed(converted.cast(array.type), array)
        if changed >= 0:
            return array, changed, "it has a time of day"
    return converted, -1, ""


def _to_floating(array: pa.Array, target: pa.DataType) -> tuple[pa.Array, int, str]:
    converted = array.cast(target, safe=False)
    before, after = _plain(array), _plain(converted)
    if pa.types.is_floating(array.type):
        with np.errstate(invalid="ignore"):
            same = (before == after.astype(before.dtype)) | (np.isnan(before) & np.isnan(after))
    else:
        most = 2.0 ** (array.type.bit_width - int(pa.types.is_signed_integer(array.type)))
        fits = after < most
        same = fits & (np.where(fits, after, 0).astype(before.dtype) == before)
    wrong = np.flatnonzero(~same)
    if len(wrong):
        name = spark_name(target)
        return array, int(wrong[0]), f"no {name} is exactly this number; where rounding is meant: CAST(... AS {name})"
    return converted, -1, ""


def _plain(array: pa.Array) -> npt.NDArray[np.generic]:
    """Return the numbers of a column, with zeros instead of nulls."""
    return np.asarray(pc.fill_null(array, pa.scalar(0, array.type)).to_numpy(zero_copy_only=False))


def _changed(before: pa.Array, after: pa.Array) -> int:
    differ = np.flatnonzero(pc.fill_null(pc.not_equal(before, after), False).to_numpy(zero_copy_only=False))
    return int(differ[0]) if len(differ) else -1


def first_failure(array: pa.Array, check: Callable[[pa.Array], object]) -> int:
    """Return the first slot for which a check of a part of an array raises ``ArrowInvalid``, by halving."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            check(array.slice(low, middle - low))
        except pa.ArrowInvalid:
            high = middle
        else:
            low = middle
    return low


def spark_name(type_: pa.DataType) -> str:
    """Return the name of a column's type in Spark SQL, for ``CAST``."""
    if isinstance(type_, ColumnType):
        return spark_name(type_.arrow)
    if type_ in SPARK_NAMES:
        return SPARK_NAMES[type_]
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_timestamp(type_):
        return "timestamp_ntz" if type_.tz is None else "timestamp"
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_):
        return f"array<{spark_name(type_.value_type)}>"
    if pa.types.is_map(type_):
        return f"map<{spark_name(type_.key_type)}, {spark_name(type_.item_type)}>"
    if pa.types.is_struct(type_):
        return f"struct<{', '.join(f'{f.name}: {spark_name(f.type)}' for f in type_)}>"
    return str(type_)
