"""Kernels in Python: the same results as compiled ones. The harness of serializers compares them for all types."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import state_processor as sp
from state_processor.backends.formats.sst.crc32c import masked_checksum
from state_processor.serializers.core.basic import StringSerializer
from state_processor.serializers.hash_codes import hash_codes
from state_processor.serializers.kernel import memory
from state_processor.serializers.kernel.compiler import Kernel, entry_point
from state_processor.serializers.kernel.interpreter import Interpreter, Memory
from state_processor.serializers.kernel.signatures import boolean, int32, int64, read, uint8, written
from tests.interop.selection import covering
from tests.serializers.harness import interpreted_kernels
from tests.state_processor.samples import FIXTURES

TYPES = (read(uint8), read(int64, 2), int64, written(int64))
SNAPSHOTS = covering(
    sorted(path.parent for path in FIXTURES.glob("[12].*/*/savepoint/**/_metadata")),
    lambda path: path.relative_to(FIXTURES).parts[:2],  # the version; the job and the format
)

PROGRAM = """
import sys
import state_processor as sp
rows = sp.arrow.read_state(sys.argv[1], "orders", "total").read_all()
print(rows.num_rows, "numba" in sys.modules)
"""


def states_of(path: Path) -> dict[tuple[str, str], str]:
    """The rows of all states, as text: NaN equals itself."""
    found = {}
    for row in sp.arrow.states(str(path)).to_pylist():
        operator = sp.OperatorIdentifier.for_uid_hash(row["operator_uid_hash"])
        rows = sp.arrow.read_state(str(path), operator, row["state_name"], nanos="string").read_all()
        found[row["operator_uid_hash"], row["state_name"]] = repr(rows.to_pylist())
    return found


@pytest.mark.parametrize("path", SNAPSHOTS, ids=lambda path: path.relative_to(FIXTURES).as_posix())
def test_states_of_snapshots_are_the_same(path: Path) -> None:
    compiled = states_of(path)
    with interpreted_kernels():
        assert states_of(path) == compiled


@given(st.lists(st.text(max_size=30), max_size=8))
def test_hash_codes_are_the_same(keys: list[str]) -> None:
    column = pa.array(keys, pa.string())
    with interpreted_kernels():
        found = hash_codes(StringSerializer(), column)
    assert found.tolist() == hash_codes(StringSerializer(), column).tolist()


@given(st.binary(max_size=100))
def test_checksums_are_the_same(data: bytes) -> None:
    array = np.frombuffer(data, dtype=np.uint8)
    with interpreted_kernels():
        found = masked_checksum(array, 0, len(data))
    assert found == masked_checksum(array, 0, len(data))


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 3))
def test_numbers_are_stored_in_the_width_of_the_store(value: int, at: int) -> None:
    array = np.zeros(16, dtype=np.uint8)
    for bits in (16, 32, 64):
        for order, name in (("big", "be_i"), ("little", "i")):
            getattr(memory, f"store_{name}{bits}")(Memory(array), at, np.int64(value))
            width = bits // 8
            stored = array[at : at + width].tobytes()
            assert stored == (value & ((1 << bits) - 1)).to_bytes(width, order)  # type: ignore[arg-type]
            loaded = getattr(memory, f"load_{name}{bits}")(Memory(array), at)
            assert loaded == int.from_bytes(stored, order, signed=True)  # type: ignore[arg-type]
            assert loaded.dtype == np.int64


@entry_point(read(uint8), boolean, read(int32), written(int64))
def _product(data, add, numbers, found):  # type: ignore[no-untyped-def]
    product = np.int64(data[0]) << 62
    for number in numbers:
        product = product * 31 + number * number if add else product
    found[0] = product


def test_arithmetic_wraps_as_in_compiled_code() -> None:
    results = []
    arguments: tuple[Any, ...] = (np.array([255], np.uint8), True, np.array([2**31 - 1, -(2**31), 7] * 5, np.int32))
    for interpreted in (False, True):
        found = np.zeros(1, dtype=np.int64)
        if interpreted:
            with interpreted_kernels():
                _product(*arguments, found)
        else:
            _product(*arguments, found)
        results.append(int(found[0]))
    assert results[0] == results[1] != 0


@pytest.mark.parametrize(
    ("data", "message"),
    [(np.zeros(1, np.int64), "an array of int64"), (np.zeros((2, 2), np.uint8), "2 dimensions")],
)
def test_arrays_of_other_types_are_refused(data: npt.NDArray[Any], message: str) -> None:
    with interpreted_kernels(), pytest.raises(TypeError, match=message):
        _product(data, True, np.zeros(1, np.int32), np.zeros(1, np.int64))


def test_interpreted_kernels_call_each_other_as_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call by the object of a kernel takes twice the time."""
    monkeypatch.setattr(Kernel, "__call__", lambda *_: pytest.fail("a kernel is called by its object"))
    with interpreted_kernels():
        assert sp.arrow.read_state(sp.sample_savepoint(), "orders", "total").read_all().num_rows


def test_large_work_is_compiled() -> None:
    small = (np.zeros(100, np.uint8), np.zeros((10, 2), np.int64), 5, np.zeros(10**6, np.int64))
    interpreter = Interpreter(budget=400)
    assert interpreter.takes(TYPES, small)
    assert interpreter.takes(TYPES, small)
    assert not interpreter.takes(TYPES, small)
    assert not Interpreter(budget=400).takes(TYPES, (np.zeros(500, np.uint8), *small[1:]))


def test_a_small_read_does_not_load_numba() -> None:
    path = FIXTURES / "2.3.0" / "orders-rocksdb-native" / "savepoint"
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["50", "False"]
