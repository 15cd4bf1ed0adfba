"""Kernels are compiled by few passes, and do what their Python functions do."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import pytest
from numba.core.errors import CompilerError

from state_processor.serializers.kernel.compiler import DeclaredKernel, entry_point, kernel
from state_processor.serializers.kernel.compiling import machine_code
from state_processor.serializers.kernel.signatures import boolean, int64, read, uint64, written

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


@kernel
def smallest(first, second):  # type: ignore[no-untyped-def]
    """Return the smaller number, the larger, and whether they are equal."""
    return min(first, second), max(first, second, -first), first == second


@kernel
def put_line(lines, line, is_even):  # type: ignore[no-untyped-def]
    """Write a line of a table."""
    for column in range(1, 3):
        lines[line, column] = -column if is_even else lines[line, 0] * column


@entry_point(read(int64, 2), written(int64, 2), boolean)
def rewrite(numbers, lines, skips):  # type: ignore[no-untyped-def]
    """Write lines with the smaller and the larger number of each pair; return a number of all."""
    total = 0
    last = 0
    for line in range(len(numbers)):
        pair = numbers[line]
        if skips and pair[0] == LIMIT:
            continue
        low, high, is_equal = smallest(pair[0], numbers[line, 1])
        last = line
        if low < -LIMIT:
            break
        lines[line, 0] = int(high) - abs(low)
        put_line(lines, line, line % 2 == 0)
        for other in range(line):
            for column in range(2 if is_equal else 1):
                lines[other, column] += high
            if other > LIMIT:
                break
        total += low * 100
    for line in range(last, last + 2):
        total += line
    return total


@entry_point(read(int64))
def last_of(numbers):  # type: ignore[no-untyped-def]
    """Return the last number, with an index from the end."""
    return numbers[-1]


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


@entry_point(int64, int64)
def signs(first, second):  # type: ignore[no-untyped-def]
    """Return a bit for each result below 0 of operations that overflow."""
    result = 1 if first * first < 0 else 0
    if first > 0 and second > 0 and first + second < 0:
        result += 2
    if second < 0 and -second < 0:
        result += 4
    if first >= 0 and second < 0 and first - second < 0:
        result += 8
    return result


@pytest.mark.parametrize("numbers", [[], [0, 4, 5, 6, 101, 102, 7], [3, -1, 9]])
def test_compiled_kernels_do_what_their_functions_do(numbers: list[int]) -> None:
    inputs = np.array(numbers, dtype=np.int64)
    outputs = [np.zeros(len(numbers), dtype=np.int64) for _ in range(2)]
    classify.compile()
    compiled = classify(inputs, outputs[0])
    assert compiled == classify._function.py_func(inputs, outputs[1])
    assert outputs[0].tolist() == outputs[1].tolist()


@pytest.mark.parametrize("skips", [False, True])
@pytest.mark.parametrize(
    "pairs", [[], [(1, 2)], [(3, -4), (5, 5), (0, 0), (5, 9), (7, 7), (2, 1), (1, 1), (4, 4), (-9, 9), (1, 2)]]
)
def test_elements_loops_and_calls_do_what_python_does(pairs: list[tuple[int, int]], skips: bool) -> None:
    inputs = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    outputs = [np.zeros((len(pairs), 3), dtype=np.int64) for _ in range(2)]
    rewrite.compile()
    assert rewrite(inputs, outputs[0], skips) == rewrite._function.in_python(inputs, outputs[1], skips)
    assert outputs[0].tolist() == outputs[1].tolist()


def test_sums_and_products_wrap() -> None:
    """LLVM omits tests of their signs if they may not."""
    signs.compile()
    numbers = np.array([0, 1, -1, 3037000500, 5261006980962852537, 2**63 - 1, -(2**63)])
    with np.errstate(over="ignore"):
        expected = [signs._function.in_python(first, second) for first in numbers for second in numbers]
    assert [signs(first, second) for first in numbers for second in numbers] == expected
    assert set(expected) >= {0, 1, 3, 4, 12}


def test_indexes_from_the_end_are_refused() -> None:
    with pytest.raises(CompilerError, match="an index of the kernel last_of is -1: count it from the first element"):
        last_of.compile()


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
