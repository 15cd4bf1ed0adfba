"""Dataclasses without code that is compiled at import.

:func:`dataclasses.dataclass` compiles five methods of each frozen class when its module is imported, which takes 0.8 ms of CPU. A
read of 50 rows imports 150 such classes. Here, ``__init__`` is compiled when the class is first called, and the other methods are
closures.
"""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections.abc import Callable
from operator import attrgetter, ge, gt, le, lt
from operator import eq as equal
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, Final

_DECORATING: Final = threading.local()

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    class _FrozenParams(dataclasses._DataclassParams):
        """The parameters of a frozen class. While this decorator extends it, it does not seem frozen."""

        __slots__ = ()

        @property
        def frozen(self):
            return not getattr(_DECORATING, "now", False)

    def dataclass(cls=None, /, *, frozen=False, slots=False, eq=True, order=False, repr=True, kw_only=False):
        """Return a class with the methods of :func:`dataclasses.dataclass`.

        Parameters
        ----------
        cls
            The class; ``None`` if the decorator has arguments.
        frozen, slots, eq, order, repr, kw_only
            As for :func:`dataclasses.dataclass`.
        """

        def decorated(cls):
            if cls.__doc__ is None:
                cls.__doc__ = cls.__name__  # or dataclasses would compute its signature
            _DECORATING.now = True
            try:
                made = dataclasses.dataclass(cls, init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)
            finally:
                _DECORATING.now = False
            params = made.__dataclass_params__
            params.init, params.repr, params.eq, params.order = True, repr, eq, order
            _add_methods(made, repr, eq, order, frozen)
            if "__init__" not in made.__dict__:
                made.__init__ = _LateInit(made, frozen, slots)
            if frozen:
                params.__class__ = _FrozenParams
                _freeze(made, slots)
            return made

        return decorated if cls is None else decorated(cls)


__all__ = ["dataclass"]

_MISSING: Final = dataclasses.MISSING


class _Factory:
    """The default of a parameter whose value a factory makes."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY: Final = _Factory()


class _LateInit:
    """A descriptor that replaces itself by the compiled ``__init__`` when it is first looked up."""

    __slots__ = ("cls", "frozen", "slots")

    def __init__(self, cls: type, frozen: bool, slots: bool) -> None:
        self.cls, self.frozen, self.slots = cls, frozen, slots

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        init = _compiled_init(self.cls, self.frozen, self.slots)
        self.cls.__init__ = init  # type: ignore[misc]
        return init.__get__(instance, owner)


def _compiled_init(cls: type, frozen: bool, slots: bool) -> Any:
    fields = dataclasses.fields(cls)
    names: dict[str, Any] = {"_set": object.__setattr__, "_made": _FACTORY}
    parameters, body = ["self"], []
    keywords: list[str] = []
    for field in fields:
        name, default = field.name, f"_default_{field.name}"
        has_factory = field.default_factory is not _MISSING
        names[default] = field.default_factory if has_factory else field.default
        value = name
        if field.init:
            initial = "=_made" if has_factory else "" if field.default is _MISSING else f"={default}"
            (keywords if field.kw_only else parameters).append(name + initial)
            if has_factory:
                value = f"{default}() if {name} is _made else {name}"
        elif has_factory:
            value = f"{default}()"
        elif slots and field.default is not _MISSING:
            value = default
        else:
            continue  # a default is an attribute of the class
        body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    signature = ", ".join(parameters + (["*", *keywords] if keywords else []))
    made: dict[str, Any] = {}
    text = f"def make({', '.join(names)}):\n def __init__({signature}):\n  " + "\n  ".join(body or ["pass"])
    exec(
        f"{text}\n return __init__", vars(sys.modules.get(cls.__module__, dataclasses)), made
    )  # annotations are looked up in the module
    init = made["make"](**names)
    init.__module__, init.__qualname__ = cls.__module__, f"{cls.__qualname__}.__init__"
    init.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": None}
    return init


def _add_methods(cls: Any, repr: bool, eq: bool, order: bool, frozen: bool) -> None:
    own = cls.__dict__
    fields = dataclasses.fields(cls)
    compared = _values(field.name for field in fields if field.compare)
    if repr and "__repr__" not in own:
        cls.__repr__ = _repr([field.name for field in fields if field.repr])
    if eq:
        if own.get("__hash__") is None and ("__hash__" not in own or "__eq__" in own):
            hashed = _values(field.name for field in fields if (field.compare if field.hash is None else field.hash))
            cls.__hash__ = _hash(hashed) if frozen else None
        if "__eq__" not in own:
            cls.__eq__ = _comparison(equal, compared)
    if order:
        for name, compare in {"__lt__": lt, "__le__": le, "__gt__": gt, "__ge__": ge}.items():
            setattr(cls, name, _comparison(compare, compared))


def _values(names: Any) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function from an object to the tuple of its values."""
    names = tuple(names)
    if len(names) > 1:
        return attrgetter(*names)
    if names:
        get = attrgetter(*names)
        return lambda self: (get(self),)
    return lambda self: ()


def _repr(names: list[str]) -> Any:
    @recursive_repr()
    def shown(self: object) -> str:
        return f"{type(self).__qualname__}({', '.join([f'{name}={getattr(self, name)!r}' for name in names])})"

    return shown


def _hash(values: Callable[[Any], tuple[Any, ...]]) -> Any:
    return lambda self: hash(values(self))


def _comparison(compare: Callable[[Any, Any], Any], values: Callable[[Any], tuple[Any, ...]]) -> Any:
    def compared(self: object, other: object) -> Any:
        return compare(values(self), values(other)) if other.__class__ is self.__class__ else NotImplemented

    return compared


def _freeze(cls: Any, slots: bool) -> None:
    names = cls.__dataclass_fields__

    def refuse(self: object, name: str, doing: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot {doing} field {name!r}")

    def assign(self: object, name: str, value: object) -> None:
        refuse(self, name, "assign to")
        super(cls, self).__setattr__(name, value)

    def delete(self: object, name: str) -> None:
        refuse(self, name, "delete")
        super(cls, self).__delattr__(name)

    cls.__setattr__, cls.__delattr__ = assign, delete
    if slots:
        for name, method in {"__getstate__": _state, "__setstate__": _restore}.items():
            if name not in cls.__dict__:
                setattr(cls, name, method)


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
