"""One snapshot for subtasks that found different subclasses."""

from __future__ import annotations

import pytest

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.pojo import PojoSerializer
from state_processor.serializers.core.pojo_fields import PojoField
from state_processor.serializers.shared_types import merged
from state_processor.types.flink_types import Types

T = Types


def shape(*, fields: tuple[str, ...] = ("name",), registered: tuple[str, ...] = (), **unregistered: str) -> PojoSerializer:
    """A POJO with subclasses, each with one more field of a type."""
    own = [PojoField(name, T.STRING(), "Shape") for name in fields]

    def subclass(name: str, type_: TypeSerializer) -> PojoSerializer:
        return PojoSerializer(name, [*own, PojoField("more", type_, name)])

    return PojoSerializer(
        "Shape",
        own,
        {name: subclass(name, T.LONG()) for name in registered},
        {name: subclass(name, getattr(T, type_)()) for name, type_ in unregistered.items()},
    )


CIRCLE, SQUARE = shape(Circle="DOUBLE"), shape(Square="LONG")
BOTH = shape(Circle="DOUBLE", Square="LONG")


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (CIRCLE, CIRCLE, CIRCLE),
        (CIRCLE, SQUARE, BOTH),
        (shape(), SQUARE, SQUARE),
        (T.LIST(CIRCLE), T.LIST(SQUARE), T.LIST(BOTH)),
        (T.TUPLE([T.LONG(), CIRCLE]), T.TUPLE([T.LONG(), SQUARE]), T.TUPLE([T.LONG(), BOTH])),
        (
            T.POJO("Drawing", {"shape": CIRCLE, "size": T.INT()}),
            T.POJO("Drawing", {"shape": SQUARE, "size": T.INT()}),
            T.POJO("Drawing", {"shape": BOTH, "size": T.INT()}),
        ),
    ],
    ids=str,
)
def test_subclasses_of_both(one: TypeSerializer, other: TypeSerializer, expected: TypeSerializer) -> None:
    found = merged(one.snapshot(), other.snapshot())
    assert found is not None
    assert found.to_bytes() == expected.snapshot().to_bytes()
    for serializer in (one, other):
        value = serializer.serialize(serializer.from_column(None)) if isinstance(serializer, PojoSerializer) else b""
        assert not value or found.restore_serializer().deserialize(value) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (T.LONG(), T.INT()),
        (T.LIST(T.LONG()), T.LIST(T.INT())),
        (T.LIST(T.LONG()), T.MAP(T.LONG(), T.LONG())),
        (T.TUPLE([T.LONG()]), T.TUPLE([T.LONG(), T.LONG()])),
        (T.ENUM("Color", ["RED"]), T.ENUM("Color", ["RED", "GREEN"])),
        (shape(Circle="DOUBLE"), shape(Circle="LONG")),
        (shape(), shape(fields=("label", "name"))),
        (shape(registered=("A", "B")), shape(registered=("B", "A"))),
    ],
    ids=str,
)
def test_other_differences(one: TypeSerializer, other: TypeSerializer) -> None:
    assert merged(one.snapshot(), other.snapshot()) is None
