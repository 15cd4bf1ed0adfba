"""Everything that an operator keeps for one key: its rows in all keyed states, and its timers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import pyarrow as pa

from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState, OperatorSubtaskState
from state_processor.backends.read.key_lookup import WantedKeys, keys_of
from state_processor.backends.read.keyed_handles import keyed_handles
from state_processor.backends.read.keyed_reader import KeyedStateReader
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.read_plan import plan_read
from state_processor.backends.read.state_access import KEYED_KIND, TIMER_KIND, StateReader, open_state
from state_processor.backends.read.state_listing import naming_state, operator_label, state_variants, survey
from state_processor.backends.state.descriptions import KeyedDescription
from state_processor.backends.state.part_names import with_names
from state_processor.backends.state.python_states import check_known, shown_name, stored_name, type_of_one_state
from state_processor.serializers.core.calendars import java_zone
from state_processor.serializers.core.sql_times import in_time_zone
from state_processor.serializers.errors import NotFoundError

RowsByState: TypeAlias = dict[str, pa.Table]


def rows_of_key(
    snapshot: Snapshot, operator: OperatorState, key: Any, state: str | None, options: ReadOptions
) -> tuple[RowsByState, pa.Table | None]:
    """Return the rows that an operator has for a key, by state, and its timers.

    Only the subtasks that own the key group of the key are read.

    Parameters
    ----------
    snapshot, operator
        Where the key is.
    key
        The key, as a Python value.
    state
        Name of a keyed state; ``None`` for all keyed states and the timers.
    options
        Shape and content; ``keys`` is the key.

    Returns
    -------
    tuple
        Tables of the columns that reading the state gives, which may be empty; timers are ``None`` where none are registered.

    Raises
    ------
    NotFoundError
        If the operator does not have keyed state, or not this state.
    OptionError
        If the key is not of the operator's key type.
    """
    options = replace(options, keys=(key,))
    if options.python_types:
        check_known(options.python_types, survey(snapshot, operator)[0], operator_label(operator))
    of_key = replace(options, fields=tuple((path, names) for path, names in options.fields if path == "key"))
    owners = _owners(snapshot, operator, key, of_key)
    if state is not None:
        stored = stored_name(state, survey(snapshot, operator)[0])
        # A state that the owners do not register may be registered by other subtasks, or be a mistake.
        holder = owners if stored in survey(snapshot, owners)[0] else operator
        return {shown_name(state): _table(open_state(snapshot, holder, stored, KEYED_KIND, options))}, None
    variants = state_variants(snapshot, owners)
    keyed = {name: [v for v in found if isinstance(v, KeyedDescription)] for name, found in variants.items()}
    keyed = {name: found for name, found in keyed.items() if found}
    plain = {name: found for name, found in keyed.items() if not found[0].is_timer}
    if options.python_type is not None:
        raise type_of_one_state()
    plan = plan_read(snapshot, owners, [found[0] for found in plain.values()], options)
    tables = {shown_name(name): _table(KeyedStateReader(snapshot, owners, found, plan)) for name, found in plain.items()}
    if len(plain) == len(keyed):
        return tables, None
    of_timers = replace(
        of_key, python_type=None, python_types=(), unpickle=False, ttl=None
    )  # jobs of Java and Python have the same
    return tables, _table(open_state(snapshot, owners, None, TIMER_KIND, of_timers))


def _owners(snapshot: Snapshot, operator: OperatorState, key: Any, options: ReadOptions) -> OperatorState:
    """Return the operator with those subtasks only whose keyed state can hold the key."""
    for handle in keyed_handles(operator, snapshot):
        with naming_state(None, operator):
            source = handle.open(snapshot)
            described = next((source.describe(s.name) for s in source.header.states), None)
        if described is None:
            continue
        types = plan_read(snapshot, operator, [described], options).types
        described = with_names(described, dict(types.names).get(described.name, {}))
        described = in_time_zone(described, java_zone(types.time_zone))
        groups = WantedKeys(described, keys_of(described, (key,)), operator.max_parallelism).key_groups
        if groups is None:
            return operator
        return replace(operator, subtasks=tuple(s for s in operator.subtasks if _owns(s, groups[0])))
    raise NotFoundError(f"{operator_label(operator)} has no keyed state: keys can't be looked up")


def _owns(subtask: OperatorSubtaskState, key_group: int) -> bool:
    handles = (subtask.managed_keyed, subtask.raw_keyed)
    return any(handle is not None and key_group in handle.key_groups for handle in handles)


def _table(reader: StateReader) -> pa.Table:
    batches = [batch for split in reader.splits() for batch in reader.read(split)]
    return pa.Table.from_batches(batches, reader.schema)
