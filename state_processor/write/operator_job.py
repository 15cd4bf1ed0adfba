"""From the draft of an operator to its files: which jobs run, and what becomes of their results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from state_processor.backends.formats.row_layout import KEY_GROUP_COLUMN
from state_processor.backends.formats.source import ScanRequest
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot_metadata import OperatorState, OperatorSubtaskState
from state_processor.backends.read.keyed_splits import plan_splits
from state_processor.backends.read.operator_state import OperatorSplit, raw_elements
from state_processor.backends.read.state_listing import subtask_label
from state_processor.backends.read.task_snapshot import snapshot_for_tasks
from state_processor.backends.state.descriptions import BroadcastDescription
from state_processor.backends.state.hash_inference import HashRule, Misfit, learn_hash_rule, misfits, rules_left
from state_processor.backends.state.row_field_names import declared_names
from state_processor.backends.state.state_registration import operator_header, register
from state_processor.backends.write.assembly import NewOperator, SubtaskHandles
from state_processor.backends.write.entry_encoder import KEY, KeyHash
from state_processor.backends.write.operator_writer import encode_broadcast
from state_processor.backends.write.staging import Staging
from state_processor.backends.write.state_migration import converted_broadcast
from state_processor.portable_registrations import TaskSerializers
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.errors import InvalidRowError, UnsupportedFormatError
from state_processor.serializers.keys.hash_codes import hash_codes
from state_processor.serializers.kryo.nested_kryo import for_flink, java_types
from state_processor.write.draft import OperatorDraft, RowSource
from state_processor.write.engines import Engine, Task, Written
from state_processor.write.key_check import CheckKeys
from state_processor.write.keyed_tasks import (
    EncodeRows,
    KeyedTarget,
    PassThroughEntries,
    StateColumns,
    WriteKeyedState,
    header_bytes,
    now_millis,
)
from state_processor.write.migration_tasks import MigrateElements, MigrateEntries, PortableTypes, portable
from state_processor.write.operator_state_tasks import (
    BroadcastBytes,
    EncodeElements,
    OperatorTarget,
    PassThroughElements,
    WriteOperatorState,
)
from state_processor.write.shuffle import ShuffleBlobs
from state_processor.write.source_operator import SourceOperator
from state_processor.write.subtask_files import CopyPart, CopySubtasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SAMPLED_KEYS: Final = 100_000
"""About how many keys of a base are looked at to learn a rule for their ``hashCode``, before all are held against it."""

_LOSSLESS: Final = DecodeOptions(nanos="string", row_kind=True)

Copies = Mapping[tuple[str, int], OperatorSubtaskState]
"""What was taken over file by file, by operator id and subtask."""


@dataclass(frozen=True)
class WrittenOperator:
    """An operator of the new savepoint, and how many entries were written anew."""

    operator: OperatorState
    entries: int
    states: tuple[str, ...]
    carried: bool


def copy_unchanged(engine: Engine, drafts: Sequence[OperatorDraft], staging: Staging) -> dict[tuple[str, int], Any]:
    """Copy the files of everything that stays as it is, of all operators, in one job."""
    parts: list[CopyPart] = []
    snapshot = None
    for draft in drafts:
        if draft.base is None or draft.changes_parallelism:
            continue
        snapshot = draft.base.snapshot
        old = draft.base.operator
        parts += [CopyPart(old.operator_id, draft.label, _unchanged(draft, s)) for s in old.subtasks]
    if snapshot is None:
        return {}
    copied = engine.run_parts(len(parts), CopySubtasks(snapshot_for_tasks(snapshot), staging, tuple(parts)))
    return {(parts[i].operator_id, state.index): state for i, state in copied.items()}


def _unchanged(draft: OperatorDraft, subtask: OperatorSubtaskState) -> OperatorSubtaskState:
    """A subtask without what is written anew."""
    assert draft.base is not None
    if draft.changes_keyed:
        has_timers = any(k.raw and k.subtask == subtask.index for k in draft.base.handles)
        subtask = replace(subtask, managed_keyed=None, raw_keyed=None if has_timers else subtask.raw_keyed)
    if draft.changes_operator_state:
        subtask = replace(subtask, managed_operator=None)
    return subtask


class OperatorJob:
    """Writes one operator.

    Parameters
    ----------
    engine, staging
        With what, and where.
    draft
        The operator.
    flink_major
        The major version of the Flink that the new serializers are for.
    serializers
        Modules that tasks import.
    """

    def __init__(
        self, engine: Engine, staging: Staging, draft: OperatorDraft, flink_major: int, serializers: tuple[str, ...]
    ) -> None:
        self._engine = engine
        self._staging = staging
        self._draft = draft
        self._flink_major = flink_major
        self._serializers = TaskSerializers.of_driver(serializers)
        self._parallelism = draft.final_parallelism

    def run(self, copies: Copies) -> WrittenOperator:
        """Write what changed, and put it together with the copies of what did not."""
        draft = self._draft
        if not draft.is_changed:
            return self._carried(copies)
        self._check_raw()
        keyed = self._write_keyed() if draft.changes_keyed else {}
        operator = self._write_operator_state() if draft.changes_operator_state else {}
        subtasks = {}
        for index in range(self._parallelism):
            copy = copies.get((draft.identifier.uid_hash, index), OperatorSubtaskState(index))
            subtasks[index] = SubtaskHandles(
                keyed=keyed[index][0] if index in keyed else copy.managed_keyed,
                operator=operator[index][0] if index in operator else copy.managed_operator,
                raw_keyed=copy.raw_keyed,
                raw_operator=copy.raw_operator,
            )
        base = draft.base.operator if draft.base is not None else None
        new = NewOperator(
            draft.final_identifier.uid_hash,
            self._parallelism,
            draft.final_max_parallelism,
            subtasks,
            self._coordinator_state(),
            draft.final_identifier.uid,
            base.name if base is not None else None,
        )
        entries = sum(count for _, count in (*keyed.values(), *operator.values()))
        return WrittenOperator(new.to_state(), entries, draft.final_names, carried=False)

    def _coordinator_state(self) -> h.ByteStreamStateHandle | None:
        draft = self._draft
        if draft.coordinator is not None:
            return h.ByteStreamStateHandle(f"coordinator-{draft.final_identifier.uid_hash}", draft.coordinator)
        return draft.base.operator.coordinator_state if draft.base is not None else None

    def _carried(self, copies: Copies) -> WrittenOperator:
        draft = self._draft
        assert draft.base is not None
        old = draft.base.operator
        subtasks = tuple(copies[(old.operator_id, s.index)] for s in old.subtasks)
        identifier = draft.final_identifier
        new = replace(old, subtasks=subtasks, operator_id=identifier.uid_hash, uid=identifier.uid)
        return WrittenOperator(new, 0, draft.final_names, carried=True)

    def _check_raw(self) -> None:
        """Raw state has no form that could be dealt out anew."""
        draft = self._draft
        if draft.base is None or not draft.changes_parallelism:
            return
        timers = {k.subtask for k in draft.base.handles if k.raw}
        for subtask in draft.base.operator.subtasks:
            raw_keyed = subtask.raw_keyed is not None and subtask.index not in timers
            if raw_keyed or subtask.raw_operator is not None:
                raise UnsupportedFormatError(
                    f"{draft.label}, subtask {subtask.index} has raw state, which only its own code can distribute anew; "
                    "keep the operator's parallelism and max parallelism"
                )

    # Keyed state

    def target(self) -> KeyedTarget | None:
        """The keyed state to write; ``None`` without keyed states."""
        draft = self._draft
        header = draft.header()
        if header is None:
            return None
        return KeyedTarget(
            draft.identifier.uid_hash,
            draft.label,
            header_bytes(header),
            self._flink_major,
            self._parallelism,
            draft.final_max_parallelism,
            self._serializers,
            self._hashing(header.key.restore_serializer()),
            {name: types for name, (types, _) in draft.forms.items()} | {n: java_types(s) for n, s in draft.added.items()},
            draft.updated,
            frozenset(name for name, (_, with_bytes) in draft.forms.items() if with_bytes),
        )

    def encoders(self, target: KeyedTarget) -> list[ShuffleBlobs]:
        """Pass 1 over the rows of each source."""
        ids = target.ids
        tasks = []
        for source in self._draft.sources:
            states = tuple(
                StateColumns(ids[n], dict(columns), source.marks, source.names.get(n, {}))
                for n, columns in source.columns.items()
                if n in ids
            )
            tasks.append(self._placed(EncodeRows(target, states, now_millis())))
        return tasks

    @staticmethod
    def columns(source: RowSource) -> list[str]:
        """The columns of rows that are looked at."""
        return _columns(source.columns.values())

    def _write_keyed(self) -> Written:
        draft = self._draft
        target = self.target()
        if target is None:
            return {}
        blobs = [
            self._engine.encode_rows(source.frame, self.columns(source), task)
            for source, task in zip(draft.sources, self.encoders(target), strict=True)
        ]
        for deletion in draft.deletions:
            names = [deletion.state] if deletion.state is not None else list(draft.carried_names())
            given = dict(deletion.columns), deletion.marks, deletion.names
            states = tuple(StateColumns(target.ids[n], *given) for n in names if n in target.ids)
            task = self._placed(EncodeRows(target, states))
            blobs.append(self._engine.encode_rows(deletion.frame, _columns([deletion.columns]), task))
        blobs += self._carry_keyed(target)
        return self._engine.write_subtasks(blobs, self._parallelism, WriteKeyedState(target, self._staging))

    def _carry_keyed(self, target: KeyedTarget) -> Iterator[Any]:
        """Pass 1 over the base: states that stay as they are, and those that another Flink has in other bytes."""
        draft = self._draft
        names = draft.carried_names()
        if not names or draft.base is None or not draft.base.handles:
            return
        parts = tuple(plan_splits(draft.base.handles))
        source = (target, snapshot_for_tasks(draft.base.snapshot), parts)
        size = draft.base.operator.max_parallelism
        tasks: list[PassThroughEntries] = []
        same, converted = ([n for n in names if draft.converts(n) is other] for other in (False, True))
        if same:
            tasks.append(PassThroughEntries(*source, tuple((n, target.ids[n]) for n in same), size))
        if converted:
            tasks.append(MigrateEntries(*source, tuple((n, target.ids[n]) for n in converted), size, self._new_types()))
        for task in tasks:
            yield self._engine.encode_parts(len(parts), self._placed(task))

    def _new_types(self) -> PortableTypes:
        migration = self._draft.migration
        return portable(migration.types) if migration is not None else {}

    def _placed(self, encode: Task) -> ShuffleBlobs:
        in_files = self._staging.is_local or not self._engine.shuffles
        return ShuffleBlobs(encode, self._staging, self._draft.identifier.uid_hash, in_files)

    def _hashing(self, key: TypeSerializer) -> KeyHash | tuple[HashRule, ...] | None:
        """How to hash keys; learned from the keys of the base where it is the code of a class, all of which have to agree."""
        draft = self._draft
        base = draft.base
        moves = base is not None and base.operator.max_parallelism != draft.final_max_parallelism
        if callable(draft.hashing) or base is None or not (draft.sources or draft.deletions or moves):
            return draft.hashing
        if draft.hashing is None and not self._is_user_code(key):
            return None
        try:
            return self._rules(key, draft.hashing, base)
        except UnsupportedFormatError as problem:
            raise UnsupportedFormatError(f"{draft.label}: {problem}") from None

    def _rules(self, key: TypeSerializer, given: tuple[HashRule, ...] | None, base: SourceOperator) -> tuple[HashRule, ...]:
        """The rules that agree with every key of the base, of those given or of all that are known."""
        keys, groups, all_seen = self._sample(key)
        size = base.operator.max_parallelism
        if given is None:
            rules = learn_hash_rule(key, keys, groups, size, self._draft.final_max_parallelism).rules
        else:
            rules = rules_left(key, given, misfits(key, given, keys, groups, size))
        return rules if all_seen else self._confirmed(key, rules, base)

    def _is_user_code(self, key: TypeSerializer) -> bool:
        """Whether the serializer of keys, of which there are some, does not know their ``hashCode``."""
        some = next((batch.column(KEY).slice(0, 1) for batch in self._keys() if batch.num_rows), None)
        if some is None:
            return False
        try:
            hash_codes(key, some)
        except UnsupportedFormatError:
            return True
        return False

    def _sample(self, key: TypeSerializer) -> tuple[pa.Array, Any, bool]:
        """Keys of the base with their key groups, from the first handles; and whether these are all."""
        keys: list[pa.Array] = []
        groups: list[pa.Array] = []
        all_seen = True
        for batch in self._keys():
            if sum(map(len, keys)) >= SAMPLED_KEYS:
                all_seen = False
                break
            keys.append(batch.column(KEY))
            groups.append(batch.column(KEY_GROUP_COLUMN))
        all_keys = pa.chunked_array(keys, key.arrow_type(_LOSSLESS)).combine_chunks()
        return all_keys, np.asarray(pa.chunked_array(groups, pa.int32())), all_seen

    def _confirmed(self, key: TypeSerializer, rules: tuple[HashRule, ...], base: SourceOperator) -> tuple[HashRule, ...]:
        """The rules that agree with all keys, which are too many for one process."""
        parts = tuple(plan_splits(base.handles))
        check = CheckKeys(snapshot_for_tasks(base.snapshot), parts, rules, base.operator.max_parallelism, self._serializers)
        contradicted: dict[HashRule, Misfit] = {}
        for found in self._engine.run_parts(len(parts), check).values():
            contradicted |= found
        return rules_left(key, rules, contradicted)

    def _keys(self) -> Iterator[pa.RecordBatch]:
        base = self._draft.base
        assert base is not None
        for handle in base.handles:
            source = handle.open(base.snapshot)
            for meta in source.header.states:
                wanted = frozenset({KEY, KEY_GROUP_COLUMN})
                yield from source.scan(ScanRequest(meta.name, wanted, _LOSSLESS, handle.key_groups))

    # Operator state

    def _write_operator_state(self) -> Written:
        draft = self._draft
        metas = {n: m for n, m in draft.base.operator_metas.items() if draft.keeps(n)} if draft.base is not None else {}
        migrated = draft.migration.operator if draft.migration is not None else {}
        metas |= {n: migrated[n].new for n in metas if n in migrated}
        kept = tuple(metas)
        metas |= {name: register(state) for name, (state, _) in draft.operator_states.items()}
        if not metas:
            return {}
        header = operator_header(list(metas.values()))
        target = OperatorTarget(
            draft.identifier.uid_hash,
            draft.label,
            header_bytes(header),
            self._flink_major,
            self._parallelism,
            self._serializers,
            {name: java_types(state) for name, (state, _) in draft.operator_states.items()},
            {name: declared_names(state) for name, (state, _) in draft.operator_states.items()},
        )
        ids = {meta.name: i for i, meta in enumerate((*header.lists, *header.broadcasts))}
        blobs: list[Any] = []
        broadcasts: list[BroadcastBytes] = []
        for name, (state, frame) in draft.operator_states.items():
            if isinstance(state, BroadcastDescription):
                broadcasts.append(_broadcast(for_flink(state, self._flink_major), ids[name], frame, draft.label))
            else:
                blobs.append(self._engine.encode_rows(frame, frame.columns, self._placed(EncodeElements(target, ids[name]))))
        self._carry_operator_state(target, ids, kept, blobs, broadcasts)
        return self._engine.write_subtasks(blobs, self._parallelism, WriteOperatorState(target, self._staging, tuple(broadcasts)))

    def _carry_operator_state(
        self,
        target: OperatorTarget,
        ids: Mapping[str, int],
        kept: Sequence[str],
        blobs: list[Any],
        broadcasts: list[BroadcastBytes],
    ) -> None:
        base = self._draft.base
        if base is None or not kept:
            return
        splits = tuple(
            OperatorSplit(s.managed_operator, s.index, subtask_label(base.operator, s))
            for s in base.operator.subtasks
            if s.managed_operator is not None
        )
        lists: dict[bool, list[tuple[str, int]]] = {False: [], True: []}
        for name in kept:
            converted = self._draft.converts(name)
            if not isinstance(base.operator_states[name], BroadcastDescription):
                lists[converted].append((name, ids[name]))
                continue
            held = next(s for s in splits if any(m.name == name for m in s.handle.states))
            data, _ = raw_elements(base.snapshot, held, name)
            if len(data):
                entries = self._broadcast_bytes(name, data.tobytes()) if converted else data.tobytes()
                broadcasts.append(BroadcastBytes(ids[name], int.from_bytes(entries[:4], "big"), entries[4:]))
        source = (target, snapshot_for_tasks(base.snapshot), splits)
        stays = base.operator.parallelism == self._parallelism
        if lists[False] and splits:
            carry = PassThroughElements(*source, tuple(lists[False]), stays)
            blobs.append(self._engine.encode_parts(len(splits), self._placed(carry)))
        if lists[True] and splits:
            migrate = MigrateElements(*source, tuple(lists[True]), stays, self._new_types())
            blobs.append(self._engine.encode_parts(len(splits), self._placed(migrate)))

    def _broadcast_bytes(self, name: str, data: bytes) -> bytes:
        """A broadcast state of the base as another Flink has it."""
        assert self._draft.migration is not None
        return converted_broadcast(self._draft.migration.operator[name], data)


def _columns(mappings: Iterable[Mapping[str, str]]) -> list[str]:
    """The columns of rows that some states need."""
    return list(dict.fromkeys(column for mapping in mappings for column in mapping.values()))


def _broadcast(state: BroadcastDescription, state_id: int, frame: DataFrame, label: str) -> BroadcastBytes:
    table = frame.toArrow().combine_chunks()
    if not table.num_rows:
        return BroadcastBytes(state_id, 0, b"")
    keys, values = (table.column(i).combine_chunks() for i in (0, 1))
    nulls = keys.null_count
    if nulls:
        raise InvalidRowError(f"{label}, state {state.name!r}: {nulls} of the keys are null")
    return BroadcastBytes(state_id, len(keys), encode_broadcast(state, keys, values, f"{label}, state {state.name!r}").tobytes())
