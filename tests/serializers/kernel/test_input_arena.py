"""Numbers of many digits on their way into state: the bytes of the Python reference, and no work that grows with their square."""

from __future__ import annotations

import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.basic import BigDecimalSerializer, BigIntegerSerializer
from state_processor.serializers.core.collections import ListSerializer, MapSerializer
from state_processor.serializers.kernel.encode.encoder import encode_column
from state_processor.serializers.kernel.encode.input_arena import LONG_TEXT, without_long_numbers
from state_processor.serializers.text_grammar import MOST_ZEROS
from state_processor.support.errors import InvalidRowError
from state_processor.types.flink_types import Types

WHOLE, NUMBER = BigIntegerSerializer(), BigDecimalSerializer()
MANY = "7" * 400_000


def digits(count: int, seed: int) -> str:
    return "".join(random.Random(seed).choices("0123456789", k=count))


def texts() -> list[str | None]:
    """Numbers around the minimum length for Python's conversion, between short numbers and nulls."""
    long = [digits(LONG_TEXT + over, over) for over in range(-3, 4)]
    signed = [sign + text for text in long for sign in ("", "-", "+")]
    constants = ["0" * (LONG_TEXT + zeros) + last for zeros in (0, 9) for last in ("0", "1", "10", "11")]
    return [None, "5", *signed, "-12", None, *constants, "1" + "0" * LONG_TEXT + ".000", digits(3000, 1) + "E+20", "10"]


def reference(serializer: TypeSerializer, values: list[str | None]) -> list[bytes]:
    return [serializer.serialize(serializer.from_column(value)) for value in values]


@pytest.mark.parametrize("serializer", [WHOLE, NUMBER], ids=str)
def test_bytes_are_those_of_the_reference(serializer: TypeSerializer) -> None:
    values = texts()
    assert list(encode_column(serializer, pa.array(values))) == reference(serializer, values)
    assert list(encode_column(serializer, pa.array(["x", *values]).slice(1))) == reference(serializer, values)


def test_numbers_with_points_and_exponents() -> None:
    values = [f"-{digits(3000, 2)}.{digits(1000, 3)}", f".{digits(5000, 4)}e-2000000000", f"{digits(2100, 5)}.e+7", "1.50"]
    assert list(encode_column(NUMBER, pa.array(values))) == reference(NUMBER, values)


def test_numbers_inside_of_other_values() -> None:
    lists = [[digits(3000, 6), "1", None], [], ["-" + digits(2500, 7)]]
    serializer = ListSerializer(Types.NULLABLE(WHOLE))
    assert list(encode_column(serializer, pa.array(lists))) == [serializer.serialize(serializer.from_column(v)) for v in lists]
    maps = [[(digits(3000, 8), "2"), (digits(3000, 9), digits(4000, 10))]]
    typed = pa.array(maps, pa.map_(pa.string(), pa.string()))
    written = MapSerializer(WHOLE, NUMBER)
    assert list(encode_column(written, typed)) == [written.serialize([(int(k), Decimal(v)) for k, v in pairs]) for pairs in maps]


@pytest.mark.parametrize("text", [MANY, f"-{MANY}", f"{MANY}.000"])
def test_hundreds_of_kilobytes(text: str) -> None:
    for serializer in (WHOLE, NUMBER, Types.KRYO("java.math.BigInteger").for_flink(2)):
        (written,) = encode_column(serializer, pa.array([text]))
        assert len(written) > 166_000


@pytest.mark.parametrize("text", [f"{MANY}x", f"{MANY}.5.5", f"x{MANY}", f"{MANY}e", f"1e{MANY}", f"{MANY}é"])
@pytest.mark.parametrize("serializer", [WHOLE, NUMBER, Types.KRYO("java.math.BigDecimal").for_flink(2)], ids=str)
def test_hundreds_of_kilobytes_that_are_no_number(serializer: TypeSerializer, text: str) -> None:
    with pytest.raises(InvalidRowError) as refused:
        encode_column(serializer, pa.array(["1", text]))
    assert "of row 1 " in str(refused.value)
    assert len(str(refused.value)) < 1000
    with pytest.raises(ValueError, match="expected a decimal number in digits") as said:
        serializer.from_column(text)
    assert len(str(said.value)) < 300


@pytest.mark.parametrize("text", ["1e999999999", f"1e{MOST_ZEROS + 1}", f"{digits(3000, 1)}e{MOST_ZEROS + 1}", f"{MANY}.5"])
def test_whole_numbers_of_more_zeros_than_anyone_means(text: str) -> None:
    with pytest.raises(InvalidRowError, match="of row 0 is not a number in digits, or its size does not fit the type"):
        encode_column(WHOLE, pa.array([text]))
    for serializer in (WHOLE, Types.KRYO("java.math.BigInteger").for_flink(2)):
        with pytest.raises(ValueError, match=r"zeros; write them out|expected a whole number"):
            serializer.from_column(text)


def test_scales_that_no_int_holds() -> None:
    text = f"{digits(3000, 1)}e-9999999999"
    with pytest.raises(InvalidRowError, match="of row 0 is not a number in digits, or its size does not fit the type"):
        encode_column(NUMBER, pa.array([text]))
    with pytest.raises(ValueError, match="out of the range of the scale of a BigDecimal"):
        NUMBER.serialize(NUMBER.from_column(text))


def test_short_numbers_are_left_alone() -> None:
    offsets, text = np.array([0, 1, 1, 3], np.int32), np.frombuffer(b"123", np.uint8)
    assert without_long_numbers(offsets, text, whole=True) == (offsets, text)
