"""An operator of an open snapshot, and its states: the union of the states in the headers of its subtasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import chain, islice, repeat
from typing import Any, Final

import pyarrow as pa

from state_processor.backends.files.ordered_threads import at_once
from state_processor.backends.formats.opening import open_raw_timers, open_source
from state_processor.backends.formats.operator_file import operator_header
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.operator_id import operator_id
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState, OperatorSubtaskState
from state_processor.backends.state import state_headers
from state_processor.backends.state.descriptions import (
    DISTRIBUTION_KINDS,
    StateDescription,
    UnreadState,
    describe_keyed,
    describe_operator_state,
    first_variants,
    keyed_kind,
)
from state_processor.backends.state.state_headers import KEPT, Same
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.support.doors import code_or_text, spelled
from state_processor.support.errors import (
    CorruptSnapshotError,
    MissingFileError,
    NotFoundError,
    StateProcessorError,
    UnsupportedFormatError,
    foreign_classes,
    foreign_errors,
    third_party_errors,
)
from state_processor.support.locks import cached_property


def find_operator(snapshot: Snapshot, uid: str | None = None, uid_hash: str | None = None) -> OperatorState:
    """Find an operator by its uid, its uid hash or, in a snapshot with a plan, its label: ``group-aggregate[5]``.

    An operator that has its id from the plan is also found by the id in ``_metadata``. If the snapshot does not record the uid of
    the operator, the operator has the given uid.
    """
    id_or_label = uid_hash.lower() if uid_hash else operator_id(uid or "")
    if uid and snapshot.query_plan is not None:
        id_or_label = snapshot.query_plan.find(uid, snapshot.metadata.operators_by_id) or id_or_label
    for operator in snapshot.metadata.operators:
        if id_or_label in (operator.operator_id, snapshot.recorded_ids.get(operator.operator_id)):
            is_named = operator.uid or uid is None or operator.operator_id != operator_id(uid)
            return operator if is_named else replace(operator, uid=uid)
    if operator_id(id_or_label) in snapshot.metadata.operators_by_id:
        by_uid = code_or_text(f"OperatorIdentifier.for_uid({id_or_label!r})", spelled("uid_hash", operator_id(id_or_label)))
        raise NotFoundError(f"no operator has the uid hash {id_or_label}; one has this uid: name it by {by_uid}")
    without_uid = [o for o in snapshot.metadata.operators if uid and not o.uid]
    same_names = [o.operator_id for o in without_uid if str(uid).lower() in (o.name or "").lower()]
    if same_names:
        raise NotFoundError(f"no operator has the uid {uid!r}; this is in the name of {', '.join(map(repr, same_names))}")
    labels = [o.label for o in snapshot.metadata.operators]
    raise NotFoundError.naming_nearest("operator", uid or id_or_label, labels)


def operator_label(operator: OperatorState) -> str:
    """Name an operator in messages: by its uid where the snapshot holds it, else by its uid hash."""
    return f"operator {operator.uid!r}" if operator.uid else f"operator {operator.operator_id}"


def leaf_keyed_handles(handle: h.KeyedStateHandle | None) -> Iterator[h.KeyedStateHandle]:
    """Yield the handles that a subtask's managed keyed state consists of: a changelog's materialized part is several."""
    if isinstance(handle, h.ChangelogStateBackendHandle):
        for part in handle.materialized:
            yield from leaf_keyed_handles(part)
    elif handle is not None:
        yield handle


def subtask_label(operator: OperatorState, subtask: OperatorSubtaskState) -> str:
    """Name a subtask in messages."""
    return f"{operator_label(operator)}, subtask {subtask.index}"


def own_raw_keyed(snapshot: Snapshot, operator: OperatorState, subtask: OperatorSubtaskState) -> h.KeyedStateHandle | None:
    """Return the raw keyed state of a subtask; ``None`` if it consists of Flink's timers."""
    handle = subtask.raw_keyed
    timers = open_raw_timers(snapshot, handle, subtask_label(operator, subtask))
    return handle if timers is None else None


@contextmanager
def naming_state(name: str | None, operator: OperatorState) -> Iterator[None]:
    """Add state and operator to errors about files, as far as they don't name them: a file may hold several states.

    Whatever else damaged bytes lead to becomes an error of this library.
    """
    label = operator_label(operator)
    context = label if name is None else f"state {name!r} of {label}"
    try:
        with foreign_errors(context), third_party_errors(context):
            yield
    except (CorruptSnapshotError, MissingFileError) as error:
        message = str(error)
        if name is None or f"state {name!r}" in message:
            raise
        link = "of" if message.startswith(label) else f"of {label}:"
        raise type(error)(f"state {name!r} {link} {message}") from error


