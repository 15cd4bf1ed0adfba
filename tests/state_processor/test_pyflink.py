"""Values as PyFlink's workers write them; the bytes follow its coders."""

from __future__ import annotations

import os
import pickle
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor import Types, pyflink
from state_processor.serializers.base import TypeSerializer

ROW = Types.ROW_NAMED(["name", "count"], [Types.STRING(), Types.INT()])
VALUES: list[tuple[TypeSerializer, Any, str, Any]] = [
    (Types.BOOLEAN(), True, "01", True),
    (Types.BYTE(), -2, "fe", -2),
    (Types.SHORT(), 258, "0102", 258),
    (Types.INT(), -1, "ffffffff", -1),
    (Types.LONG(), 21, "0000000000000015", 21),
    (Types.DOUBLE(), 0.5, "3fe0000000000000", 0.5),
    (Types.STRING(), "é", "00000002c3a9", "é"),
    (Types.BIG_INT(), 7, "0000000000000007", 7),
    (Types.BIG_DEC(), Decimal("1.50"), "00000004312e3530", "1.50"),
    (Types.SQL_DATE(), date(1970, 1, 3), "00000002", date(1970, 1, 3)),
    (Types.SQL_TIMESTAMP(), datetime(1970, 1, 1, 0, 0, 1), "00000000000003e8", datetime(1970, 1, 1, 0, 0, 1)),
    (Types.LOCAL_DATE_TIME(), datetime(1970, 1, 1, 0, 0, 1), "00000000000003e8", datetime(1970, 1, 1, 0, 0, 1)),
    (Types.PICKLED_BYTE_ARRAY(), b"\x80", "0000000180", b"\x80"),
    (Types.PRIMITIVE_ARRAY(Types.INT()), [1, 2], "000000020000000100000002", [1, 2]),
    (Types.BASIC_ARRAY(Types.INT()), [1, None], "00000002010000000100", [1, None]),
    (Types.LIST(Types.STRING()), ["a"], "00000001010000000161", ["a"]),
    (Types.MAP(Types.STRING(), Types.INT()), {"a": None}, "00000001000000016101", [("a", None)]),
    (Types.TUPLE([Types.INT(), Types.INT()]), (1, 2), "0000000100000002", {"f0": 1, "f1": 2}),
    (Types.FLOAT(), 0.5, "3f000000", 0.5),
    (Types.CHAR(), "x", "0000000178", "x"),
    (Types.SQL_TIME(), "01:02:03.004", "0038cefc", "01:02:03.004"),
    (Types.OBJECT_ARRAY(Types.STRING()), ["a", None], "0000000201000000016100", ["a", None]),
    (Types.LIST(Types.LONG()), [1, None], "0000000201000000000000000100", [1, None]),
    (
        Types.ROW_NAMED(["a", "b"], [Types.LIST(ROW), Types.MAP(Types.STRING(), Types.LONG())]),
        {"a": [{"name": "x", "count": 1}, None], "b": {"k": 3}},
        "000000000201000000000178000000010000000001000000016b000000000000000003",
        {"a": [{"name": "x", "count": 1}, None], "b": [("k", 3)]},
    ),
    (ROW, {"name": "r", "count": None}, "100000000172", {"name": "r", "count": None}),
]


@pytest.mark.parametrize(("value_type", "value", "data", "shown"), VALUES, ids=[str(v[0]) for v in VALUES])
def test_values(value_type: TypeSerializer, value: Any, data: str, shown: Any) -> None:
    assert pyflink.encode(value, value_type).hex() == data
    assert pyflink.decode(bytes.fromhex(data), value_type) == shown


def test_a_column() -> None:
    column = pa.array([pyflink.encode({"name": "a", "count": 1}, ROW), None], pa.binary())
    decoded = pyflink.decode_column(column, ROW)
    assert decoded.type == pa.struct([("name", pa.string()), ("count", pa.int32())])
    assert decoded.to_pylist() == [{"name": "a", "count": 1}, None]


def test_bytes_of_another_type() -> None:
    with pytest.raises(sp.CorruptSnapshotError, match="left over"):
        pyflink.decode(bytes(9), Types.LONG())
    with pytest.raises(sp.UnsupportedFormatError, match="lacks a coder for values of type EITHER"):
        pyflink.decode(b"", Types.EITHER(Types.LONG(), Types.LONG()))


class Harmful:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.getenv, ("PATH",)


def test_pickles_are_loaded_by_load_pickle_alone() -> None:
    data = pyflink.encode(pickle.dumps(Harmful()), Types.PICKLED_BYTE_ARRAY())
    assert pyflink.decode(data, Types.PICKLED_BYTE_ARRAY()) == pickle.dumps(Harmful())
    assert pyflink.load_pickle(data) == os.environ["PATH"]
    with pytest.raises(sp.UndecodableValueError, match="can't be loaded"):
        pyflink.load_pickle(b"\0\0\0\1x")


def test_names() -> None:
    assert sp.pyflink.state_name("count") == "python-state-count"
