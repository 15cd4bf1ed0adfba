"""Plain text tables that fit a terminal."""

from __future__ import annotations

import json
import shutil
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final

from state_processor.support.mappings import map_values, row_of

_GAP: Final = 2
_NARROWEST: Final = 8
_ELLIPSIS: Final = "…"
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def render_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    width: int | None = None,
    right: frozenset[str] = frozenset(),
    whole: frozenset[str] = frozenset(),
) -> str:
    """Return a table with a header and columns as wide as their content; the widest are shortened to fit.

    What does not fit even then is shown with a line for each value, as :func:`render_vertical` does.

    ``rows``: values in the order of the columns; see :func:`text_of`. ``width``: number of characters per line; by default the
    width of the terminal. ``right``: columns to align right; columns of numbers always are.
    """
    values = list(map(list, rows))
    headers = list(map(printable, columns))
    cells = [list(map(text_of, row)) for row in values]
    numeric = {i for i, name in enumerate(columns) if name in right}
    numeric |= {i for i, column in enumerate(zip(*values, strict=True)) if all(map(_is_number, column))}
    full_widths = [max(map(display_width, column)) for column in zip(headers, *cells, strict=True)]
    available = (width or terminal_width()) - _GAP * (len(columns) - 1)
    widths = fitted(full_widths, available, [name in whole for name in columns])
    if sum(widths) > available and values:
        return render_vertical(columns, values, width=width or terminal_width(), whole=whole)
    lines = [headers, ["─" * w for w in widths], *cells]
    return "\n".join(_line(line, widths, numeric) for line in lines)


def render_vertical(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    width: int | None = None,
    whole: frozenset[str] = frozenset(),
) -> str:
    """Return rows with a line for each value.

    ``columns``: names of the values. ``rows``: values in the order of the columns. ``width``: number of characters per line; by
    default values are not shortened. ``whole``: columns that are not shortened.
    """
    headers = list(map(printable, columns))
    names = max(map(display_width, headers), default=0)
    lines = []
    for number, row in enumerate(rows, 1):
        lines.append(f"─ {number} ".ljust(names + _GAP + _NARROWEST, "─"))
        for name, header, value in zip(columns, headers, row, strict=True):
            text = text_of(value)
            room = display_width(text) if width is None or name in whole else max(_NARROWEST, width - names - _GAP)
            lines.append(f"{header}{' ' * (names - display_width(header) + _GAP)}{shortened(text, room)}".rstrip())
    return "\n".join(lines)


def render_records(columns: Sequence[str], rows: Iterable[Mapping[str, Any]], **options: Any) -> str:
    """Return a table as :func:`render_table` does, of rows by column name."""
    return render_table(columns, [list(map(row.get, columns)) for row in rows], **options)


def terminal_width() -> int:
    """Return the number of characters per line; the environment variable ``COLUMNS`` has precedence."""
    return shutil.get_terminal_size((120, 40)).columns


def fitted(full_widths: Sequence[int], available: int, whole: Sequence[bool] = ()) -> list[int]:
    """Return widths that fit into the available one: the widest columns are narrowed first, down to a minimum.

    Columns that have to stay whole are not narrowed.
    """
    widths = list(full_widths)
    free = [i for i in range(len(widths)) if not (whole and whole[i])]
    while sum(widths) > available and max((widths[i] for i in free), default=0) > _NARROWEST:
        widest = max(widths[i] for i in free)
        following = max((widths[i] for i in free if widths[i] < widest), default=_NARROWEST)
        at = [i for i in free if widths[i] == widest]
        excess = sum(widths) - available
        lower = max(_NARROWEST, following, widest - -(-excess // len(at)))
        for i in at:
            widths[i] = lower
    return widths


def _line(cells: Sequence[str], widths: Sequence[int], numeric: set[int]) -> str:
    padded = []
    for i, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        text = shortened(cell, width)
        space = " " * (width - display_width(text))
        padded.append(space + text if i in numeric else text + space)
    return (" " * _GAP).join(padded).rstrip()


def shortened(text: str, width: int) -> str:
    """Return text cut to a width in characters of a terminal; an ellipsis marks the cut."""
    if display_width(text) <= width:
        return text
    prefix = ""
    for character in text:
        if display_width(prefix + character) > width - 1:
            break
        prefix += character
    return prefix + _ELLIPSIS


def display_width(text: str) -> int:
    """Return the width of text on a terminal: two for East Asian wide characters, zero for combining ones."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def text_of(value: Any) -> str:
    """Return a value in one line: structs as ``{a: 1}``, arrays as ``[1, 2]``, bytes in hexadecimal, null as nothing."""
    if value is None:
        return ""
    return printable(value if isinstance(value, str) else _inner(value))


def _inner(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (bytes, bytearray)):
        return f"0x{value.hex()}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_inner(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        if value and all(isinstance(v, tuple) for v in value):  # a map, as pyarrow gives it
            return "{" + ", ".join(f"{_inner(k)} → {_inner(v)}" for k, v in value) + "}"
        return "[" + ", ".join(map(_inner, value)) + "]"
    if value is None:
        return "null"
    return value.isoformat() if isinstance(value, (date, time)) else str(value)


def printable(text: str) -> str:
    """Return text with escapes for control characters: they would move the cursor or change colours.

    Names, values and messages may come from anybody's snapshot: whatever is printed has gone through this function.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float, Decimal)) and not isinstance(value, bool))


def size_text(size: int | None) -> str:
    """Return a number of bytes in a unit that keeps it short."""
    if size is None:
        return ""
    amount, unit = float(size), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{size:,} B" if not unit else f"{amount:,.1f} {_UNITS[unit]}"


def count_text(number: float | None) -> str:
    """Return a number with separators of thousands."""
    return "" if number is None else f"{number:,}"


def json_text(row: Any) -> str:
    """Return a row or record as one line of JSON and escape control characters; see :func:`json_value`."""
    text = json.dumps(json_value(row), ensure_ascii=False)
    return text if text.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def json_value(value: Any) -> Any:
    """Return a value in JSON's types.

    Bytes are hexadecimal digits. Dates and times are ISO text: points in time end in ``Z``, and local ones lack a zone. Decimals
    are text with all digits. NaN and infinities, which JSON lacks, are the texts ``NaN``, ``Infinity`` and ``-Infinity``. Maps
    are lists of pairs, since their keys may have any type. Records are their fields.
    """
    if is_dataclass(value):
        value = row_of(value)
    if isinstance(value, Mapping):
        return map_values(json_value, value)
    if isinstance(value, (list, tuple)):
        return list(map(json_value, value))
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z") if value.tzinfo else value.isoformat()
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return {"inf": "Infinity", "-inf": "-Infinity"}.get(str(value), "NaN")
    return value
