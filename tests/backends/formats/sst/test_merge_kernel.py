"""The merge of runs while they are decoded gives the entries of the merge of whole runs."""

from __future__ import annotations

import random
from contextlib import nullcontext

import numpy as np
import pytest

from state_processor.backends.formats.framing import ENTRY_FIELDS
from state_processor.backends.formats.sst import merge_kernel as m
from state_processor.backends.formats.sst.block_kernels import SLACK, VALUE_TYPE
from tests.serializers.harness import interpreted_kernels

PREFIX = 1


def entries_of(rng: random.Random, runs: int, most: int, universe: int) -> tuple[np.ndarray, ...]:
    """Return bytes, entries, the walk with their tags, and runs of values of different keys, some of them in several runs."""
    data, rows, tags, bounds = bytearray(), [], [], []
    sequence = iter(rng.sample(range(1, 1 << 40), runs * most))
    for _ in range(runs):
        first = len(rows)
        for number in sorted(rng.sample(range(universe), rng.randint(0, min(most, universe)))):
            key = bytes([number & 3]) + number.to_bytes(rng.choice((2, 2, 9)), "big")
            rows.append((key, first))
        rows[first:] = sorted(rows[first:])
        bounds.append((first, len(rows), 1))
    table = []
    for key, _ in rows:
        value = rng.randbytes(rng.randint(0, 20))
        begin = len(data)
        data += key + value
        table.append((begin + PREFIX, begin + len(key), begin + len(key), len(data), key[0]))
        tags.append(next(sequence) << 8 | VALUE_TYPE)
    walk = np.array([*[0] * m.TAGS, *tags], dtype=np.int64)
    buffer = np.frombuffer(bytes(data) + bytes(SLACK), dtype=np.uint8).copy()
    return buffer, np.array(table, dtype=np.int64).reshape(-1, ENTRY_FIELDS), walk, np.array(bounds, dtype=np.int64)


def merged_whole(data: np.ndarray, table: np.ndarray, walk: np.ndarray, runs: np.ndarray) -> list[list[int]]:
    out, heap, stack = np.empty_like(table), np.empty(len(runs) + 1, np.int64), np.empty(1, np.int64)
    tags = np.ascontiguousarray(walk[m.TAGS :])
    count = m.merge_runs(data, table, tags, PREFIX, runs.copy(), heap, *m.bounds(()), len(data) - SLACK, stack, out)
    rows: list[list[int]] = out[:count].tolist()
    return rows


@pytest.mark.parametrize("interpreted", [True, False])
@pytest.mark.parametrize("runs", range(2, m.MOST_RUNS + 1))
def test_runs_are_merged_while_they_are_decoded(runs: int, interpreted: bool) -> None:
    rng = random.Random(runs)
    sizes = [(5, 8), (40, 60), (30, 3000)] if interpreted else [(5, 8), (2000, 2100), (3000, 60_000)]
    with interpreted_kernels() if interpreted else nullcontext():
        for most, universe in sizes:
            data, table, walk, bounds = entries_of(rng, runs, most, universe)
            assert m.Merge.is_possible(bounds)
            tables = [part.tolist() for part in m.Merge(data, table, walk, bounds, PREFIX).tables()]
            assert [row for part in tables for row in part] == merged_whole(data, table, walk, bounds)


def test_runs_that_are_apart_fill_tables() -> None:
    data, table, walk, _ = entries_of(random.Random(1), 1, 3000, 3000)
    half = len(table) // 2
    bounds = np.array([[half, len(table), 1], [0, half, 1]], dtype=np.int64)
    sizes = [len(part) for part in m.Merge(data, table, walk, bounds, PREFIX).tables()]
    assert sum(sizes) == len(table)
    assert set(sizes[:-1]) == {1024}


@pytest.mark.parametrize("runs", [[[0, 3, 1], [3, 5, 0]], [[0, 1, 1]] * (m.MOST_RUNS + 1)])
def test_other_runs_are_merged_as_a_whole(runs: list[list[int]]) -> None:
    assert not m.Merge.is_possible(np.array(runs, dtype=np.int64))
