"""The states of an operator: the union of what the headers of its subtasks register."""


from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from state_processor.backends.formats.changelog_log import changelog_header, read_log
from state_processor.backends.formats.raw_timers import holds_timers, raw_blocks, timers_header
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.operator_id import operator_id
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState, OperatorSubtaskState
from state_processor.backends.state import meta_info as mi
from state_processor.backends.state.descriptions import (
    DISTRIBUTION_KINDS,
    StateDescription,
    UnreadState,
    backend_name,
    describe_keyed,
    describe_operator_state,
    keyed_kind,
)
from state_processor.serializers.errors import (
    CorruptSnapshotError,
    MissingFileError,
    NotFoundError,
    ScratchSpaceError,
    UnsupportedFormatError,
)
from state_processor.serializers.io import DataInput
from state_processor.serializers.kryo.serializer import written_by_flink

_FORST_DIRECTORY: Final = re.compile(rb"db_log_dir=\S*_attempt_\d+/db")
"""Where ForSt works (Flink: ``ForStStateBackend``, ``op_ID_attempt_N``)."""


def find_operator(snapshot: Snapshot, uid: str | None = None, uid_hash: str | None = None) -> OperatorState:
    """An operator by its uid or uid hash.

    Raises
    ------
    NotFoundError
        If there is none; the message names those that there are.
    """
    wanted = uid_hash.lower() if uid_hash else operator_id(uid or "")
    for operator in snapshot.metadata.operators:
        if operator.operator_id == wanted:
            return operator
    known = [o.uid or o.operator_id for o in snapshot.metadata.operators]
    raise NotFoundError.naming_nearest("operator", uid or wanted, known)


def operator_label(operator: OperatorState) -> str:
    """How messages name an operator: its uid where the snapshot holds it, else its uid hash."""
    return f"operator {operator.uid!r}" if operator.uid else f"operator {operator.operator_id}"


def leaf_keyed_handles(handle: h.KeyedStateHandle | None) -> Iterator[h.KeyedStateHandle]:
    """The handles that a subtask's managed keyed state consists of: a changelog's materialized part is several."""
    if isinstance(handle, h.ChangelogStateBackendHandle):
        for part in handle.materialized:
            yield from leaf_keyed_handles(part)
    elif handle is not None:
        yield handle


def keyed_header(snapshot: Snapshot, handle: h.KeyedStateHandle, context: str, max_parallelism: int) -> mi.KeyedHeader:
    """The header of a keyed handle: in front of the key groups, in a file of its own, or spread over a changelog."""
    if isinstance(handle, h.ChangelogStateBackendHandle):
        parts = [keyed_header(snapshot, part, context, max_parallelism) for part in leaf_keyed_handles(handle)]
        return changelog_header(read_log(snapshot, handle, context), parts, context, max_parallelism)
    if isinstance(handle, h.KeyGroupsStateHandle):
        stream = snapshot.open(handle.stream, context)
        offsets = [o for o in handle.offsets if o > 0]
        data = stream.read(0, min(offsets, default=stream.size))
    elif isinstance(handle, h.IncrementalRemoteKeyedStateHandle):
        stream = snapshot.open(handle.meta, context)
        data = stream.read()
    else:
        raise NotFoundError(f"{context}: {type(handle).__name__} has no header")
    source = DataInput(data, f"{context}, {stream.describe()}")
    with written_by_flink(snapshot.flink_major):
        header = mi.KeyedHeader.read(source)
    if not source.at_end():
        raise source.corrupt(f"the header of {len(header.states)} states ends here, {source.remaining} bytes early")
    return header


def raw_timers_header(snapshot: Snapshot, handle: h.KeyedStateHandle | None, context: str) -> mi.KeyedHeader | None:
    """The timers that raw keyed state holds, as a header; ``None`` where it is an operator's own bytes, or nothing."""
    if not isinstance(handle, h.KeyGroupsStateHandle):
        return None
    stream = snapshot.open(handle.stream, context)
    blocks = raw_blocks(stream, handle, context)
    if not holds_timers(stream, blocks):
        return None
    with written_by_flink(snapshot.flink_major):
        return timers_header(stream, blocks, context)


def operator_header(snapshot: Snapshot, handle: h.OperatorStateHandle, context: str) -> mi.OperatorHeader:
    """The header of a subtask's operator state."""
    stream = snapshot.open(handle.stream, context)
    first = min((o for s in handle.states for o in s.offsets), default=stream.size)
    with written_by_flink(snapshot.flink_major):
        return mi.OperatorHeader.read(DataInput(stream.read(0, first), f"{context}, {stream.describe()}"))


def subtask_label(operator: OperatorState, subtask: OperatorSubtaskState) -> str:
    """How messages name a subtask."""
    return f"{operator_label(operator)}, subtask {subtask.index}"


