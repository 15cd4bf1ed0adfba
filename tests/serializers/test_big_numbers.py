"""Numbers of any size as digits: the same digits as Python's own, in less than quadratic time."""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.serializers import DataOutput, DecodeOptions
from state_processor.serializers.big_numbers import to_decimal, to_int, to_text
from state_processor.serializers.core.basic import BigDecimalSerializer, BigIntegerSerializer
from state_processor.serializers.core.collections import ListSerializer
from state_processor.serializers.kernel.decode.text import LARGE_NUMBER
from tests.serializers.harness import check_codec, decode_with_kernel

LARGE = [1 << (8 * LARGE_NUMBER + 9), -(1 << 9000), 10**5000, -(10**5000) + 1, int.from_bytes(b"\x7f" * 3000, "big")]


@pytest.fixture(autouse=True)
def any_number_of_digits() -> Any:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    yield
    sys.set_int_max_str_digits(before)


@given(st.integers() | st.integers(-(1 << 20_000), 1 << 20_000), st.integers(-3, 3) | st.integers(-(2**31), 2**31 - 1))
def test_numbers_have_the_digits_of_python(number: int, scale: int) -> None:
    assert to_text(number) == str(number)
    assert to_text(number, scale) == str(Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale)))
    assert to_int(to_decimal(number)) == number


@pytest.mark.parametrize("number", LARGE, ids=range(len(LARGE)))
def test_large_numbers_are_spelled_behind_the_kernel(number: int) -> None:
    numbers = [number, 7, None, -number, 0]
    check_codec(BigIntegerSerializer(), numbers)
    check_codec(BigDecimalSerializer(), [None if n is None else to_decimal(n, s) for n in numbers for s in (-3, 0, 2, 40)])


def test_large_numbers_in_lists_stand_beside_small_ones() -> None:
    serializer = ListSerializer(BigIntegerSerializer())
    values = [[1, LARGE[0]], [], [LARGE[1], -5, LARGE[2]]]
    decoded = decode_with_kernel(serializer, [serializer.serialize(v) for v in values])
    assert decoded == [[str(n) for n in v] for v in values]


def test_numbers_of_hundreds_of_kilobytes_are_decoded() -> None:
    raw = b"\x7f" * 400_000
    target = DataOutput()
    target.write_int(len(raw) + 4)
    target.write_bytes(raw)
    sys.set_int_max_str_digits(4300)  # the default
    (kernel,) = decode_with_kernel(BigIntegerSerializer(), [target.to_bytes()])
    assert kernel == BigIntegerSerializer().to_column(int.from_bytes(raw, "big"), DecodeOptions())
    assert len(kernel) == 963_296
    target.write_int(5)
    (kernel,) = decode_with_kernel(BigDecimalSerializer(), [target.to_bytes()])
    assert len(kernel) == 963_297
