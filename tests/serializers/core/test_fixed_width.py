"""Values of a fixed number of bytes that have no kernel instruction: whole columns are converted, at any depth."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from state_processor.serializers import DecodeOptions, TypeSerializer
from state_processor.serializers.core.fixed_width import FixedWidthSerializer, big_endian, characters, text
from state_processor.serializers.hash_codes import hash_codes
from state_processor.serializers.java.hashing import EncodedValues, Hashes, fold_long, signed
from state_processor.serializers.kernel.decode.program import DecodeBuilder
from state_processor.serializers.kernel.encode.encoder import encode_column
from state_processor.support.errors import CorruptSnapshotError, InvalidRowError, UnsupportedFormatError
from state_processor.types.flink_types import Types
from tests.serializers.harness import check_payloads, decode_with_kernel

T = Types


class MoneySerializer(FixedWidthSerializer):
    """A long of cents and three letters; a column has text such as ``12.34 EUR``."""

    snapshot_class = "com.acme.MoneySerializerSnapshot"
    name = "MONEY"
    length = 11
    column = pa.string()

    def column_of(self, values: EncodedValues) -> pa.Array:
        if (values[:, 8:] & 0x80).any():
            raise ValueError("a currency has letters of ASCII")
        cents = pa.array(signed(values, 0, 8)).cast(pa.decimal128(19, 0))
        amount = pc.multiply(cents, Decimal("0.01")).cast(pa.string())
        return pc.binary_join_element_wise(amount, text(values[:, 8:]), " ")

    def bytes_of(self, column: pa.Array) -> EncodedValues:
        parts = pc.extract_regex(column, r"^(?P<amount>-?[0-9]{1,16}\.[0-9]{2}) (?P<currency>[A-Z]{3})$")
        if parts.null_count:
            raise ValueError("expected an amount and a currency, like 12.34 EUR")
        cents = pc.multiply(parts.field("amount").cast(pa.decimal128(18, 2)), 100).cast(pa.int64())
        return np.hstack([big_endian(cents, 8), characters(parts.field("currency"), 3)])

    def hashes_of(self, values: EncodedValues) -> Hashes:
        return fold_long(signed(values, 0, 8))


class FlagSerializer(FixedWidthSerializer):
    """A byte that is 0, 1, or -1 for null; it can't be a key."""

    snapshot_class = "com.acme.FlagSerializerSnapshot"
    name = "FLAG"
    length = 1
    column = pa.bool_()
    null = b"\xff"

    def column_of(self, values: EncodedValues) -> pa.Array:
        return pa.array(values.ravel() == 1)

    def bytes_of(self, column: pa.Array) -> EncodedValues:
        return np.asarray(column, dtype=np.uint8).reshape(-1, 1)


MONEY, FLAG = MoneySerializer(), FlagSerializer()
AMOUNTS = ["12.34 EUR", "0.00 USD", "-0.05 JPY", "9999999999999999.99 CHF"]


@pytest.mark.parametrize(
    ("serializer", "values"),
    [
        (MONEY, AMOUNTS),
        (FLAG, [True, False, None]),
        (T.NULLABLE(MONEY), [None, *AMOUNTS, None]),
        (T.LIST(MONEY), [AMOUNTS[:2], [], AMOUNTS]),
        (T.LIST(FLAG), [[None, True], [], [False, None, None]]),
        (T.MAP(MONEY, T.LIST(FLAG)), [[("1.00 EUR", [True]), ("2.00 EUR", [])], []]),
        (
            T.TUPLE([T.STRING(), MONEY, FLAG]),
            [{"f0": "a", "f1": "1.00 EUR", "f2": None}, {"f0": None, "f1": "2.00 USD", "f2": True}],
        ),
        (T.POJO("com.acme.Order", {"total": MONEY, "paid": FLAG}), [{"total": "1.00 EUR", "paid": None}]),
    ],
    ids=str,
)
def test_values_at_any_depth(serializer: TypeSerializer, values: Sequence[Any]) -> None:
    """Python, the kernel and the interpreted kernel agree, in both directions; so do columns of slices."""
    payloads = [serializer.serialize(serializer.from_column(value)) for value in values]
    check_payloads(serializer, payloads)
    column = pa.array(values, serializer.arrow_type(DecodeOptions()))
    assert decode_with_kernel(serializer, payloads) == column.to_pylist()
    assert list(encode_column(serializer, column.slice(1))) == payloads[1:]