@contextmanager
def naming_state(name: str | None, operator: OperatorState) -> Iterator[None]:
    """Adds state and operator to errors about files, as far as they don't name them: a file may hold several states."""
    try:
        yield
    except (CorruptSnapshotError, MissingFileError, ScratchSpaceError) as error:
        message, label = str(error), operator_label(operator)
        if name is None or f"state {name!r}" in message:
            raise
        link = "of" if message.startswith(label) else f"of {label}:"
        raise type(error)(f"state {name!r} {link} {message}") from error


def survey(snapshot: Snapshot, operator: OperatorState) -> tuple[dict[str, list[StateDescription]], list[UnreadState]]:
    """All states of an operator by name, each as every subtask registers it that does; and those that can't be read.

    A state may be registered in a single subtask only, and a POJO's subclasses may differ between subtasks.
    """
    found: dict[str, list[StateDescription]] = {}
    unread: dict[tuple[str | None, str | None], UnreadState] = {}
    for subtask in operator.subtasks:
        for state in _subtask_states(snapshot, operator, subtask):
            if isinstance(state, UnreadState):
                unread.setdefault((state.name, state.kind), state)
            else:
                found.setdefault(state.name, []).append(state)
    return found, list(unread.values())


def state_variants(snapshot: Snapshot, operator: OperatorState) -> dict[str, list[StateDescription]]:
    """The same where all have to be readable.

    Raises
    ------
    UnsupportedFormatError
        If one is not.
    """
    found, unread = survey(snapshot, operator)
    for state in unread:
        raise state.error
    return found


def operator_states(snapshot: Snapshot, operator: OperatorState) -> dict[str, StateDescription]:
    """All states of an operator by name, over all its subtasks."""
    return {name: variants[0] for name, variants in state_variants(snapshot, operator).items()}


def _subtask_states(
    snapshot: Snapshot, operator: OperatorState, subtask: OperatorSubtaskState
) -> Iterator[StateDescription | UnreadState]:
    context = subtask_label(operator, subtask)
    parts = (_managed_keyed_states, _raw_keyed_states, _managed_operator_states)
    for part in parts:
        try:
            yield from part(snapshot, operator, subtask, context)
        except UnsupportedFormatError as error:
            yield UnreadState(error)


def _managed_keyed_states(
    snapshot: Snapshot, operator: OperatorState, subtask: OperatorSubtaskState, context: str
) -> Iterator[StateDescription | UnreadState]:
    handle = subtask.managed_keyed
    if handle is None:
        return
    header = keyed_header(snapshot, handle, context, operator.max_parallelism)
    backend = backend_name(handle, header)
    if backend == "heap" and _is_canonical(snapshot, handle, context):
        backend = "canonical"
    if backend == "rocksdb" and _is_forst(snapshot, handle, context):
        backend = "forst"
    for meta in header.states:
        try:
            yield describe_keyed(header, meta, backend)
        except UnsupportedFormatError as error:
            yield UnreadState(error, meta.name, keyed_kind(meta), backend)


def _raw_keyed_states(
    snapshot: Snapshot, operator: OperatorState, subtask: OperatorSubtaskState, context: str
) -> Iterator[StateDescription]:
    raw = raw_timers_header(snapshot, subtask.raw_keyed, context)
    if raw is not None:
        for meta in raw.states:
            yield describe_keyed(raw, meta, "raw")


def _managed_operator_states(
    snapshot: Snapshot, operator: OperatorState, subtask: OperatorSubtaskState, context: str
) -> Iterator[StateDescription | UnreadState]:
    if subtask.managed_operator is None or not subtask.managed_operator.states:
        return
    header = operator_header(snapshot, subtask.managed_operator, context)
    for meta in (*header.lists, *header.broadcasts):
        try:
            yield describe_operator_state(meta)
        except UnsupportedFormatError as error:
            kind = DISTRIBUTION_KINDS.get(meta.options.get(mi.DISTRIBUTION_MODE, ""))
            yield UnreadState(error, meta.name, kind, "operator")


def _is_forst(snapshot: Snapshot, handle: h.KeyedStateHandle, context: str) -> bool:
    """Whether ForSt wrote the files: its options name a log directory, below a directory called as ForSt calls it."""
    if snapshot.flink_major < 2 or not isinstance(handle, h.IncrementalRemoteKeyedStateHandle):
        return False
    for file in handle.files:
        if file.local_name.startswith("OPTIONS-"):
            try:
                return _FORST_DIRECTORY.search(snapshot.open(file.stream, context).read()) is not None
            except MissingFileError:
                return False  # reading the state names it
    return False


def _is_canonical(snapshot: Snapshot, handle: h.KeyedStateHandle, context: str) -> bool:
    """Whether the body is canonical though the handle's code does not say so: the heap begins each key group with its number."""
    if not isinstance(handle, h.KeyGroupsStateHandle):
        return False
    stream = snapshot.open(handle.stream, context)
    for key_group, offset in zip(handle.key_groups, handle.offsets, strict=False):
        if not 0 < offset <= stream.size - 4 or int.from_bytes(stream.read(offset, 4), "big") != key_group:
            return True
        if key_group:
            return False
    return False
