"""Readers of which some columns can be selected."""

from __future__ import annotations

from typing import Self

from state_processor.backends.formats.field_selection import Selection


class Selectable:
    """A reader that decodes the columns of a selection only, all if it is ``None``. Its ``schema`` has these columns."""

    _selection: Selection | None = None

    def select(self, selection: Selection) -> Self:
        """Return a reader of some columns, and of some fields in them. Names of columns that it does not have do not matter."""
        reader = type(self).__new__(type(self))  # a copy would be what travels to tasks
        vars(reader).update({name: value for name, value in vars(self).items() if name != "schema"})
        reader._selection = selection
        return reader
