"""Writes with serializers of users that fail, and of rows whose snapshots hold the names of fields."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor import Types
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.stored_operator import find_operator, state_variants
from state_processor.serializers import (
    DataInput,
    DataOutput,
    DecodeOptions,
    TypeSerializer,
    TypeSerializerSnapshot,
    read_serializer_snapshot,
    register_snapshot,
    registrations,
)
from state_processor.serializers.table.rowdata import ROW_SNAPSHOT, RowDataSerializerSnapshot
from state_processor.write.build import SavepointBuild

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

MONEY = "com.acme.MoneySnapshot"
ERRORS = {"KeyError": KeyError, "AssertionError": AssertionError, "AttributeError": AttributeError}


class Money(TypeSerializer):
    def __init__(self, method: str = "", error: str = "") -> None:
        self.failing = method, error

    def _fail(self, method: str) -> None:
        if self.failing[0] == method:
            raise ERRORS[self.failing[1]]("amount")

    def __str__(self) -> str:
        return "MONEY"

    def read(self, source: DataInput) -> Any:
        return source.read_long()

    def write(self, value: Any, target: DataOutput) -> None:
        self._fail("write")
        target.write_long(value)

    def from_column(self, value: Any) -> Any:
        self._fail("from_column")
        return value

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.int64()

    def hash_code(self, value: Any) -> int:
        self._fail("hash_code")
        return int(value) & 0x7F

    def snapshot(self) -> TypeSerializerSnapshot:
        return MoneySnapshot(MONEY, self.failing)


class MoneySnapshot(TypeSerializerSnapshot):
    def __init__(self, class_name: str, failing: tuple[str, str]) -> None:
        super().__init__(class_name, 1)
        self.failing = failing

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> TypeSerializerSnapshot:
        return cls(class_name, (source.read_utf(), source.read_utf()))

    def write(self, target: DataOutput) -> None:
        for text in self.failing:
            target.write_utf(text)

    def restore_serializer(self) -> TypeSerializer:
        return Money(*self.failing)


@pytest.fixture
def own_classes() -> Iterator[None]:
    with registrations():
        register_snapshot(MONEY, MoneySnapshot)
        yield


@pytest.mark.usefixtures("own_classes")
@pytest.mark.parametrize(
    ("method", "error"), [("write", "KeyError"), ("from_column", "AssertionError"), ("hash_code", "AttributeError")]
)
def test_an_error_while_writing_names_class_operator_and_state(
    spark: SparkSession, tmp_path: Path, method: str, error: str
) -> None:
    money = Money(method, error)
    key = money if method == "hash_code" else Types.LONG()
    writer = sp.SavepointWriter.new(spark, max_parallelism=4)
    rows = spark.createDataFrame([(1, 7)], "id BIGINT, price BIGINT")
    with pytest.raises(sp.StateProcessorError, match=rf"(?s)operator shop.*state 'price'.*test_users_and_names\.Money.*{error}"):
        writer.with_keyed_state("shop", rows, key="id", key_type=key, states={"price": sp.ValueState(money)}).write(
            tmp_path / "new"
        )
    assert not (tmp_path / "new" / "_metadata").exists()


def _named(ddl: str) -> TypeSerializer:
    """The type of rows whose snapshot has version 4 and the names."""
    new = Types.ROW_DATA(ddl).snapshot()
    assert isinstance(new, RowDataSerializerSnapshot)
    names = [part.split()[0] for part in ddl.split(", ")]
    snapshot = RowDataSerializerSnapshot(ROW_SNAPSHOT, new.types, new.nested, 4, names)
    return read_serializer_snapshot(snapshot.to_bytes()).restore_serializer()


def test_names_in_snapshots_are_columns_and_stay(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, value = _named("user BIGINT NOT NULL"), _named("amount BIGINT, note STRING")
    rows = spark.sql(
        "SELECT struct(id AS user) AS key, struct(id * 10 AS amount, 'x' AS note) AS total, "
        "array(struct(id AS amount, 'l' AS note)) AS list FROM range(3)"
    )
    states = {"total": sp.ValueState(value), "list": sp.ListState(value, ttl="PT1H")}
    writer = sp.SavepointWriter.new(spark, max_parallelism=4)
    with monkeypatch.context() as unchecked:  # no label allows version 4, which a later Flink writes
        unchecked.setattr(SavepointBuild, "_check_release", lambda build: None)
        writer.with_keyed_state("sql", rows, key="key", key_type=key, states=states).write(tmp_path / "old")
    change = spark.sql("SELECT struct(1L AS user) AS key, struct(77L AS amount, 'y' AS note) AS value")
    sp.SavepointWriter.from_existing(spark, tmp_path / "old").update_keyed_state("sql", "total", change).write(tmp_path / "new")
    reader = sp.SavepointReader.read(spark, tmp_path / "new")
    found = reader.read_keyed_state("sql", "total").selectExpr("key.user", "value.amount", "value.note").collect()
    assert sorted(map(tuple, found)) == [(0, 0, "x"), (1, 77, "y"), (2, 20, "x")]
    assert reader.read_keyed_state("sql", "list").selectExpr("list_value.note").first() == ("l",)
    for path in ("old", "new"):
        snapshot = open_snapshot(str(tmp_path / path))
        operator = find_operator(snapshot, "sql")
        for variants in state_variants(snapshot, operator).values():
            state = variants[0]
            held = [
                s.value if state.has_ttl and role == "value" else s
                for role, s in state.serializers.items()
                if role != "namespace"
            ]
            assert [s.snapshot().version for s in held] == [4, 4]
    with pytest.raises(sp.OptionError, match="the snapshot names it 'amount'"):
        reader.read_keyed_state("sql", "total", fields={"total": ["note", "amount"]})
    wider = Types.ROW_DATA("note STRING, amount BIGINT, more INT")
    assert reader.check_compatibility("sql", "total", wider).is_incompatible
    assert reader.check_compatibility("sql", "total", wider, schema_evolution=True).verdict.name == "COMPATIBLE_AFTER_MIGRATION"
    assert (
        reader.check_compatibility("sql", "list", Types.LIST(wider), schema_evolution=True).verdict.name
        == "COMPATIBLE_AFTER_MIGRATION"
    )
