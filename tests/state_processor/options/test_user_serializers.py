"""What users register: scopes, threads, and the way from the driver to tasks."""

from __future__ import annotations

import copy
import pickle
import re
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor.errors import OptionError
from state_processor.options.data_sources import SinkOptions, SourceOptions
from state_processor.options.user_serializers import TaskSerializers, allowed_modules, check_allowed
from state_processor.serializers import (
    read_serializer_snapshot,
    register_kryo_class,
    register_pojo_class,
    register_primitive_fields,
    register_snapshot,
    registrations,
)
from state_processor.serializers.base import SimpleTypeSerializerSnapshot
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.java.types import JavaType, KryoClass
from state_processor.serializers.kryo.serializer import KryoSerializer
from state_processor.serializers.registry import (
    Registrations,
    begin_task,
    current_registrations,
    receive,
    register,
    user_registrations,
)
from tests.state_processor.samples import ORDERS_PATH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTHING = Registrations()


class MoneySnapshot(SimpleTypeSerializerSnapshot):
    serializer = NumberSerializer("LONG")


def read_point(reader: Any) -> Any:
    return reader.int_()


KRYO_CLASSES = (
    KryoClass(
        "com.acme.Point",
        (("x", JavaType("int")), ("tags", JavaType.parse("java.util.List<java.lang.String>[]"))),
        final=True,
    ),
    KryoClass("com.acme.Tier", constants=("GOLD", "SILVER"), final=True),
    KryoClass("com.acme.Shape", abstract=True),
    KryoClass("com.acme.Coded", read=read_point),
)


@pytest.fixture
def nothing_registered(own_registrations: None) -> None:
    register(lambda _: NOTHING)


def register_classes() -> None:
    register_kryo_class("com.acme.Point", {"x": "int", "tags": "java.util.List<java.lang.String>[]"}, final=True)
    register_kryo_class("com.acme.Tier", ["GOLD", "SILVER"])
    register_kryo_class("com.acme.Shape", None)
    register_kryo_class("com.acme.Coded", read_point)
    circle = {"radius": NumberSerializer("DOUBLE"), "tags": KryoSerializer("java.util.List<java.lang.String>")}
    register_pojo_class("com.acme.Circle", circle, "com.acme.Shape")
    register_primitive_fields("com.acme.Circle", ["radius"])
    register_snapshot("com.acme.MoneySnapshot", MoneySnapshot)


def names() -> set[str]:
    found = current_registrations()
    subclasses = (name for classes in found.pojo_subclasses.values() for name in classes)
    return {*found.snapshots, *found.kryo_classes, *found.primitive_fields, *subclasses}


def names_of_acme() -> set[str]:
    """Names without those of plug-ins, which other tests use, and of modules that tests import in workers."""
    return {name for name in names() if name.startswith("com.acme.")}


def test_scopes_undo_what_is_registered_inside() -> None:
    before = names()
    with registrations():
        register_primitive_fields("com.acme.Outer", [])
        with registrations():
            register_kryo_class("com.acme.Inner", None)
            copy.copy(KryoSerializer("com.acme.Inner"))
            assert names() - before == {"com.acme.Outer", "com.acme.Inner"}
        assert names() - before == {"com.acme.Outer"}
    assert names() == before


def test_threads_do_not_see_scopes_of_others() -> None:
    before = names()
    with registrations(), ThreadPoolExecutor(1) as other:
        register_kryo_class("com.acme.Here", None)
        assert other.submit(names).result() == before


def test_threads_register_at_once() -> None:
    before = user_registrations()
    with ThreadPoolExecutor(8) as threads:
        for _ in threads.map(lambda n: register_kryo_class(f"com.acme.C{n}", None), range(200)):
            pass
    try:
        assert {f"com.acme.C{n}" for n in range(200)} <= names()
    finally:
        register(lambda _: before)


@pytest.mark.usefixtures("nothing_registered")
def test_what_is_installed_does_not_travel() -> None:
    with pytest.raises(sp.UnknownSerializerError):
        read_serializer_snapshot(b"\0\1x\0\0\0\1")  # all installed ones are loaded
    assert not user_registrations()
    assert not TaskSerializers.of_driver(())


@pytest.mark.usefixtures("nothing_registered")
def test_registrations_are_the_same_after_travelling() -> None:
    register_classes()
    sent = TaskSerializers.of_driver(["acme.serializers"])
    found = pickle.loads(pickle.dumps(sent))
    assert found.content == sent.content
    assert found.registrations.snapshots == {"com.acme.MoneySnapshot": MoneySnapshot}
    fields = found.registrations.pojo_subclasses["com.acme.Shape"]["com.acme.Circle"]
    assert {name: str(type_) for name, type_ in fields.items()} == {
        "radius": "DOUBLE",
        "tags": "KRYO<java.util.List<java.lang.String>>",
    }
    assert found.with_modules(["acme.more", "acme.serializers"]).modules == ("acme.serializers", "acme.more")