def test_no_value_is_converted_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = T.LIST(T.NULLABLE(MONEY))
    column = pa.array([[*AMOUNTS, None]] * 100)
    encoded = list(encode_column(rows, column))
    monkeypatch.setattr(MoneySerializer, "read", None)
    monkeypatch.setattr(MoneySerializer, "write", None)
    assert list(encode_column(rows, column)) == encoded
    assert decode_with_kernel(rows, encoded) == column.to_pylist()


def test_fields_that_are_not_requested_are_skipped() -> None:
    serializer = T.TUPLE([MONEY, T.INT()])
    schema = pa.schema([("value", pa.struct([("f1", pa.int32())]))])
    builder = DecodeBuilder(schema, DecodeOptions(), pa.schema([("value", serializer.arrow_type(DecodeOptions()))]))
    serializer.emit_decode(builder, builder.column("value"))
    assert not builder.build().columns.converters


@pytest.mark.parametrize("null", [pa.array([None, "1.00 EUR"]), pa.nulls(1, pa.string()), pa.nulls(1)])
def test_null_is_refused(null: pa.Array) -> None:
    assert not MONEY.writes_null
    with pytest.raises(InvalidRowError, match=r"column value of row 0 is null; the type can't store null"):
        encode_column(MONEY, null)
    with pytest.raises(InvalidRowError, match="null; MONEY can't store null"):
        MONEY.serialize(None)


def test_null_is_written() -> None:
    assert FLAG.writes_null
    assert list(encode_column(FLAG, pa.nulls(2))) == [b"\xff", b"\xff"]


def test_a_value_of_another_form_is_named() -> None:
    column = pa.array([["1.00 EUR"], ["2.00 EUR", "about 3 EUR"]])
    message = r"column value\[1\] of row 1 does not fit: 'about 3 EUR': .*expected an amount and a currency, like 12.34 EUR"
    with pytest.raises(InvalidRowError, match=message):
        encode_column(T.LIST(MONEY), column)
    with pytest.raises(InvalidRowError, match=r"Spark type binary; the type MONEY takes string"):
        encode_column(MONEY, pa.array([b"1.00 EUR"]))
    assert list(encode_column(MONEY, pa.array(["1.00 EUR"], pa.large_string()))) == [MONEY.serialize("1.00 EUR")]


def test_bytes_that_are_no_value_are_named() -> None:
    payloads = [MONEY.serialize("1.00 EUR"), bytes(8) + b"\xff\xff\xff"]
    message = "payloads, offset 22: in the 2 rows up to here: .*0000000000000000ffffff is not a value of type MONEY: a currency"
    with pytest.raises(CorruptSnapshotError, match=message):
        decode_with_kernel(MONEY, payloads)
    with pytest.raises(CorruptSnapshotError, match="is not a value of type MONEY"):
        MONEY.deserialize(payloads[1])
    with pytest.raises(CorruptSnapshotError):
        decode_with_kernel(MONEY, [payloads[0][:7]])


def test_keys() -> None:
    column = pa.array(AMOUNTS)
    assert hash_codes(MONEY, column).tolist() == [MONEY.hash_code(amount) for amount in AMOUNTS]
    assert MONEY.hash_code("12.34 EUR") == 1234
    with pytest.raises(UnsupportedFormatError, match="hashCode of FLAG is not known"):
        hash_codes(FLAG, pa.array([True]))


@pytest.mark.parametrize(
    ("method", "result", "problem"),
    [
        ("column_of", pa.array([1, 2]), "column_of returned 2 values of type int64 for 1 values; the column is of type string"),
        ("bytes_of", np.zeros((1, 3), np.uint8), r"bytes_of returned uint8\[1, 3\] for 1 values of 11 bytes"),
    ],
)
def test_results_of_another_form_are_refused(method: str, result: Any, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    payload = MONEY.serialize("1.00 EUR")
    monkeypatch.setattr(MoneySerializer, method, lambda self, values: result)
    with pytest.raises(TypeError, match=problem):
        decode_with_kernel(MONEY, [payload]) if method == "column_of" else encode_column(MONEY, pa.array(["1.00 EUR"]))


def test_numbers_that_need_more_bytes() -> None:
    assert big_endian([-1, 258], 2).tolist() == [[255, 255], [1, 2]]
    for numbers in ([32768], [1.5], np.array([2**63], np.uint64)):
        with pytest.raises(ValueError, match="expected whole numbers of 2 bytes"):
            big_endian(numbers, 2)
