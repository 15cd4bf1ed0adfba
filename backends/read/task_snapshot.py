"""The part of a snapshot that is sent to tasks: access to files, without the table of contents.

A snapshot may have hundreds of thousands of handles. A task needs the handles of its split only, and its split has them. The task
gets the serializers from the header of the file that it opens.
"""

from __future__ import annotations

from dataclasses import replace

from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState


def snapshot_for_tasks(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with access to its files, without operators and plan."""
    return replace(
        snapshot, query_plan=None, metadata=replace(snapshot.metadata, operators=(), master_states=(), properties=None)
    )


def operator_for_tasks(operator: OperatorState) -> OperatorState:
    """Return the operator without the handles of its subtasks."""
    return replace(operator, subtasks=(), coordinator_state=None)
