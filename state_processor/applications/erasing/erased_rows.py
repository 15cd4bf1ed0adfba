"""Removal of values from rows, with a rule for each action. Only rows with values to erase are passed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from state_processor.errors import OptionError
from state_processor.options import choice_of, spelled
from state_processor.states import BROADCAST, LAST_ACCESS, LIST, MAP, OPERATOR_LIST, UNION_LIST
from state_processor.support import map_values

Action = Literal["keys", "entries", "elements", "fields"]
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)
_IDENTITY: Final = ("key", "window", "namespace")
_LISTS: Final = frozenset({LIST, OPERATOR_LIST, UNION_LIST})

Holds = Callable[[Any], bool]
"""Returns whether a value contains something to erase, at any depth."""


def checked_actions(remove: str | Iterable[str]) -> frozenset[Action]:
    """Return the actions that a user has chosen."""
    requested = [remove] if isinstance(remove, str) else list(remove)
    actions = [choice_of(action, ACTIONS) for action in requested]
    chosen = frozenset(action for action in actions if action is not None)
    if not requested or None in actions:
        listed = ", ".join(map(repr, requested)) or "none"
        raise OptionError(f"{spelled('remove')}: expected some of {', '.join(ACTIONS)}, found {listed}")
    return chosen


@dataclass(frozen=True, slots=True)
class ErasedRow:
    """A row after the removal of values."""

    action: Action | None  # the action; ``None`` if no chosen action applies to the row
    row: dict[str, Any] | None  # the row without the erased values; ``None`` if the whole key is removed
    count: int  # the number of removed elements, entries, fields or keys


def erased_row(row: Mapping[str, Any], kind: str, holds: Holds, actions: frozenset[Action]) -> ErasedRow:
    """Remove values from a row of a state, with the narrowest chosen action that applies.

    ``row``: the row, with the columns of a read with ``flatten=False``. ``holds``: returns whether a value contains something to
    erase.
    """
    value = row.get("value")
    if "fields" in actions and isinstance(value, (dict, list)) and not _holds_outside(row, kind, holds):
        without = _Fields(holds)
        return ErasedRow("fields", {**row, "value": without.of(value, is_nested=False)}, without.count)
    in_identity = kind != BROADCAST and any(holds(row.get(name)) for name in _IDENTITY)
    if not in_identity:
        if kind in _LISTS and "elements" in actions:
            return _without_elements(row, holds, "elements")
        if kind == MAP and "entries" in actions:
            return _without_elements(row, holds, "entries")
        if kind not in (LIST, MAP, OPERATOR_LIST, UNION_LIST) and "entries" in actions:
            return ErasedRow("entries", {**row, "value": None} if kind != BROADCAST else None, 1)
    if "keys" in actions and kind not in (OPERATOR_LIST, UNION_LIST, BROADCAST):
        return ErasedRow("keys", None, 1)
    return ErasedRow(None, None, 0)


def _holds_outside(row: Mapping[str, Any], kind: str, holds: Holds) -> bool:
    """Return whether ``holds`` applies outside of fields: to the key, a map key, or an element or value that is not a struct."""
    if any(holds(row.get(name)) for name in _IDENTITY):
        return True
    value = row["value"]
    if kind == MAP:
        return any(holds(key) or (holds(entry_value) and not isinstance(entry_value, (dict, list))) for key, entry_value in value)
    if kind == LIST:
        return any(holds(element) and not isinstance(element, (dict, list)) for element in value)
    return not isinstance(value, dict)


def _without_elements(row: Mapping[str, Any], holds: Holds, action: Action) -> ErasedRow:
    """Remove elements of the list, or entries of the map, in the column ``value``. A row of operator state is an element."""
    if not isinstance(row["value"], list) or (action == "elements" and "key" not in row):
        return ErasedRow(action, None, 1)
    keeps = [not holds(element) for element in row["value"]]
    changed = {**row, "value": [element for element, keep in zip(row["value"], keeps, strict=True) if keep] or None}
    times = row.get(LAST_ACCESS)
    if isinstance(times, list):
        changed[LAST_ACCESS] = [time for time, keep in zip(times, keeps, strict=True) if keep] or None
    return ErasedRow(action, changed, keeps.count(False))


@dataclass
class _Fields:
    """Replaces fields by null, and counts them."""

    holds: Holds
    count: int = 0

    def of(self, value: Any, *, is_nested: bool = True) -> Any:
        """Return a copy of a value. Fields with something to erase are null."""
        if not self.holds(value):
            return value
        if isinstance(value, dict):
            return map_values(self.of, value)
        if isinstance(value, list):
            return [(element[0], self.of(element[1])) if isinstance(element, tuple) else self.of(element) for element in value]
        self.count += is_nested
        return None


def holding(patterns: Sequence[bytes], texts: Sequence[str]) -> Holds:
    """Return a function that tests whether text contains one of the texts, or bytes contain one of the patterns."""

    def holds(value: Any) -> bool:
        if isinstance(value, str):
            return any(text in value for text in texts)
        if isinstance(value, bytes):
            return any(pattern in value for pattern in patterns)
        if isinstance(value, dict):
            return any(map(holds, value.values()))
        return isinstance(value, (list, tuple)) and any(map(holds, value))

    return holds
