"""Inference of ``hashCode`` for keys of classes that compute it themselves, from the key groups of existing keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from state_processor.backends.formats.row_layout import KEY_GROUP_COLUMN
from state_processor.backends.formats.source import KeyedStateSource, ScanRequest
from state_processor.backends.metadata.handles import KeyGroupRange
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.read.keyed_splits import KeyedSplit, plan_splits
from state_processor.backends.read.stored_operator import snapshot_for_tasks
from state_processor.backends.state.descriptions import key_of
from state_processor.backends.state.hash_inference import HashRule, Misfit, UserHash, learn_hash_rule, misfits, rules_left
from state_processor.backends.write.entry_encoder import KEY
from state_processor.options.user_serializers import TaskSerializers
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.hash_codes import has_known_hash, hash_codes
from state_processor.support.errors import UnsupportedFormatError

if TYPE_CHECKING:
    from state_processor.write.plan.outcome import OperatorOutcome
    from state_processor.write.plan.source_operator import SourceOperator
    from state_processor.write.tasks.passes import Engine

SAMPLED_KEYS: Final = 100_000
"""About how many keys of the source savepoint the driver infers rules from; tasks check the rules with all other keys."""

_COLUMNS: Final = frozenset({KEY, KEY_GROUP_COLUMN})
_LOSSLESS: Final = DecodeOptions(nanos="string", row_kind=True)


def key_hashing(outcome: OperatorOutcome, engine: Engine, key: TypeSerializer) -> UserHash | tuple[HashRule, ...] | None:
    """Return the ``hashCode`` of an operator's keys: a function or rules that fit all existing keys.

    It is ``None`` if the serializer has the function, or no key is hashed.
    """
    changes, source = outcome.changes, outcome.source
    if source is None:
        return changes.hashing
    moves = source.operator.max_parallelism != outcome.max_parallelism
    if not (changes.state_rows or changes.deletions or moves):
        return changes.hashing
    if changes.hashing is None and not _needs_rule(source, key):
        return None
    try:
        if isinstance(changes.hashing, UserHash):
            return _checked(outcome, engine, source, key, changes.hashing)
        return _rules(outcome, engine, source, key, changes.hashing)
    except UnsupportedFormatError as problem:
        raise UnsupportedFormatError(f"{outcome.label}: {problem}") from None


def _needs_rule(source: SourceOperator, key: TypeSerializer) -> bool:
    """Return whether there are keys whose ``hashCode`` the serializer does not know."""
    if has_known_hash(key):
        return False
    sample = next((batch.column(KEY).slice(0, 1) for batch in _keys(source) if batch.num_rows), None)
    if sample is None:
        return False
    try:
        hash_codes(key, sample)
    except UnsupportedFormatError:
        return True
    return False


def _rules(
    outcome: OperatorOutcome,
    engine: Engine,
    source: SourceOperator,
    key: TypeSerializer,
    requested: tuple[HashRule, ...] | None,
) -> tuple[HashRule, ...]:
    """Return the rules that fit every existing key, out of those given or of all that are known."""
    keys, groups, is_complete = _sample(source, key)
    size = source.operator.max_parallelism
    if requested is None:
        rules = learn_hash_rule(key, keys, groups, size, outcome.max_parallelism).rules
    else:
        rules = rules_left(key, requested, misfits(key, requested, keys, groups, size), inferred=False)
    if is_complete:
        return rules
    return rules_left(key, rules, _contradicted(outcome, engine, source, rules), inferred=requested is None)


def _checked(
    outcome: OperatorOutcome, engine: Engine, source: SourceOperator, key: TypeSerializer, function: UserHash
) -> UserHash:
    """Return the function, if it gives the key group of every existing key."""
    keys, groups, is_complete = _sample(source, key)
    contradicted = misfits(key, [function], keys, groups, source.operator.max_parallelism)
    if not (contradicted or is_complete):
        contradicted = _contradicted(outcome, engine, source, (function,))
    return rules_left(key, [function], contradicted, inferred=False)[0]


def _contradicted(
    outcome: OperatorOutcome, engine: Engine, source: SourceOperator, rules: tuple[HashRule | UserHash, ...]
) -> dict[int, Misfit]:
    """Return the rules that an existing key contradicts, by position. Tasks read the keys."""
    check = CheckKeys(snapshot_for_tasks(source.snapshot), rules, source.operator.max_parallelism, outcome.settings.serializers)
    contradicted: dict[int, Misfit] = {}
    for misfits_of_part in engine.run_parts(plan_splits(source.handles), check):
        contradicted |= misfits_of_part
    return contradicted


def _sample(source: SourceOperator, key: TypeSerializer) -> tuple[pa.Array, Any, bool]:
    """Return keys with their key groups, from the first handles; and whether these are all keys."""
    keys: list[pa.Array] = []
    groups: list[pa.Array] = []
    is_complete = True
    for batch in _keys(source):
        if sum(map(len, keys)) >= SAMPLED_KEYS:
            is_complete = False
            break
        keys.append(batch.column(KEY))
        groups.append(batch.column(KEY_GROUP_COLUMN))
    all_keys = pa.chunked_array(keys, key.arrow_type(_LOSSLESS)).combine_chunks()
    return all_keys, np.asarray(pa.chunked_array(groups, pa.int32())), is_complete


@dataclass(frozen=True)
class CheckKeys:
    """Task that checks rules with all keys of a part. A part is a range of key groups."""

    snapshot: Snapshot  # the source savepoint, as it travels to tasks
    rules: tuple[HashRule | UserHash, ...]
    max_parallelism: int  # of the operator in the source savepoint
    serializers: TaskSerializers = field(default_factory=TaskSerializers)  # serializers that users register

    def __call__(self, part: KeyedSplit) -> dict[int, Misfit]:
        """Return the positions of the rules that keys contradict, with such a key."""
        self.serializers.enter()
        source = part.handle.open(self.snapshot)
        key = key_of(source.header)
        contradicted: dict[int, Misfit] = {}
        for batch in _scan_keys(source, part.key_groups):
            if len(contradicted) == len(self.rules):
                break
            groups = np.asarray(batch.column(KEY_GROUP_COLUMN))
            contradicted = misfits(key, self.rules, batch.column(KEY), groups, self.max_parallelism) | contradicted
        return contradicted


def _keys(operator: SourceOperator) -> Iterator[pa.RecordBatch]:
    for handle in operator.handles:
        yield from _scan_keys(handle.open(operator.snapshot), handle.key_groups)


def _scan_keys(source: KeyedStateSource, key_groups: KeyGroupRange) -> Iterator[pa.RecordBatch]:
    for meta in source.header.states:
        yield from source.scan(ScanRequest(meta.name, _COLUMNS, _LOSSLESS, key_groups))
