"""Kernels are compiled by few passes, and do what their Python functions do."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import pytest
from numba.core.errors import CompilerError

from state_processor.serializers.kernel.compiler import DeclaredKernel, entry_point, kernel
from state_processor.serializers.kernel.compiling import machine_code
from state_processor.serializers.kernel.signatures import int64, read, uint64, written

LIMIT = 5


class Kind(IntEnum):
    """Numbers that kernels compare."""

    SMALL = 1
    LARGE = 7


@kernel
def kind_of(number):  # type: ignore[no-untyped-def]
    """Return a member of an enumeration, or 0."""
    kind = Kind.SMALL if number < LIMIT else Kind.LARGE
    return kind if number or LIMIT < 0 else 0


@entry_point(read(int64), written(int64))
def classify(numbers, kinds):  # type: ignore[no-untyped-def]
    """Write the kinds of numbers up to the first negative number; return how many."""
    status = 0
    at = 0
    while at < len(numbers):
        number = numbers[at]
        if number < 0 and not status:
            status = LIMIT
            break
        kind = kind_of(number)
        kinds[at] = kind << Kind.SMALL if kind == Kind.LARGE and (number & 1 or number > 100) else kind
        at += 1
    return at + status


@entry_point(int64, allocates=True)
def squares_below(limit):  # type: ignore[no-untyped-def]
    """Return the sum of the squares below a number, from an array."""
    numbers = np.empty(limit, dtype=np.int64)
    for number in range(limit):
        numbers[number] = number * number
    total = 0
    for number in numbers:
        total += number
    return total


@entry_point(int64, uint64)
def mixed(signed, unsigned):  # type: ignore[no-untyped-def]
    """Take the first or the second number for a variable."""
    number = signed
    if signed < 0:
        number = unsigned
    return number > LIMIT


@pytest.mark.parametrize("numbers", [[], [0, 4, 5, 6, 101, 102, 7], [3, -1, 9]])
def test_compiled_kernels_do_what_their_functions_do(numbers: list[int]) -> None:
    inputs = np.array(numbers, dtype=np.int64)
    outputs = [np.zeros(len(numbers), dtype=np.int64) for _ in range(2)]
    classify.compile()
    compiled = classify(inputs, outputs[0])
    assert compiled == classify._function.py_func(inputs, outputs[1])
    assert outputs[0].tolist() == outputs[1].tolist()


def test_kernels_make_arrays() -> None:
    squares_below.compile()
    assert squares_below(100) == sum(n * n for n in range(100))


def test_variables_of_signed_and_unsigned_numbers_are_refused() -> None:
    with pytest.raises(CompilerError, match="number of the kernel mixed is not a whole number: convert its values"):
        mixed.compile()


def test_code_of_other_passes_is_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    before = squares_below._code._file
    monkeypatch.setattr(machine_code, "_compiler_stamp", lambda: "other passes")
    again = DeclaredKernel((int64,), squares_below._function)
    assert before.partition("-")[0] == again._code._file.partition("-")[0]
    assert before != again._code._file
