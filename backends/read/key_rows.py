"""Everything that an operator keeps for one key: its rows in all keyed states, and its timers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Final, Generic, TypeAlias, TypeVar

import pyarrow as pa

from state_processor.backends.formats.source import KeyedStateSource
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorSubtaskState
from state_processor.backends.read.key_lookup import WantedKeys, keys_of
from state_processor.backends.read.keyed_reader import KeyedStateReader, plan_read
from state_processor.backends.read.keyed_splits import KeyedHandle, KeyedSplit, keyed_handles, plan_splits
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.state_access import KEYED_KIND, TIMER_KIND, SelectableStateReader, UnionReader, open_state
from state_processor.backends.read.stored_operator import StoredOperator, naming_state
from state_processor.backends.state.column_types import evolved
from state_processor.backends.state.descriptions import KeyedDescription, first_variants, keyed_variants
from state_processor.backends.state.python_states import check_known, shown_name, stored_name, type_of_one_state
from state_processor.support.errors import NotFoundError, UndecodableValueError
from state_processor.support.locks import process_lock

_Key = TypeVar("_Key", bound=Hashable)
_Result = TypeVar("_Result")


class RecentResults(Generic[_Key, _Result]):
    """Results by key; the least recently used results are dropped. Threads may share it.

    An owner without references to itself frees its files at once when it is dropped. ``functools.lru_cache`` of a bound method
    is such a reference.

    ``most``: maximum number of results.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._results: OrderedDict[_Key, _Result] = OrderedDict()
        self._lock = process_lock()

    def get(self, key: _Key, make: Callable[[_Key], _Result]) -> _Result:
        """Return the result of a key; ``make`` makes it if it is not kept. Two threads may make it at the same time."""
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return self._results[key]
        result = make(key)
        with self._lock:
            self._results[key] = result
            if len(self._results) > self._most:
                self._results.popitem(last=False)
        return result


RowsByState: TypeAlias = dict[str, pa.Table]

_KEPT_GROUPS: Final = 4096
"""Key groups whose subtasks are known without a search."""
_KEPT_SUBTASKS: Final = 64
"""Subtasks whose readers are kept, with their open files."""


class KeyReader:
    """A reader of single keys of an operator. Plans, types and open files are kept for further keys; threads may share it.

    ``stored``: the operator that has the keys. ``state``: name of a keyed state; ``None`` for all keyed states and the timers.
    ``options``: shape and content, without keys. ``exact_times``: whether dates and times of a state are text if a value of the
    key has nanoseconds that columns of times do not hold.
    """

    def __init__(self, stored: StoredOperator, state: str | None, options: ReadOptions, *, exact_times: bool = False) -> None:
        self._exact_times = exact_times
        self._stored = stored
        self._state = state
        self._options = options
        if options.types.python_types:
            check_known(options.types.python_types, stored.surveyed[0], stored.label)
        self._of_key = _of_key(options)
        self._described = self._describe()
        self._owners: RecentResults[int, tuple[int, ...]] = RecentResults(_KEPT_GROUPS)
        self._readers: RecentResults[tuple[int, ...] | None, _Readers] = RecentResults(_KEPT_SUBTASKS)

    def rows(self, key: Any) -> tuple[RowsByState, pa.Table | None]:
        """Return the rows that the operator has for a key, by state, and its timers.

        Only the subtasks that own the key group of the key are read.

        ``key``: the key, as a Python value.

        Returns: tables of the columns that reading the state gives, which may be empty; timers are ``None`` where none are
        registered.
        """
        keys = WantedKeys(self._described, keys_of(self._described, (key,)), self._stored.operator.max_parallelism)
        groups = keys.key_groups
        owners = None if groups is None else self._owners.get(groups[0], self._find_owners)
        return self._readers.get(owners, self._open_readers).rows(keys)

    def _describe(self) -> KeyedDescription:
        """Return a keyed state of the operator, for the type of its keys."""
        for handle in keyed_handles(self._stored.operator, self._stored.snapshot):
            with naming_state(None, self._stored.operator):
                source = handle.open(self._stored.snapshot)
                described = next((source.describe(s.name) for s in source.header.states), None)
            if described is None:
                continue
            return evolved(described, plan_read(self._stored, [described], self._of_key).types)
        raise NotFoundError(f"{self._stored.label} has no keyed state: keys can't be looked up")

    def _find_owners(self, key_group: int) -> tuple[int, ...]:
        """Return the positions of the subtasks whose keyed state can hold keys of a key group."""
        return tuple(place for place, subtask in enumerate(self._stored.operator.subtasks) if _owns(subtask, key_group))

    def _open_readers(self, owners: tuple[int, ...] | None) -> _Readers:
        """Open the readers of the states of some subtasks; ``None`` for all subtasks."""
        stored, options = self._stored, self._options
        subtasks = stored.operator.subtasks
        owning = stored if owners is None else stored.of_subtasks(subtasks[place] for place in owners)
        handles = list(keyed_handles(owning.operator, stored.snapshot))
        if self._state is not None:
            name = stored_name(self._state, stored.surveyed[0])
            # A state that the owners do not register may be registered by other subtasks, or be a mistake.
            opened = partial(open_state, owning if name in owning.surveyed[0] else stored, name, KEYED_KIND)
            reader = opened(options)
            assert isinstance(reader, KeyedStateReader)
            text = self._as_text(reader, opened)
            return _Readers(stored.snapshot, handles, {shown_name(self._state): (reader, text)})
        variants = owning.states()
        keyed = keyed_variants(variants)
        plain = {name: state_variants for name, state_variants in keyed.items() if not state_variants[0].is_timer}
        if options.types.python_type is not None:
            raise type_of_one_state()
        options = plan_read(owning, list(first_variants(plain).values()), options)
        readers = {}
        for name, variants_of_state in plain.items():
            reader = KeyedStateReader(owning, variants_of_state, options)
            text = self._as_text(reader, partial(_planned, owning, variants_of_state))
            readers[shown_name(name)] = reader, text
        if len(plain) == len(keyed):
            return _Readers(stored.snapshot, handles, readers)
        timers = open_state(owning, None, TIMER_KIND, self._of_key)
        assert isinstance(timers, UnionReader)
        return _Readers(stored.snapshot, handles, readers, timers)

    def _as_text(
        self, reader: KeyedStateReader, opened: Callable[[ReadOptions], SelectableStateReader]
    ) -> KeyedStateReader | None:
        """Return the reader of a state with dates and times as text; ``None`` if no value of the state needs it."""
        if not self._exact_times or not reader.can_have_nanos:
            return None
        text = opened(self._options.with_values(nanos="string"))
        assert isinstance(text, KeyedStateReader)
        return text


