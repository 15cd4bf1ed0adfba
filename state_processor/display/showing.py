"""Rows of Arrow as tables: on terminals as the command line prints them, and as HTML in notebooks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from html import escape
from itertools import chain, islice
from typing import Any, Final

import pyarrow as pa

from state_processor.display.text_tables import count_text, render_table, render_vertical, size_text, text_of
from state_processor.serializers.runtime.namespaces import VoidNamespaceSerializer
from state_processor.support.errors import OptionError

SIZES: Final = {
    "operator_coordinator_state_size_in_bytes": "coordinator_size",
    "operator_total_size_in_bytes": "size",
    "size_in_bytes": "size",
    "bytes_before": "size_before",
    "bytes_after": "size_after",
}
"""Columns of sizes, and their headers in tables."""

NAMES: Final = frozenset({"operator", "uid", "uid_hash", "state_name", "transactional_id", "transactional_id_prefix"})
"""Columns with arguments of other calls. They are shown whole, so that users can copy them."""

_PREFIX: Final = "operator_"
_REPLACED: Final = frozenset({"operator_uid", "operator_uid_hash", "spark_schema"})
_NO_NAMESPACE: Final = str(VoidNamespaceSerializer())


def show(rows: Any, limit: int = 20, *, vertical: bool = False) -> None:
    """Print rows as the command line prints them: sizes have units, and tables are as wide as the terminal.

    A table of operators, states or sizes has one column for the operator, and no empty columns.

    Parameters
    ----------
    rows
        Rows of a snapshot, a table of pyarrow, or another object with ``__arrow_c_stream__``. Only the first rows are read.
    limit
        Number of rows; a line below the table says whether there are more.
    vertical
        Print a line for each value.

    Raises
    ------
    OptionError
        The object is not a stream of Arrow, or the limit is not a positive number.
    """
    if not hasattr(rows, "__arrow_c_stream__"):
        raise OptionError(f"show({type(rows).__name__}): expected rows, a table of pyarrow, or another stream of Arrow")
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise OptionError(f"limit={limit!r}: expected a positive number of rows")
    with pa.RecordBatchReader.from_stream(rows) as batches:
        first = list(islice(chain.from_iterable(map(pa.RecordBatch.to_pylist, batches)), limit + 1))
        names = batches.schema.names
    print(_text(names, first[:limit], vertical))
    if len(first) > limit:
        print(f"… only the first {limit} rows; limit shows more")


def _text(names: Sequence[str], rows: Sequence[Mapping[str, Any]], vertical: bool) -> str:
    if {"operator_uid", "operator_uid_hash"} <= {*names}:
        rows = list(map(with_operator, rows))
        names = filled(["operator", *(name for name in names if name not in _REPLACED)], rows)
    headers = [SIZES.get(name, name.removeprefix(_PREFIX)) for name in names]
    values = list(map(partial(_values, names), rows))
    if vertical:
        return render_vertical(headers, values)
    return render_table(headers, values, right=frozenset(SIZES.values()), whole=NAMES)


def with_operator(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with one name for its operator, its uid or else the hash, and without the namespace that every key has."""
    namespace = {"namespace_type": None} if row.get("namespace_type") == _NO_NAMESPACE else {}
    return {"operator": row["operator_uid"] or row["operator_uid_hash"], **row, **namespace}


def _values(names: Sequence[str], row: Mapping[str, Any]) -> list[Any]:
    return [size_text(row[name]) if name in SIZES else row[name] for name in names]


def filled(columns: Iterable[str], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the columns with a value in some row."""
    return [column for column in columns if not rows or has_value(column, rows)]


def has_value(column: str, rows: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether some row has a value in a column."""
    return any(row.get(column) not in (None, "", False) for row in rows)


_BAR: Final = "background: linear-gradient(to right, rgba(70, 130, 180, 0.35) {share:.1f}%, transparent {share:.1f}%)"
_LONGEST: Final = 200


def html_table(
    columns: Sequence[str],
    rows: Iterable[Mapping[str, Any]],
    *,
    caption: str = "",
    sizes: frozenset[str] = frozenset(),
    counts: frozenset[str] = frozenset(),
    longest: int = _LONGEST,
) -> str:
    """Return a table as HTML.

    ``columns``: the columns to show. ``rows``: values by column; see :func:`~state_processor.display.text_tables.text_of`. Long
    values are shortened, and a tooltip has the whole value. ``caption``: title of the table. ``sizes``: columns of numbers of
    bytes, which get a unit and a bar. ``counts``: columns of other numbers that get separators of thousands. ``longest``: longest
    value, in characters, that is shown whole.
    """
    lines = list(rows)
    largest: dict[str, int] = {}
    for name in sizes:
        numbers = [row.get(name) or 0 for row in lines]
        largest[name] = max(numbers, default=0)
    head = "".join(f'<th style="text-align: {_side(n, lines, sizes)}">{escape(n)}</th>' for n in columns)
    texts = {n: count_text if n in counts else text_of for n in columns}
    body = ""
    for row in lines:
        cells = (_cell(row.get(n), largest.get(n), texts[n], longest) for n in columns)
        body += f"<tr>{''.join(cells)}</tr>"
    title = f'<caption style="text-align: left">{escape(caption)}</caption>' if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _side(name: str, rows: Iterable[Mapping[str, Any]], sizes: frozenset[str]) -> str:
    """Return the side of the header of a column: the side of its values."""
    values = [row[name] for row in rows if row.get(name) is not None]
    return "right" if name in sizes or (values and all(map(_is_number, values))) else "left"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _cell(value: Any, largest: int | None, text_of_value: Callable[[Any], str], longest: int) -> str:
    if largest is not None:
        share = 100 * (value or 0) / largest if largest else 0
        return f'<td style="text-align: right; {_BAR.format(share=share)}">{escape(size_text(value))}</td>'
    text = text_of_value(value)
    if len(text) > longest:
        return f'<td style="text-align: left" title="{escape(text)}">{escape(text[:longest])}…</td>'
    align = "right" if _is_number(value) else "left"
    return f'<td style="text-align: {align}">{escape(text)}</td>'
