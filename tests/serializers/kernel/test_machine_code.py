"""Calls of machine code: arguments that differ from the declared ones are refused, results keep their types."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
import pytest
from numba.core.errors import CompilerError

from state_processor.serializers.kernel.compiler import entry_point
from state_processor.serializers.kernel.signatures import boolean, int32, int64, read, uint8, uint64, written

SMALLEST, LARGEST = -(2**63), 2**63 - 1


@entry_point(read(int64, 2), boolean, uint64, written(uint8))
def _described(table, negative, number, out):  # type: ignore[no-untyped-def]
    """Return a number that depends on all arguments."""
    out[0] = number & np.uint64(0xFF)
    total = np.int64(0)
    for row in range(len(table)):
        for column in range(table.shape[1]):
            total = total * 10 + table[row, column]
    return -total if negative else total


@entry_point(read(int32), int64)
def _has(numbers, limit):  # type: ignore[no-untyped-def]
    return len(numbers) > limit


@entry_point(int64)
def _same(number):  # type: ignore[no-untyped-def]
    return number


@entry_point(int64, allocates=True)
def _room(size):  # type: ignore[no-untyped-def]
    return len(np.empty(size, dtype=np.int64))


@entry_point(uint64)
def _unsigned(number):  # type: ignore[no-untyped-def]
    return number


TABLE = np.array([[1, 2], [3, 4]])
OUT = np.zeros(1, np.uint8)


@pytest.fixture(autouse=True)
def _compiled() -> None:
    for kernel in (_described, _has, _same, _room):
        kernel.compile()


def test_arguments_arrive_and_results_keep_their_types() -> None:
    out = np.zeros(1, np.uint8)
    assert _described(TABLE, True, 2**64 - 3, out) == -1234
    assert out.tolist() == [0xFD]
    assert _described(np.zeros((0, 2), np.int64), False, np.uint64(7), out) == 0
    assert _has(np.zeros(3, np.int32), np.int64(2)) is True
    assert _has(np.zeros(3, np.int32), 3) is False
    assert [_same(number) for number in (SMALLEST, -1, True, LARGEST)] == [SMALLEST, -1, 1, LARGEST]


def test_arrays_that_are_only_read_need_not_be_writable() -> None:
    table = TABLE.copy()
    table.flags.writeable = False
    assert _described(table, False, 0, OUT.copy()) == 1234


READ_ONLY = OUT.copy()
READ_ONLY.flags.writeable = False
UNALIGNED = np.zeros(5, np.uint8)[1:].view(np.int32)


@pytest.mark.parametrize(
    ("kernel", "arguments", "message"),
    [
        (_described, (TABLE.T, False, 0, OUT), "an array of int64, 2 dimensions, flags ALIGNED, WRITEABLE"),
        (_described, (TABLE.ravel(), False, 0, OUT), "an array of int64, 1 dimensions"),
        (_described, (TABLE.astype(">i8"), False, 0, OUT), "an array of >i8"),
        (_described, (TABLE.astype(np.uint64), False, 0, OUT), "an array of uint64"),
        (_described, (TABLE.tolist(), False, 0, OUT), "an object of list"),
        (_described, (TABLE, False, 0, READ_ONLY), "only_read=False.*flags C_CONTIGUOUS, ALIGNED$"),
        (_described, (TABLE, False, 1.5, OUT), "float"),
        (_described, (TABLE, False, 0), "expects 4 arguments, found 3"),
        (_has, (UNALIGNED, 0), "flags C_CONTIGUOUS, WRITEABLE"),
    ],
)
def test_other_arguments_are_refused(kernel: Any, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        kernel(*arguments)


@pytest.mark.parametrize(
    ("kernel", "arguments"), [(_same, (LARGEST + 1,)), (_same, (SMALLEST - 1,)), (_described, (TABLE, False, -1, OUT))]
)
def test_numbers_out_of_range_are_refused(kernel: Any, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(OverflowError, match=r"a kernel expects a number of u?int64, found"):
        kernel(*arguments)


def test_arrays_that_do_not_fit_the_memory_are_an_error() -> None:
    assert _room(1000) == 1000
    with pytest.raises(MemoryError):
        _room(1 << 58)


def test_results_of_other_types_are_refused() -> None:
    with pytest.raises(CompilerError, match="_unsigned returns uint64: a kernel returns a number, a truth value or None"):
        _unsigned.compile()


def test_arguments_are_released_after_the_call() -> None:
    table, before = TABLE.copy(), sys.getrefcount(TABLE)
    for _ in range(10):
        _described(TABLE, False, 0, OUT)
        _described(table, False, 0, OUT)
    assert (sys.getrefcount(TABLE), sys.getrefcount(table)) == (before, 2)


@entry_point(read(int64), int64, written(int64))
def _wait_for(flag, most, out):  # type: ignore[no-untyped-def]
    """Read a number until it is set, at most so many times; return whether it is."""
    at = np.int64(0)
    while at < most and out[0] == 0 and flag[at & 1] == 0:
        out[1] = at
        at += 1
    return at < most


def test_other_threads_run_meanwhile() -> None:
    _wait_for.compile()
    flag, out, found = np.zeros(2, np.int64), np.zeros(2, np.int64), []
    thread = threading.Thread(target=lambda: found.append(_wait_for(flag, 1 << 40, out)))
    thread.start()
    while out[1] == 0 and thread.is_alive():
        pass
    out[0] = flag[0] = flag[1] = 1
    thread.join(60)
    assert found == [True]
