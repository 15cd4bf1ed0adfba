"""Tables as HTML, for notebooks. All text is escaped: names and values come from snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final

from state_processor.display.text_tables import count_text, size_text, text_of

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
    largest = {name: max((row.get(name) or 0 for row in lines), default=0) for name in sizes}
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
