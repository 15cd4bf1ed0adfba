"""Serializers of users with the names that members had in earlier versions."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from state_processor.serializers import DataInput, DataOutput, DecodeOptions, SimpleSerializer
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.basic import NumberSerializer
from state_processor.serializers.core.collections import ListSerializer
from state_processor.serializers.core.tuples import TupleSerializer

OPTIONS = DecodeOptions()


class Money(SimpleSerializer):
    """Cents as text, by former names."""

    snapshot_class = "com.acme.MoneySnapshot"
    length = smallest = 8

    def __str__(self) -> str:
        return "MONEY"

    def read(self, source: DataInput) -> int:
        return source.read_long()

    def write(self, value: int, target: DataOutput) -> None:
        target.write_long(value)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.string()

    def present(self, value: int, options: DecodeOptions) -> str:
        return f"{value / 100:.2f}"

    def accept(self, value: str) -> int:
        return round(float(value) * 100)

    def emit(self, builder: Any, column: Any) -> None:
        raise AssertionError("called by its former name")

    @property
    def can_find_end(self) -> bool:
        return False


class Doubled(Money):
    """A class that calls the method of its parent."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.smallest = size

    def present(self, value: int, options: DecodeOptions) -> str:
        return super().present(value, options) * 2


def test_members_with_former_names_are_used() -> None:
    money = Money()
    assert money.min_size == 8
    assert not money.self_delimiting
    assert money.to_column(500, OPTIONS) == "5.00"
    assert money.from_column("5.00") == money.key_from_column("5.00") == 500
    assert type(money).emit_decode is Money.emit
    inside = ListSerializer(money)
    assert inside.to_column([500], OPTIONS) == ["5.00"]
    assert inside.from_column(["5.00"]) == [500]


def test_parents_are_called_by_former_names() -> None:
    assert Doubled(3).to_column(500, OPTIONS) == "5.005.00"
    assert Doubled(3).min_size == 3


def test_serializers_of_flink_have_former_names_too() -> None:
    serializer: Any = TupleSerializer([NumberSerializer("LONG"), NumberSerializer("INT")])
    assert serializer.smallest == serializer.min_size == 12
    assert serializer.accept({"f0": 1, "f1": 2}) == (1, 2)
    assert serializer.present((1, 2), OPTIONS) == {"f0": 1, "f1": 2}
    assert serializer.can_find_end
    assert serializer.filling() is serializer
    assert issubclass(TupleSerializer, TypeSerializer)
