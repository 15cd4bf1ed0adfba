"""Types of columns with what Arrow types do not express."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.decode_options import WIDEST, ColumnType, DecodeOptions, plain, plain_schema
from state_processor.types.flink_types import Types

T = Types
READING = DecodeOptions(describe="for_reading")
NANOS, MICROS = T.ROW_DATA("a TIMESTAMP(9), b TIMESTAMP_LTZ(3)"), T.ROW_DATA("a TIMESTAMP(6)")


@pytest.mark.parametrize(
    ("type_", "domain"), [(T.BIG_INT(), "whole"), (T.BIG_DEC(), "number"), (T.STRING(), None), (T.LONG(), None)], ids=str
)
def test_domains_are_told_to_writers(type_: TypeSerializer, domain: str | None) -> None:
    described, options = type_.arrow_type(WIDEST), DecodeOptions()
    assert (described.domain if isinstance(described, ColumnType) else None) == domain
    assert plain(described) == type_.arrow_type(options) == type_.arrow_type(READING)


def test_nanoseconds_are_told_to_readers() -> None:
    a, b = NANOS.arrow_type(READING)
    assert isinstance(a.type, ColumnType)
    assert a.type.declares_nanos
    assert a.type.arrow == pa.timestamp("us")
    assert b.type == pa.timestamp("us", tz="UTC")
    assert MICROS.arrow_type(READING) == MICROS.arrow_type(DecodeOptions())
    assert NANOS.arrow_type(WIDEST) == NANOS.arrow_type(DecodeOptions(row_kind=True))


def test_descriptions_are_removed_at_any_depth() -> None:
    type_ = T.MAP(T.BIG_INT(), T.LIST(T.TUPLE([T.BIG_DEC(), T.INT()])))
    described, expected = type_.arrow_type(WIDEST), type_.arrow_type(DecodeOptions())
    assert described != expected
    assert plain(described) == expected
    assert plain(expected) is expected
    schema = pa.schema([pa.field("a", described, metadata={"comment": "c"})])
    assert plain_schema(schema).equals(pa.schema([pa.field("a", expected, metadata={"comment": "c"})]), check_metadata=True)
    assert pickle.loads(pickle.dumps(described)) == described
