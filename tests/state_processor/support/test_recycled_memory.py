from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from state_processor.support import recycled_memory as memory

SIZE = 1 << 20


@pytest.fixture(autouse=True)
def without_free_memory() -> None:
    memory.release()


def address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def test_memory_is_used_again_when_nothing_refers_to_it() -> None:
    first = memory.allocate(SIZE)
    place = address(first)
    del first
    assert address(memory.allocate(SIZE - 10)) == place
    memory.release()
    assert not memory._free


@pytest.mark.parametrize(
    "refer",
    [
        lambda array: array[5:10],
        lambda array: array.data[3:],
        lambda array: np.frombuffer(array.data, dtype=np.uint8),
        lambda array: pa.py_buffer(array).slice(4),
        lambda array: pa.Array.from_buffers(pa.int8(), 8, [None, pa.py_buffer(array)]).slice(2).to_numpy(),
    ],
)
def test_memory_that_something_refers_to_is_not_used_again(refer: Callable[[Any], object]) -> None:
    first = memory.allocate(SIZE)
    place, reference = address(first), refer(first)
    del first
    second = memory.allocate(SIZE)
    assert address(second) != place
    del reference
    assert address(memory.allocate(SIZE)) == place


def test_memory_of_another_size_is_not_used_and_little_is_free() -> None:
    large = memory.allocate(memory._MOST_FREE)
    place = address(large)
    del large
    assert address(memory.allocate(SIZE)) != place
    several = [memory.allocate(memory._MOST_FREE // 2) for _ in range(4)]
    del several
    assert sum(map(len, memory._free.values())) <= memory._MOST_FREE
    assert memory.allocate(100).base is None  # small memory is not worth it
    assert memory.allocate(memory._MOST_FREE + 1).base is None


def test_threads_never_share_memory() -> None:
    wrong = []

    def work(number: int) -> None:
        for _ in range(500):
            array = memory.allocate(SIZE)
            array[:8] = number
            array[-8:] = number
            if not (array[:8] == number).all() or not (array[-8:] == number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_numbers_of_two_tables_are_in_different_cache_lines() -> None:
    tables = [memory.numbers_apart(2, 3) for _ in range(8)]
    places = sorted(address(table) for table in tables)
    assert all(table.shape == (2, 3) and not table.any() for table in tables)
    assert min(np.diff(places)) >= 6 * 8 + 128
