"""The interfaces that accept options, called doors, and the spelling of names at each.

An option is a keyword argument (``as_of``), an option of a data source (``asOf``) or a flag (``--as-of``). Messages name options
by :func:`spelled`, and methods that read state by :func:`read_with`, so that users can copy the advice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum, auto
from typing import Any, Final, TypeVar

from state_processor.support.errors import OptionError

_Choice = TypeVar("_Choice", bound=str)


class Door(Enum):
    """Interfaces that accept options."""

    METHODS = auto()
    """Methods of ``SavepointReader`` and ``SavepointWriter``."""
    FUNCTIONS = auto()
    """Functions of ``sp.arrow``."""
    DATA_SOURCE = auto()
    """Options of the data sources."""
    COMMAND_LINE = auto()
    """Flags."""


_DOOR: Final[ContextVar[Door]] = ContextVar("door", default=Door.METHODS)

_FLAGS: Final = {
    "allow_paths": "--allow",
    "flatten": "--no-flatten",
    "keys": "--key",
    "path_mapping": "--map",
    "storage_options": "--storage",
}
"""Flags with another name than the option."""
_TEXT_NAMES: Final = {"storage_options": "storage.KEY"}
"""Options of data sources with another name than the option."""
_METHODS: Final = {
    "KEYED": "read_keyed_state",
    "WINDOW": "read_window_state",
    "TIMER": "read_timers",
    "OPERATOR_LIST": "read_list_state",
    "UNION_LIST": "read_union_state",
    "BROADCAST": "read_broadcast_state",
}
"""Methods of ``SavepointReader`` by the kind of state that they read."""


_COMMANDS: Final = {
    "remove_state": "the command drop-state",
    "with_async_state": "--async-state",
    "with_ttl": "the command with-ttl",
}
"""Commands and flags for changes, by the method of ``SavepointWriter``."""


@contextmanager
def entered(door: Door) -> Iterator[None]:
    """Spell options in messages as at a door. A function called by another door's function spells them as at that door."""
    before = _DOOR.get()
    if door is not Door.FUNCTIONS or before is Door.METHODS:
        _DOOR.set(door)
    try:
        yield
    finally:
        _DOOR.set(before)


def current_door() -> Door:
    """Return the door that the user of this call has used."""
    return _DOOR.get()


def begin_task(door: Door) -> None:
    """Spell options in messages of this process as at the door of the driver, until the next task or the end of a scope."""
    _DOOR.set(door)


def text_name(argument: str) -> str:
    """Return the name of an option of a data source, in camel case."""
    first, *words = argument.split("_")
    return _TEXT_NAMES.get(argument) or first + "".join(map(str.capitalize, words))


def flag_name(argument: str) -> str:
    """Return the flag of an option."""
    return _FLAGS.get(argument) or "--" + argument.replace("_", "-")


def spelled(argument: str, *value: Any) -> str:
    """Return the name of an option in the spelling of the user's door.

    ``argument``: the keyword argument. ``*value``: a value to show with the name: text, a boolean, a list or a mapping.
    """
    door = _DOOR.get()
    if door is Door.COMMAND_LINE:
        return " ".join([flag_name(argument), *(operand for v in value if (operand := _operand(v)))])
    if door is Door.DATA_SOURCE:
        return "=".join([text_name(argument), *map(_option_text, value)])
    return "=".join([argument, *map(repr, value)])


def choice_of(value: object, choices: Iterable[_Choice]) -> _Choice | None:
    """Return the choice that a value spells; case, dashes and underscores do not count. ``None`` if it spells none."""
    plain = _plain(value) if isinstance(value, str) else None
    return next((choice for choice in choices if _plain(choice) == plain), None)


def checked_choice(argument: str, value: object, choices: Iterable[_Choice]) -> _Choice:
    """Return the choice that the value of an option spells, see :func:`choice_of`.

    Raises
    ------
    OptionError
        If it spells none.
    """
    names = tuple(choices)
    choice = choice_of(value, names)
    if choice is None:
        raise OptionError(f"{spelled(argument, value)}: expected one of {', '.join(names)}")
    return choice


def _plain(name: str) -> str:
    return re.sub("[-_ ]", "", name).lower()


def read_with(kind: str) -> str:
    """Return the user's way to read a kind of state, such as ``read_list_state`` or ``kind='OPERATOR_LIST'``."""
    if _DOOR.get() is Door.METHODS and kind in _METHODS:
        return _METHODS[kind]
    if _DOOR.get() is Door.METHODS:
        return f"sp.arrow.read_raw_state(…, kind={kind!r})"
    return spelled("kind", "KEYED" if kind == "WINDOW" else kind)


def registering(call: str) -> str:
    """Return the user's way to call a function of this library that registers something.

    ``call``: the call in Python, such as ``register_kryo_class('com.acme.Money', …)``.
    """
    return code_or_text(call, f"{call} in a module that {spelled('serializers')} names")


def code_or_text(code: str, text: str) -> str:
    """Return the user's notation: an expression of Python or, if options are text, its text."""
    return code if _DOOR.get() in (Door.FUNCTIONS, Door.METHODS) else text


def changing(method: str) -> str:
    """Return the user's way to make a change of a method of ``SavepointWriter``."""
    return _COMMANDS[method] if _DOOR.get() is Door.COMMAND_LINE else method


def reading_as_bytes() -> str:
    """Return the way to read values of classes that the snapshot does not describe."""
    return f"read such values with {spelled('undescribed', 'bytes')} where the format has their length"


def _operand(value: Any) -> str:
    """Return a value as it follows a flag; a boolean adds no text."""
    if isinstance(value, bool):
        return ""
    if isinstance(value, Mapping):
        return " ".join(f"{_quoted(str(name))}={_quoted(str(entry))}" for name, entry in value.items())
    if isinstance(value, (list, tuple)):
        return " ".join(_quoted(str(v)) for v in value)
    return _quoted(str(value))


def _quoted(text: str) -> str:
    return repr(text) if set(text) & set(" '\"") else text


def _option_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
