"""Columns of entries that the rows of a keyed state are made of."""

from __future__ import annotations

from typing import Final

from state_processor.backends.formats import entry_layouts as layouts
from state_processor.backends.formats import row_shapes as shapes
from state_processor.backends.formats.field_selection import EVERYTHING, NOTHING, Fields, Selection, inside
from state_processor.backends.formats.row_layout import KEY_BYTES_COLUMN, KEY_GROUP_COLUMN
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.state.descriptions import LIST, MAP, KeyedDescription
from state_processor.serializers import paths

WINDOW: Final = "window"
FIRES_AT: Final = "fires_at"
_MADE_OF: Final = {WINDOW: layouts.NAMESPACE, FIRES_AT: layouts.TIMESTAMP}
"""Columns of rows that are made of a column of entries with another name."""


def decoded_columns(state: KeyedDescription, options: ReadOptions, selection: Selection | None) -> dict[str, Fields]:
    """Return the columns of entries to decode, with the fields in them.

    Parameters
    ----------
    state
        The state.
    options
        The shape of its rows.
    selection
        The columns of rows, with the fields in them; ``None`` for all.
    """
    if selection is None:
        selection = _Everything()
    columns = {}
    names = [layouts.KEY, *([] if state.in_void_namespace else [layouts.NAMESPACE, WINDOW]), layouts.TIMESTAMP, FIRES_AT]
    for name in names:
        if name in selection:
            columns[_MADE_OF.get(name, name)] = EVERYTHING if name in _MADE_OF else selection[name]
    if layouts.KEY not in columns or (options.metadata and KEY_GROUP_COLUMN in selection):  # rows count, even without columns
        columns[KEY_GROUP_COLUMN] = EVERYTHING
    if not state.is_timer:
        columns |= _of_values(state, options, selection)
    return columns


def _of_values(state: KeyedDescription, options: ReadOptions, selection: Selection) -> dict[str, Fields]:
    """Return the columns that values are in: those that are selected, and those that decide which rows there are."""
    flat = options.flatten
    whole = selection.get(layouts.VALUE, NOTHING)
    if state.kind == MAP:
        value = selection.get(layouts.MAP_VALUE, NOTHING) if flat else whole.of(paths.VALUE)
        value = value.timed() if state.has_ttl else value
        columns = {layouts.VALUE: inside(paths.VALUE, value)}  # in the heap
        if not flat:
            return columns | {layouts.MAP_KEY: EVERYTHING, layouts.MAP_VALUE: value, KEY_BYTES_COLUMN: EVERYTHING}
        if layouts.MAP_KEY in selection:
            columns[layouts.MAP_KEY] = selection[layouts.MAP_KEY]
        if layouts.MAP_VALUE in selection or state.has_ttl:
            columns[layouts.MAP_VALUE] = value
        return columns
    has_times = state.has_ttl and options.decode.ttl
    if state.kind == LIST:
        element = selection.get(shapes.LIST_VALUE, NOTHING) if flat else whole.of(paths.ELEMENT)
        if not (flat or has_times or layouts.VALUE in selection):
            return {}
        return {layouts.VALUE: inside(paths.ELEMENT, element.timed() if has_times else element)}
    if not (has_times or layouts.VALUE in selection):
        return {}
    return {layouts.VALUE: whole.timed() if has_times else whole}


class _Everything(dict[str, Fields]):
    """A selection of all columns."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> Fields:
        return EVERYTHING

    def get(self, name: str, default: object = None) -> Fields:  # type: ignore[override]
        """Return all of a column."""
        return EVERYTHING