_TOGETHER: Final = 1000
"""So many headers are read before the states of the first operators are given."""

Survey = tuple[dict[str, list[StateDescription]], list[UnreadState]]


def survey(snapshot: Snapshot, operator: OperatorState) -> Survey:
    """Return an operator's states: see :attr:`StoredOperator.surveyed`."""
    return StoredOperator(snapshot, operator).surveyed


def surveys(snapshot: Snapshot, operators: Iterable[OperatorState]) -> Iterator[Survey]:
    """Yield what :func:`survey` returns for each operator; headers of several operators are read at the same time."""
    for together in _portions(operators):
        places: list[tuple[OperatorState, OperatorSubtaskState]] = []
        for operator in together:
            places += zip(repeat(operator), operator.subtasks)
        subtask_states = iter(at_once(lambda place: _states_of_subtask(snapshot, *place), places, is_local=snapshot.is_local))
        for operator in together:
            yield _merged(islice(subtask_states, len(operator.subtasks)))


def _portions(operators: Iterable[OperatorState]) -> Iterator[list[OperatorState]]:
    """Yield operators with few subtasks together."""
    together: list[OperatorState] = []
    subtasks = 0
    for operator in operators:
        together.append(operator)
        subtasks += len(operator.subtasks)
        if max(subtasks, len(together)) >= _TOGETHER:
            yield together
            together, subtasks = [], 0
    yield together


def _merged(subtasks: Iterable[list[StateDescription | UnreadState]]) -> Survey:
    by_name: dict[str, list[StateDescription]] = {}
    unread: dict[tuple[str | None, str | None], UnreadState] = {}
    for state in chain.from_iterable(subtasks):
        if isinstance(state, UnreadState):
            unread.setdefault((state.name, state.kind), state)
            continue
        variants = by_name.setdefault(state.name, [])
        if not variants or variants[-1] is not state:
            variants.append(state)
    return by_name, list(unread.values())


def of_one_subtask(operator: OperatorState) -> OperatorState:
    """Return an operator with the first of its subtasks that have state: most operators have the same states in all subtasks."""
    first = next((subtask for subtask in operator.subtasks if subtask.state_size), None)
    return replace(operator, subtasks=() if first is None else (first,))


def state_variants(snapshot: Snapshot, operator: OperatorState) -> dict[str, list[StateDescription]]:
    """Return an operator's states by name. All of them have to be readable."""
    return readable_states(survey(snapshot, operator))


def readable_states(surveyed: Survey) -> dict[str, list[StateDescription]]:
    """Return the states that :func:`survey` has found, if all of them can be read."""
    by_name, unread = surveyed
    for state in unread:
        raise state.error
    return by_name


def operator_states(snapshot: Snapshot, operator: OperatorState) -> dict[str, StateDescription]:
    """Return all states of an operator by name, over all its subtasks."""
    return first_variants(state_variants(snapshot, operator))


def _states_of_subtask(
    snapshot: Snapshot, operator: OperatorState, subtask: OperatorSubtaskState
) -> list[StateDescription | UnreadState]:
    context = subtask_label(operator, subtask)
    states: list[StateDescription | UnreadState] = []
    with foreign_errors(context), third_party_errors(context):
        for part in (_managed_keyed_states, _raw_keyed_states, _managed_operator_states):
            try:
                states.extend(part(snapshot, operator, subtask, context))
            except UnsupportedFormatError as error:
                states.append(UnreadState(error))
    return states


def _managed_keyed_states(
    snapshot: Snapshot, operator: OperatorState, subtask: OperatorSubtaskState, context: str
) -> Iterable[StateDescription | UnreadState]:
    if subtask.managed_keyed is None:
        return ()
    source = open_source(snapshot, subtask.managed_keyed, context, operator.max_parallelism)
    return _registered(source.header, source.backend, context)


def _registered(
    header: state_headers.KeyedHeader | state_headers.OperatorHeader, backend: str, context: str
) -> Iterable[StateDescription | UnreadState]:
    """Return the states that a header registers."""
    return _known_states(Same(header), backend) or _described(header, backend, context)


@lru_cache(maxsize=KEPT)
def _known_states(header: Same, backend: str) -> tuple[StateDescription, ...]:
    """Describe the states of a header; empty where a message will say which subtask has it."""
    (state_header,) = header.objects
    try:
        states = list(_described(state_header, backend, ""))
    except StateProcessorError:
        return ()
    read = tuple(state for state in states if isinstance(state, StateDescription))
    return read if len(read) == len(states) else ()


