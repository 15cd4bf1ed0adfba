"""Columns of Arrow from values of Python: of dictionaries, and of pandas' columns of objects.

Arrow infers the type of a column, and then takes a value of another type for one of this type: a date and time for a date, a
point in time for a local time, a dictionary without a field for one with null. Such values are refused here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from state_processor.support.errors import OptionError

NO_COLUMN: Final = (pa.ArrowException, OverflowError, UnicodeError, ValueError)
"""Errors of values that can't be a column of Arrow. Some of pandas' values raise a plain ``ValueError``."""


def columns_of_dictionaries(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return the columns of rows."""
    if not rows:
        raise OptionError("the list of rows is empty, so that the types of its columns are unknown; give an empty table of Arrow")
    names = dict.fromkeys(name for row in rows for name in row)
    for number, row in enumerate(rows):
        lacking = next((name for name in names if name not in row), None)
        if lacking is not None:
            raise OptionError(f"row {number} does not have the column {lacking!r} of other rows. Write None for a null")
    for name in names:
        if not isinstance(name, str):
            raise OptionError(f"the rows have a column {name!r}; expected text as the name of a column")
    return pa.table({name: column_of_values(name, [row[name] for row in rows]) for name in names})


def column_of_values(name: str, values: Sequence[Any]) -> pa.Array:
    """Return a column of values. ``None`` and pandas' ``NA`` and ``NaT`` are null, a floating NaN is a number."""
    missing = _missing_values()
    if missing:
        values = [None if any(value is null for null in missing) else value for value in values]
    try:
        column = pa.array(values, from_pandas=False)
    except NO_COLUMN as problem:
        number = _first_unfitting(values)
        raise OptionError(
            f"column {name!r} of row {number} can't become a value of Arrow: found {values[number]!r} of type "
            f"{type(values[number]).__name__}: {problem}. All rows need values of one type that Arrow has"
        ) from problem
    check_values(column.type, values, name, _INFERRED_CHECKS)
    return column


def _missing_values() -> tuple[Any, ...]:
    """Return the objects that mean null in pandas; none if it is not imported."""
    pandas = sys.modules.get("pandas")
    return () if pandas is None else (pandas.NA, pandas.NaT)


def _first_unfitting(values: Sequence[Any]) -> int:
    """Return the number of the first value that is not of one type with the values before it; one is not."""
    fitting, unfitting = 0, len(values)  # numbers of leading values
    while unfitting - fitting > 1:
        middle = (fitting + unfitting) // 2
        try:
            pa.array(values[:middle], from_pandas=False)
            fitting = middle
        except NO_COLUMN:
            unfitting = middle
    return fitting


Check = Callable[[pa.DataType, Any], str | None]
"""Function that returns why a value is not of a type, although Arrow takes it for one; ``None`` if it is of the type."""


def _not_this_timestamp(type_: pa.DataType, value: Any) -> str | None:
    if not isinstance(value, datetime):
        return None  # of numpy, which Arrow does not mix with others
    if (value.tzinfo is None) is not (type_.tz is None):
        words = ("without", "with") if type_.tz else ("with", "without")
        return f"a time {words[0]} a time zone, in a column of times {words[1]} one"
    return "it has nanoseconds, which microseconds can't hold" if getattr(value, "nanosecond", 0) else None


def _not_a_date(_: pa.DataType, value: Any) -> str | None:
    return "it has a time of day, in a column of dates" if isinstance(value, datetime) else None


def _not_a_local_time(_: pa.DataType, value: Any) -> str | None:
    return "a time of day with a time zone" if getattr(value, "tzinfo", None) is not None else None


def _not_bytes(_: pa.DataType, value: Any) -> str | None:
    return "text, in a column of bytes" if isinstance(value, str) else None


def _not_this_scale(type_: pa.DataType, value: Any) -> str | None:
    exponent = value.as_tuple().exponent if isinstance(value, Decimal) else 0
    scale = -exponent if isinstance(exponent, int) else 0
    if scale == type_.scale:
        return None
    return (
        f"it has the scale {scale}, in a column of decimals with the scale {type_.scale}; java.math.BigDecimal distinguishes "
        "them. Write all decimals with one scale, or as text"
    )


_CHECKS: Final[tuple[tuple[Callable[[pa.DataType], bool], Check], ...]] = (
    (pa.types.is_timestamp, _not_this_timestamp),
    (pa.types.is_date, _not_a_date),
    (pa.types.is_time, _not_a_local_time),
    (pa.types.is_binary, _not_bytes),
)
_INFERRED_CHECKS: Final = (*_CHECKS, (pa.types.is_decimal, _not_this_scale))


def check_values(
    type_: pa.DataType,
    values: Sequence[Any],
    name: str,
    checks: Sequence[tuple[Callable[[pa.DataType], bool], Check]] = _CHECKS,
) -> None:
    """Refuse values that Arrow takes for values of a type, and that are not.

    ``type_`` and ``values``: the type of a column, and the values that it is made of. ``name``: the column, for messages.
    ``checks``: the checks of types without fields or elements.
    """
    _check(type_, list(enumerate(values)), name, checks)


def _check(
    type_: pa.DataType,
    values: Iterable[tuple[int, Any]],
    path: str,
    checks: Sequence[tuple[Callable[[pa.DataType], bool], Check]],
) -> None:
    """Check values with the numbers of their rows."""
    present = [(row, value) for row, value in values if value is not None]
    if pa.types.is_struct(type_):
        for field in type_:
            lacking = next((row for row, value in present if isinstance(value, Mapping) and field.name not in value), None)
            if lacking is not None:
                raise OptionError(
                    f"column {path!r} of row {lacking} does not have the field {field.name!r} of other values. Write None for a "
                    "null"
                )
            if _is_checked(field.type, checks):
                fields = [(row, value[field.name]) for row, value in present if isinstance(value, Mapping)]
                _check(field.type, fields, f"{path}.{field.name}", checks)
        return
    if pa.types.is_list(type_):
        if _is_checked(type_.value_type, checks):
            elements = [(row, element) for row, value in present for element in value]
            _check(type_.value_type, elements, f"{path}.element", checks)
        return
    for is_kind, check in checks:
        if is_kind(type_):
            for row, value in present:
                problem = check(type_, value)
                if problem is not None:
                    raise OptionError(f"column {path!r} of row {row} does not fit: {value!r}: {problem}")


def _is_checked(type_: pa.DataType, checks: Sequence[tuple[Callable[[pa.DataType], bool], Check]]) -> bool:
    """Return whether values of a type are looked at one by one: few types need it."""
    if pa.types.is_struct(type_) or pa.types.is_list(type_):
        return True
    return any(is_kind(type_) for is_kind, _ in checks)
