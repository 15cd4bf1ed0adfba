"""The decorator has the methods of the standard library's."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import field, fields, replace
from typing import Any, get_type_hints

import pytest

from state_processor.serializers.records import dataclass


def _point(decorator: Any, **options: Any) -> Any:
    @decorator(**options)
    class Point:
        """A point."""

        x: int
        y: str = field(default="", compare=False)
        tags: list[int] = field(default_factory=list, repr=False, compare=False)
        length: int = field(init=False, default=7)

    return Point


OPTIONS: list[dict[str, bool]] = [
    {},
    {"slots": True},
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "order": True},
    {"frozen": True, "eq": False},
    {"frozen": True, "repr": False},
    {"kw_only": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options) or "none")
def test_as_the_standard_library(options: dict[str, bool]) -> None:
    ours, theirs = _point(dataclass, **options), _point(dataclasses.dataclass, **options)
    assert str(inspect.signature(ours)) == str(inspect.signature(theirs))
    assert [f.name for f in fields(ours)] == [f.name for f in fields(theirs)]
    assert ours.__match_args__ == theirs.__match_args__
    for made in ((ours(x=1), ours(x=1, y="a"), ours(x=2)), (theirs(x=1), theirs(x=1, y="a"), theirs(x=2))):
        one, same, other = made
        assert (one == same, one == other, one != (1, "")) == (options.get("eq", True), False, True)
        assert (one.tags, one.length) == ([], 7)
        assert one.tags is not same.tags
        assert (one < other) if "order" in options else not hasattr(type(one), "__dict__") or "__lt__" not in type(one).__dict__
        assert replace(one, x=5).x == 5
    assert (ours.__hash__ is None) == (theirs.__hash__ is None)
    if ours.__hash__ is not None and options.get("eq", True):
        assert hash(ours(x=1)) == hash(theirs(x=1))
    if options.get("repr", True):
        assert repr(ours(x=1)) == repr(theirs(x=1))
    for wrong in ({}, {"x": 1, "length": 3}, {"z": 1}):
        with pytest.raises(TypeError):
            ours(**wrong)


@pytest.mark.parametrize("slots", [True, False])
def test_frozen_objects_do_not_change(slots: bool) -> None:
    one = _point(dataclass, frozen=True, slots=slots)(1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        one.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
        del one.x


@dataclass(frozen=True, slots=True)
class Base:
    a: int


@dataclass(frozen=True, slots=True)
class Derived(Base):
    b: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "b", (*self.b, self.a))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Derived) and self.a == other.a


@dataclass(frozen=True, slots=True)
class _Own:
    number: int

    def __init__(self, text: str) -> None:
        object.__setattr__(self, "number", int(text))

    def __repr__(self) -> str:
        return "own"

    def __hash__(self) -> int:
        return 3


def test_classes_that_extend_each_other() -> None:
    made = Derived(1, (2,))
    assert (made.a, made.b, repr(made)) == (1, (2, 1), "Derived(a=1, b=(2, 1))")
    assert made == Derived(1, (5,))
    assert get_type_hints(Derived.__init__) == {"a": int, "b": tuple[int, ...], "return": type(None)}
    assert {made, Base(1)} == {made, Base(1)}
    assert (Base(1) == Base(1)) is True
    assert Base(1) != made
    assert pickle.loads(pickle.dumps(made)).b == copy.copy(made).b == (2, 1)


def test_own_methods_stay() -> None:
    own = _Own("4")
    assert (own.number, repr(own), hash(own)) == (4, "own", 3)
    assert own == _Own("4")


@dataclasses.dataclass(frozen=True, slots=True)
class _OfUser(Derived):
    c: int = 3

    def __post_init__(self) -> None:
        object.__setattr__(self, "c", self.c + 1)


def test_the_standard_library_extends_the_classes() -> None:
    made = _OfUser(1, (2,))
    assert repr(made) == "_OfUser(a=1, b=(2,), c=4)"
    assert pickle.loads(pickle.dumps(made)) == made
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'a'"):
        made.a = 2  # type: ignore[misc]
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):

        @dataclasses.dataclass
        class Changing(Derived):
            c: int = 3


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options) or "none")
def test_parameters_of_a_class_are_as_those_of_the_standard_library(options: dict[str, bool]) -> None:
    ours, theirs = _point(dataclass, **options), _point(dataclasses.dataclass, **options)
    for name in ("init", "repr", "eq", "order", "frozen"):
        assert getattr(ours.__dataclass_params__, name) == getattr(theirs.__dataclass_params__, name)