class Exploding:
    """What a pickle does to who loads it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_options_are_not_unpickled(tmp_path: Path, spark: SparkSession) -> None:
    harmful = "registered:" + b64encode(pickle.dumps(Exploding(tmp_path / "harm"))).decode()
    sp.register(spark)
    source = spark.read.format("flink-savepoint").option("uid", "shapes").option("serializers", harmful)
    with pytest.raises(sp.OptionError, match=r"serializers=.*expected names of modules"):
        source.load(ORDERS_PATH)
    with pytest.raises(sp.OptionError, match="expected names of modules"):
        sp.SavepointReader.read(spark, ORDERS_PATH, serializers=[harmful])
    assert not (tmp_path / "harm").exists()


def test_modules_about_options_do_not_load_pickles() -> None:
    package = Path(sp.__file__).parent
    modules = [package / name for name in ("reader.py", "spark/datasource.py", "spark/sink.py")]
    modules += [*package.glob("read/*.py"), *package.glob("options/*.py"), *package.glob("types/*.py")]
    assert len(modules) > 6
    assert [m.name for m in modules if re.search(r"pickle\.loads?\b|import (cloud)?pickle", m.read_text("utf-8"))] == []


@pytest.mark.usefixtures("nothing_registered")
def test_tasks_know_what_the_driver_registered_and_nothing_else(spark: SparkSession) -> None:
    def known(serializers: TaskSerializers) -> set[str]:
        def found(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            serializers.enter()
            for _ in batches:
                yield pa.RecordBatch.from_pydict({"name": pa.array(sorted(names_of_acme()), pa.string())})

        return {row.name for row in spark.range(8, numPartitions=4).mapInArrow(found, "name string").collect()}

    register_classes()
    assert known(TaskSerializers.of_driver(())) == names_of_acme()
    assert known(TaskSerializers()) == set()  # in workers that the first tasks have used


def test_tasks_drop_what_came_before() -> None:
    with registrations():
        register(lambda _: NOTHING)
        before = names()
        begin_task(NOTHING.with_primitive_fields("com.acme.First", frozenset()))
        receive({"com.acme.Pickled": KRYO_CLASSES[0]})
        assert names() - before >= {"com.acme.First", "com.acme.Pickled"}
        begin_task(NOTHING.with_primitive_fields("com.acme.Second", frozenset()))
        assert not {"com.acme.First", "com.acme.Pickled"} & names()


@pytest.mark.usefixtures("nothing_registered")
def test_code_of_a_notebook_is_known_in_tasks(spark: SparkSession, tmp_path: Path) -> None:
    def write(writer: Any, value: int) -> None:
        writer.int_(value + 1)

    register_kryo_class("com.acme.Counted", lambda reader: reader.int_() - 1, write=write)
    counted = sp.ValueState(sp.Types.KRYO("com.acme.Counted"))
    rows = spark.sql("SELECT 'k' AS key, '41' AS count")
    sp.SavepointWriter.new(spark).with_keyed_state("op", rows, states={"count": counted}).write(tmp_path / "savepoint")
    reader = sp.SavepointReader.read(spark, tmp_path / "savepoint")
    for _ in range(2):  # the second read finds the format
        assert [tuple(row) for row in reader.read_keyed_state("op", "count").collect()] == [("k", "41")]
    assert [row.state_name for row in reader.states().collect()] == ["count"]


def test_serializers_can_be_pickled() -> None:
    for serializer in (NumberSerializer("LONG"), StringSerializer()):
        assert pickle.loads(pickle.dumps(serializer)) == serializer


@pytest.mark.parametrize(
    ("allowed", "module"),
    [("acme", "acme"), ("acme.one", "acme.one"), ("acme.*", "acme"), ("acme.*", "acme.one.two"), ("x, acme.one", "acme.one")],
)
def test_allowed(allowed: str, module: str) -> None:
    check_allowed([module], allowed_modules(allowed))


@pytest.mark.parametrize(
    ("allowed", "module"),
    [("", "acme"), ("acme", "acme.one"), ("acme.one", "acme"), ("acme.*", "acmeevil"), ("acme.*", "acm"), ("acme.one.*", "acme")],
)
def test_not_allowed(allowed: str, module: str) -> None:
    with pytest.raises(OptionError) as refused:
        check_allowed([module], allowed_modules(allowed))
    message = str(refused.value)
    assert message.startswith(f"option serializers: module {module!r} is not allowed")
    assert f"spark.stateProcessor.serializers.allowed={module}" in message
    assert f"register(spark, allow_serializers=[{module!r}])" in message


@pytest.mark.parametrize("name", ["*", ".*", "acme.", "acme*", "acme.*.one", ".acme", "a b"])
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(OptionError, match=r"allowed serializers: .* is not the name of a module"):
        allowed_modules(["fine", name])


def test_options_of_every_format_are_checked() -> None:
    given = {"path": "/p", "serializers": "acme.one"}
    for source in ("flink-savepoint", "flink-savepoint-metadata"):
        with pytest.raises(OptionError, match=r"module 'acme\.one' is not allowed"):
            SourceOptions.parse(given, source)
        assert SourceOptions.parse(given, source, ["acme.*"]).access.serializers == ("acme.one",)
    with pytest.raises(OptionError, match=r"module 'acme\.one' is not allowed"):
        SinkOptions.parse(given | {"uid": "orders"})
    assert SinkOptions.parse(given | {"uid": "orders"}, ["acme.one"]).access.serializers == ("acme.one",)