def _planned(stored: StoredOperator, variants: list[KeyedDescription], options: ReadOptions) -> KeyedStateReader:
    return KeyedStateReader(stored, variants, plan_read(stored, variants[:1], options))


class _Readers:
    """The readers of some subtasks.

    ``states`` and ``timers``: the readers of the states by name, each perhaps with one that has dates and times as text, and the
    reader of the timers.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        handles: Iterable[KeyedHandle],
        states: Mapping[str, tuple[KeyedStateReader, KeyedStateReader | None]],
        timers: UnionReader | None = None,
    ) -> None:
        self.states = states
        self.timers = timers
        self._snapshot = snapshot
        self._handles = list(handles)
        self._open: dict[int, KeyedStateSource] = {}

    def rows(self, keys: WantedKeys) -> tuple[RowsByState, pa.Table | None]:
        """Return the rows of keys in each state, and their timers."""
        splits = plan_splits(self._handles, keys)
        managed = [split for split in splits if not split.handle.raw]
        opened = self._open.copy()

        def read(reader: KeyedStateReader, splits: Iterable[KeyedSplit]) -> Iterator[pa.RecordBatch]:
            for split in splits:
                yield from reader.read_opened(split, lambda handle: self._source(handle, opened))

        def table(reader: KeyedStateReader, text: KeyedStateReader | None) -> pa.Table:
            try:
                return pa.Table.from_batches(read(reader, managed), reader.schema)
            except UndecodableValueError:
                if text is None:
                    raise
                return table(text, None)

        tables = {name: table(*readers) for name, readers in self.states.items()}
        if self.timers is None:
            return tables, None
        timers = map(self.timers.conform, chain.from_iterable(read(reader, splits) for reader in self.timers.readers))
        return tables, pa.Table.from_batches(timers, self.timers.schema)

    def _source(self, handle: KeyedHandle, opened: dict[int, KeyedStateSource]) -> KeyedStateSource:
        """Return the source of a handle. It is opened once in a look-up, and once at all if it can stay open."""
        source = opened.get(id(handle))
        if source is None:
            source = opened[id(handle)] = handle.open(self._snapshot)
            if source.stays_open:
                self._open[id(handle)] = source
        return source


def _of_key(options: ReadOptions) -> ReadOptions:
    """Return the options that act on keys and timers. Jobs of Java and Python have the same keys and timers."""
    names = tuple((path, names) for path, names in options.types.fields if path == "key")
    types = options.types._replace(fields=names, python_type=None, python_types=(), unpickle=False)
    return replace(options, types=types, ttl=None, as_of=None, expired="hide")


def _owns(subtask: OperatorSubtaskState, key_group: int) -> bool:
    handles = (subtask.managed_keyed, subtask.raw_keyed)
    return any(handle is not None and key_group in handle.key_groups for handle in handles)
