"""Time to parse a ``_metadata`` with 200,000 subtask handles. Target: 3 s on one core."""

from __future__ import annotations

import time

from figures import Figure

from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.operator_id import operator_id
from state_processor.backends.metadata.snapshot_metadata import (
    CheckpointMetadata,
    OperatorState,
    OperatorSubtaskState,
    read_metadata,
    write_metadata,
)

OPERATORS, SUBTASKS, KEY_GROUPS = 20, 10_000, 3


def large_metadata() -> bytes:
    """Return a ``_metadata`` of 20 operators with 10,000 subtasks each, a keyed handle in every one."""
    operators = [_operator(o) for o in range(OPERATORS)]
    return write_metadata(CheckpointMetadata(3, 1, tuple(operators)))


def _operator(operator: int) -> OperatorState:
    subtasks = tuple(_subtask(operator, s) for s in range(SUBTASKS))
    return OperatorState(operator_id(f"operator-{operator}"), SUBTASKS, SUBTASKS * KEY_GROUPS, subtasks)


def _subtask(operator: int, subtask: int) -> OperatorSubtaskState:
    key_groups = h.KeyGroupRange(subtask * KEY_GROUPS, (subtask + 1) * KEY_GROUPS - 1)
    stream = h.RelativeFileStateHandle(f"{operator:08x}-{subtask:08x}-4b5e-9f3c-000000000000", 4096)
    handle = h.KeyGroupsStateHandle(h.SAVEPOINT_KEY_GROUPS, key_groups, h.Offsets.of(range(100, 100 + KEY_GROUPS)), stream)
    return OperatorSubtaskState(subtask, managed_keyed=handle)


def main() -> list[Figure]:
    """Print the parsing time."""
    data = large_metadata()
    start = time.process_time()
    metadata = read_metadata(data)
    seconds = time.process_time() - start
    subtasks = sum(len(o.subtasks) for o in metadata.operators)
    print(f"_metadata of {subtasks:,} handles, {len(data) / 1e6:.1f} MB: {seconds:.2f} CPU s (target: 3)")
    return [Figure(f"parse a _metadata of {subtasks:,} handles", seconds, "CPU s", None, 3)]


if __name__ == "__main__":
    main()
