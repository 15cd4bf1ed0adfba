"""Every single bit of small state files is flipped, in memory: rows never appear or vanish unseen.

The formats don't have checksums, so a bit of a value may change the value. Counts of rows, and their assignment to states, keys
and key groups, have to fit the rest of the file.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.snapshot_checks import StructureCheck
from state_processor.backends.read.state_access import open_state
from state_processor.backends.read.stored_operator import StoredOperator
from state_processor.support.errors import StateProcessorError
from tests.backends import state_files as f

pytestmark = pytest.mark.slow

OPTIONS = ReadOptions.of(nanos="string")
NAMES = ("number", "text", "more")
HEADER = f.keyed_header(f.LONG, [f.keyed(n, f.STRING if n == "text" else f.LONG) for n in NAMES])
KEYS = {group: [key for key in range(40) if f.group_of(f.LONG, key, 2) == group][:3] for group in range(2)}


def value_of(name: str, key: int) -> bytes:
    return f.string(f"v{key}") if name == "text" else f.long(key)


def heap() -> f.StateFile:
    entries = {
        group: {i: [b"\0" + f.long(k) + value_of(n, k) for k in keys[: 3 - i]] for i, n in enumerate(NAMES)}
        for group, keys in KEYS.items()
    }
    return f.heap(HEADER, (0, 1), entries, len(NAMES))


def canonical() -> f.StateFile:
    entries = {
        group: {i: [(f.long(k) + b"\0", value_of(n, k)) for k in keys[: 3 - i]] for i, n in enumerate(NAMES)}
        for group, keys in KEYS.items()
    }
    return f.canonical(HEADER, (0, 1), entries)


def keyed_operator(file: f.StateFile, code: int) -> Callable[[bytes], OperatorState]:
    return lambda data: f.operator(replace(file, data=data).handle(code), max_parallelism=2)


def operator_lists() -> tuple[bytes, Callable[[bytes], OperatorState], tuple[str, ...]]:
    header = f.operator_header(
        [f.operator_list("split", f.STRING), f.operator_list("union", f.LONG, "UNION")], [f.broadcast("rules", f.STRING, f.LONG)]
    )
    parts = {"split": [f.string("a"), f.string("bc")], "union": [f.long(1), f.long(2)]}
    data, offsets = bytearray(header), {}
    for mode, (name, elements) in enumerate(parts.items()):
        found = []
        for element in elements:
            found.append(len(data))
            data += element
        offsets[name] = (mode, found)
    offsets["rules"] = (2, [len(data)])
    data += struct.pack(">i", 2) + f.string("x") + f.long(1) + f.string("y") + f.long(2)
    return bytes(data), lambda changed: f.operator(f.operator_handle(changed, offsets)), (*parts, "rules")


def counted(stored: StoredOperator, name: str) -> int | None:
    """Rows of a state; ``None`` if it is refused."""
    try:
        reader = open_state(stored, name, options=OPTIONS)
        batches = [batch for split in reader.splits() for batch in reader.read(split)]
    except StateProcessorError:
        return None
    for batch in batches:
        batch.validate(full=True)
    return sum(batch.num_rows for batch in batches)


def stored(operator: OperatorState) -> StoredOperator:
    """The operator of a snapshot; its header is read once for all states."""
    return StoredOperator(f.snapshot(operator), operator)


def is_found_by_a_walk(make: Callable[[bytes], OperatorState], data: bytes) -> bool:
    """Whether a check of the structure, which `validate` makes, finds the damage."""
    check = StructureCheck()
    check.check(f.snapshot(make(data)))
    return bool(check.problems)


def flips(data: bytes, begin: int) -> Iterator[tuple[int, int, bytes]]:
    for at in range(begin, len(data)):
        for bit in range(8):
            yield at, bit, data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


@pytest.mark.parametrize("format", ["heap", "canonical", "operator state"])
def test_no_bit_changes_the_number_of_rows(format: str) -> None:
    names: tuple[str, ...] = NAMES
    if format == "operator state":
        data, make, names = operator_lists()
        begin = len(data) - 45
    else:
        file, code = (heap(), h.KEY_GROUPS) if format == "heap" else (canonical(), h.SAVEPOINT_KEY_GROUPS)
        data, make, begin = file.data, keyed_operator(file, code), len(HEADER)
    intact = stored(make(data))
    expected = {name: counted(intact, name) for name in names}
    assert None not in expected.values()
    outcomes: Counter[str] = Counter()
    believed = []
    for at, bit, damaged in flips(data, begin):
        of_snapshot = stored(make(damaged))
        for name in names:
            rows = counted(of_snapshot, name)
            outcomes["refused" if rows is None else "read"] += 1
            if rows not in (None, expected[name]):
                believed.append(((at - begin, bit, name, rows), damaged))
    assert outcomes["refused"] > 50
    if format == "heap":  # texts are not stepped over by a read of the state in front of them
        assert all(is_found_by_a_walk(make, damaged) for damaged in {changed for _, changed in believed})
    else:
        assert not believed, f"{len(believed)} of {outcomes}: {[what for what, _ in believed[:20]]}"