def _described(
    header: state_headers.KeyedHeader | state_headers.OperatorHeader, backend: str, context: str
) -> Iterator[StateDescription | UnreadState]:
    keyed = header if isinstance(header, state_headers.KeyedHeader) else None
    for meta in header.states:
        try:
            with third_party_errors(f"{context}, state {meta.name!r}"):
                yield _checked(describe_keyed(keyed, meta, backend) if keyed else describe_operator_state(meta))
        except UnsupportedFormatError as error:
            kind = keyed_kind(meta) if keyed else DISTRIBUTION_KINDS.get(meta.options.get(state_headers.DISTRIBUTION_MODE, ""))
            yield UnreadState(error, meta.name, kind, backend)


def _checked(state: StateDescription) -> StateDescription:
    """Ask serializers of users for name and type, so that their errors concern this state alone."""
    for serializer in state.serializers.values():
        if next(foreign_classes([serializer]), None) is not None:
            with third_party_errors(f"state {state.name!r}", parts=[serializer]):
                str(serializer), hash(state), pa.schema([("value", serializer.arrow_type(DecodeOptions()))])
    return state


def _raw_keyed_states(
    snapshot: Snapshot, operator: OperatorState, subtask: OperatorSubtaskState, context: str
) -> Iterator[StateDescription]:
    timers = open_raw_timers(snapshot, subtask.raw_keyed, context)
    if timers is not None:
        for meta in timers.header.states:
            yield describe_keyed(timers.header, meta, timers.backend)


def _managed_operator_states(
    snapshot: Snapshot, operator: OperatorState, subtask: OperatorSubtaskState, context: str
) -> Iterable[StateDescription | UnreadState]:
    if subtask.managed_operator is None or not subtask.managed_operator.states:
        return ()
    return _registered(operator_header(snapshot, subtask.managed_operator, context), "operator", context)


@dataclass(frozen=True)
class StoredOperator:
    """An operator, the snapshot that has it, and its states.

    It can be pickled, for tasks that read splits: a split has the handles that a task needs. All other handles are left out;
    a snapshot may have hundreds of thousands of them. A task gets the serializers from the header of the file that it opens.
    """

    snapshot: Snapshot
    operator: OperatorState
    earlier_survey: Survey | None = None  # the operator's states, if their headers were read before

    @classmethod
    def find(cls, snapshot: Snapshot, uid: str | None = None, uid_hash: str | None = None) -> StoredOperator:
        """Find an operator; see :func:`~state_processor.backends.read.stored_operator.find_operator`."""
        return cls(snapshot, find_operator(snapshot, uid, uid_hash))

    def __getstate__(self) -> dict[str, Any]:
        operator = replace(self.operator, subtasks=(), coordinator_state=None)
        return {"snapshot": snapshot_for_tasks(self.snapshot), "operator": operator, "earlier_survey": None}

    @property
    def label(self) -> str:
        """The operator's name in messages."""
        return operator_label(self.operator)

    @property
    def mixed_times(self) -> str:
        """Name the earlier checkpoints that subtasks of failed regions have their state from; empty if there are none.

        See ``MetadataV7Serializer``. Flink restores such a checkpoint: its values are of several times.
        """
        metadata, earlier = self.snapshot.metadata, sorted(self.operator.reference_checkpoints)
        if not earlier:
            return ""
        numbers = " and ".join(map(str, earlier))
        subtasks = sum(subtask.reference_checkpoint_id is not None for subtask in self.operator.subtasks)
        return (
            f"checkpoint {metadata.checkpoint_id} in {self.snapshot.directory} mixes several times: {subtasks} of "
            f"{len(self.operator.subtasks)} subtasks of {self.label} have the state of checkpoint {numbers}, since their region "
            "failed"
        )

    @cached_property
    def surveyed(self) -> Survey:
        """The operator's states by name, as its subtasks register them, and the states that can't be read.

        A state may be registered in a single subtask only, and a POJO's subclasses may differ between subtasks. Subtasks with the
        same header have the same descriptions. The list has them once. Headers are read once.
        """
        if self.earlier_survey is not None:
            return self.earlier_survey
        read_subtask = partial(_states_of_subtask, self.snapshot, self.operator)
        return _merged(at_once(read_subtask, self.operator.subtasks, is_local=self.snapshot.is_local))

    def states(self) -> dict[str, list[StateDescription]]:
        """Return the operator's states by name, as its subtasks register them. All of them have to be readable."""
        return readable_states(self.surveyed)

    def of_subtasks(self, subtasks: Iterable[OperatorSubtaskState]) -> StoredOperator:
        """Return the operator with some of its subtasks."""
        return StoredOperator(self.snapshot, replace(self.operator, subtasks=tuple(subtasks)))


def snapshot_for_tasks(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with access to its files, without operators and plan."""
    return replace(
        snapshot, query_plan=None, metadata=replace(snapshot.metadata, operators=(), master_states=(), properties=None)
    )
