from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from state_processor import Types
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.stored_operator import find_operator, operator_states
from state_processor.errors import OptionError
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.decode_options import DecodeOptions
from tests.state_processor.samples import ORDERS_PATH, TYPES_PATH

ADDRESS = Types.POJO("io.stateprocessor.interop.Address", {"street": Types.STRING(), "city": Types.STRING(), "zip": Types.INT()})
WRITTEN: dict[str, TypeSerializer] = {
    "boolean": Types.BOOLEAN(),
    "byte": Types.BYTE(),
    "short": Types.SHORT(),
    "int": Types.INT(),
    "long": Types.LONG(),
    "float": Types.FLOAT(),
    "double": Types.DOUBLE(),
    "char": Types.CHAR(),
    "string": Types.STRING(),
    "big-dec": Types.BIG_DEC(),
    "big-int": Types.BIG_INT(),
    "date": Types.DATE(),
    "sql-date": Types.SQL_DATE(),
    "sql-time": Types.SQL_TIME(),
    "sql-timestamp": Types.SQL_TIMESTAMP(),
    "local-date": Types.LOCAL_DATE(),
    "local-time": Types.LOCAL_TIME(),
    "local-date-time": Types.LOCAL_DATE_TIME(),
    "instant": Types.INSTANT(),
    "bytes": Types.BYTES(),
    "boolean-array": Types.PRIMITIVE_ARRAY(Types.BOOLEAN()),
    "short-array": Types.PRIMITIVE_ARRAY(Types.SHORT()),
    "int-array": Types.PRIMITIVE_ARRAY(Types.INT()),
    "long-array": Types.PRIMITIVE_ARRAY(Types.LONG()),
    "float-array": Types.PRIMITIVE_ARRAY(Types.FLOAT()),
    "double-array": Types.PRIMITIVE_ARRAY(Types.DOUBLE()),
    "char-array": Types.PRIMITIVE_ARRAY(Types.CHAR()),
    "string-array": Types.BASIC_ARRAY(Types.STRING()),
    "boxed-long-array": Types.BASIC_ARRAY(Types.LONG()),
    "tuple": Types.TUPLE([Types.STRING(), Types.INT(), Types.DOUBLE()]),
    "row": Types.ROW_NAMED(
        ["name", "count", "inner"], [Types.STRING(), Types.LONG(), Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])]
    ),
    "row-positional": Types.ROW([Types.STRING(), Types.INT()]),
    "list": Types.LIST(Types.STRING()),
    "map": Types.MAP(Types.STRING(), Types.LONG()),
    "nested": Types.MAP(Types.STRING(), Types.LIST(Types.TUPLE([Types.INT(), Types.STRING()]))),
    "either": Types.EITHER(Types.STRING(), Types.LONG()),
    "enum": Types.ENUM("io.stateprocessor.interop.Tier", ["BRONZE", "SILVER", "GOLD"]),
    "nullable": Types.NULLABLE(Types.LONG()),
    "pojo": ADDRESS,
    "object-array": Types.OBJECT_ARRAY(ADDRESS),
}


@pytest.fixture(scope="module")
def written() -> dict[str, Any]:
    snapshot = open_snapshot(TYPES_PATH)
    return operator_states(snapshot, find_operator(snapshot, uid="types"))


@pytest.mark.parametrize("name", WRITTEN)
def test_a_type_describes_itself_as_flink_does(name: str, written: dict[str, Any]) -> None:
    """The bytes of the serializer snapshot equal Flink's bytes; Flink restores by these bytes."""
    assert WRITTEN[name].snapshot().to_bytes() == written[name].value.snapshot().to_bytes()


def test_no_type_of_the_fixture_is_left_out(written: dict[str, Any]) -> None:
    assert {n for n, s in written.items() if not s.is_timer} == WRITTEN.keys()


def test_lists_and_maps_of_pojos() -> None:
    snapshot = open_snapshot(ORDERS_PATH)
    profile = operator_states(snapshot, find_operator(snapshot, uid="orders"))["profile"].value
    assert profile is not None
    made = Types.POJO(
        "io.stateprocessor.interop.Profile",
        {
            "name": Types.STRING(),
            "email": Types.STRING(),
            "tier": Types.ENUM("io.stateprocessor.interop.Tier", ["BRONZE", "SILVER", "GOLD"]),
            "discount": Types.DOUBLE(),
            "active": Types.BOOLEAN(),
            "since": Types.LOCAL_DATE(),
            "address": ADDRESS,
            "tags": Types.LIST(Types.STRING()),
            "visits": Types.MAP(Types.STRING(), Types.LONG()),
        },
    )
    assert made.arrow_type(DecodeOptions()) == profile.arrow_type(DecodeOptions())
    assert made.snapshot().to_bytes() == profile.snapshot().to_bytes()


def test_avro() -> None:
    schema = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": "string"}]}
    assert Types.AVRO(schema).arrow_type(DecodeOptions()) == pa.struct([("id", pa.int64()), ("note", pa.string())])


def test_object_arrays_name_the_class_of_their_elements() -> None:
    classes: Sequence[tuple[TypeSerializer, str]] = [
        (ADDRESS, "io.stateprocessor.interop.Address"),
        (Types.TUPLE([Types.INT(), Types.INT()]), "org.apache.flink.api.java.tuple.Tuple2"),
        (Types.ROW([Types.INT()]), "org.apache.flink.types.Row"),
        (Types.STRING(), "java.lang.String"),
        (Types.LONG(), "java.lang.Long"),
        (Types.LIST(Types.LONG()), "java.util.List"),
    ]
    for element, class_name in classes:
        assert vars(Types.OBJECT_ARRAY(element))["component_class"] == class_name
    assert vars(Types.OBJECT_ARRAY(Types.LONG(), "java.lang.Number"))["component_class"] == "java.lang.Number"


def test_types_that_flink_does_not_have() -> None:
    with pytest.raises(OptionError, match="2 names for 1 types"):
        Types.ROW_NAMED(["a", "b"], [Types.INT()])
    with pytest.raises(OptionError, match="26 fields"):
        Types.TUPLE([Types.INT()] * 26)
    with pytest.raises(OptionError, match="PRIMITIVE_ARRAY of STRING"):
        Types.PRIMITIVE_ARRAY(Types.STRING())
    with pytest.raises(OptionError, match="BASIC_ARRAY of DATE"):
        Types.BASIC_ARRAY(Types.DATE())
