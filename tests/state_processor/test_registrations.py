"""What users register in the driver is known in tasks."""

from __future__ import annotations

import pickle

import pytest
from pyspark.sql import SparkSession

from state_processor.portable_registrations import import_serializers, portable_registrations
from state_processor.serializers import register_kryo_class, registry
from state_processor.serializers.base import SimpleTypeSerializerSnapshot
from state_processor.serializers.core import pojo
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.kryo import classes
from state_processor.serializers.registrations import Registrations


class MoneySnapshot(SimpleTypeSerializerSnapshot):
    serializer = NumberSerializer("LONG")


@pytest.fixture
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    registry.user_snapshots()  # Flink's own are loaded before the copies are made
    monkeypatch.setattr(registry, "_REGISTERED", dict(registry._INSTALLED))
    monkeypatch.setattr(classes, "_USER_CLASSES", {})
    monkeypatch.setattr(pojo, "_DESCRIBED", {})
    monkeypatch.setattr(pojo, "_PRIMITIVE_FIELDS", {})


def register_classes() -> None:
    register_kryo_class("com.acme.Point", {"x": "int"})
    pojo.register_pojo_class("com.acme.Circle", {"radius": NumberSerializer("DOUBLE")}, "com.acme.Shape")
    pojo.register_primitive_fields("com.acme.Circle", ["radius"])


@pytest.mark.usefixtures("nothing_registered")
def test_what_is_installed_does_not_travel() -> None:
    assert not Registrations.current()
    assert portable_registrations() == ()


@pytest.mark.usefixtures("nothing_registered")
def test_registrations_are_the_same_after_travelling(monkeypatch: pytest.MonkeyPatch) -> None:
    register_classes()
    registry.register_snapshot("com.acme.MoneySnapshot", MoneySnapshot)
    (text,) = portable_registrations()
    monkeypatch.setattr(registry, "_REGISTERED", dict(registry._INSTALLED))
    monkeypatch.setattr(classes, "_USER_CLASSES", {})
    monkeypatch.setattr(pojo, "_DESCRIBED", {})
    monkeypatch.setattr(pojo, "_PRIMITIVE_FIELDS", {})
    import_serializers([text])
    found = Registrations.current()
    assert found.snapshots == {"com.acme.MoneySnapshot": MoneySnapshot}
    assert [(c.name, [name for name, _ in c.in_order]) for c in found.kryo_classes] == [("com.acme.Point", ["x"])]
    assert found.primitive_fields == {"com.acme.Circle": frozenset({"radius"})}
    assert found.pojo_classes == {"com.acme.Shape": {"com.acme.Circle": {"radius": NumberSerializer("DOUBLE")}}}


@pytest.mark.usefixtures("nothing_registered")
def test_tasks_know_what_the_driver_registered_and_nothing_else(spark: SparkSession) -> None:
    def known(members: tuple[str, ...]) -> set[str]:
        def names(batches):  # type: ignore[no-untyped-def]
            import pyarrow as pa

            from state_processor.portable_registrations import import_serializers
            from state_processor.serializers.registrations import Registrations

            import_serializers(members)
            current = Registrations.current()
            found = [c.name for c in current.kryo_classes] + [c for classes in current.pojo_classes.values() for c in classes]
            for _ in batches:
                yield pa.RecordBatch.from_pydict({"name": pa.array(found, pa.string())})

        return {row.name for row in spark.range(8, numPartitions=4).mapInArrow(names, "name string").collect()}

    register_classes()
    assert known(portable_registrations()) == {"com.acme.Point", "com.acme.Circle"}
    assert known(()) == set()  # in workers that the first tasks have used


def test_serializers_can_be_pickled() -> None:
    for serializer in (NumberSerializer("LONG"), StringSerializer()):
        assert pickle.loads(pickle.dumps(serializer)) == serializer
