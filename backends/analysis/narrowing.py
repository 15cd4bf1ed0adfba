"""Entries of a state that may differ between two snapshots, without reading the others: part by part, by stores or changelogs.

Stores of RocksDB and ForSt are narrowed by the tables that one of them has alone, see
:mod:`~state_processor.backends.analysis.store_changes`. A snapshot of the changelog backend has a materialized part, and changes
after it. A key can differ in two cases:

1. A change of the key is in one snapshot alone. Both snapshots often begin with the same changes.
2. The key differs between the materialized parts: stores of RocksDB or ForSt are compared by the tables that one of them has
   alone. Other materialized parts have to be the same files.

These keys are looked up in both snapshots.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeAlias

from state_processor.backends.analysis.entry_bytes import StateEntries
from state_processor.backends.analysis.store_changes import BytesRead, StoreChanges
from state_processor.backends.formats.changelog import ChangelogSource, Pieces
from state_processor.backends.formats.changelog_log import Change
from state_processor.backends.formats.key_index import SerializedKeys
from state_processor.backends.formats.rocksdb_store import RocksDbSource
from state_processor.backends.formats.source import Block, EntryRun, FramedRun, KeyedStateSource
from state_processor.backends.formats.sst.key_set import behind
from state_processor.backends.metadata import handles as h
from state_processor.backends.state.descriptions import KeyedDescription
from state_processor.serializers.io import DataInput

Sources: TypeAlias = tuple[KeyedStateSource, KeyedStateSource]
_Keys: TypeAlias = dict[int, set[bytes]]


class ChangelogChanges:
    """Finds the keys of a state that may differ, and restricts both sources to them.

    ``sources``: the state in both snapshots. ``state``: the state. It has the same types in both snapshots. ``tally``: counts the
    bytes that are read.
    """

    def __init__(self, sources: Sources, state: KeyedDescription, tally: BytesRead) -> None:
        self._state = state
        self._pieces = Pieces(state)
        self._logs = tuple(s.log.of(state.name) if isinstance(s, ChangelogSource) else {} for s in sources)
        self._bases = tuple(_base(source, state.name) for source in sources)
        self._stores: StoreChanges | None = None
        old, new = self._bases
        if isinstance(old, RocksDbSource) and isinstance(new, RocksDbSource):
            self._stores = StoreChanges(old.store, new.store, state.name, old.prefix, tally)
        self._sources = tuple(self._above(source, side) for side, source in enumerate(sources))
        self._tally = tally
        for side, source in enumerate(sources):
            if isinstance(source, ChangelogSource):
                self._count(f"{source.context}, changelog {side}", source)

    @classmethod
    def of(cls, sources: Sources, state: KeyedDescription, tally: BytesRead) -> ChangelogChanges | None:
        """Return the comparison; ``None`` if the keys that may differ can't be known without reading all entries."""
        if state.is_timer or not any(isinstance(source, ChangelogSource) for source in sources):
            return None
        old, new = (_base(source, state.name) for source in sources)
        stores = isinstance(old, RocksDbSource) and isinstance(new, RocksDbSource) and old.prefix == new.prefix
        return cls(sources, state, tally) if stores or _have_same_base(*sources) else None

    def _count(self, name: str, source: ChangelogSource) -> None:
        """Count the bytes of changes and of materialized parts. Changes were read; stores are counted elsewhere."""
        changes = h.total_size(source.handle.changes)
        self._tally.add(changes)
        materialized = 0 if self._stores is not None else h.total_size(source.handle.materialized)
        self._tally.add_files(name, [("changes", changes), ("materialized", materialized)])

    def sources(self, key_groups: h.KeyGroupRange) -> Sources | None:
        """Return both sources with the entries that may differ in some key groups; ``None`` if all entries may differ."""
        changed_keys: _Keys = {}
        if self._stores is not None and not self._add_stored(changed_keys, key_groups, self._stores):
            return None
        for key_group in key_groups:
            for change in _unshared(*(log.get(key_group, []) for log in self._logs)):
                changed_keys.setdefault(key_group, set()).add(self._pieces.key_of(change))
        if self._stores is None:
            self._tally.add(sum(_share(source, len(changed_keys)) for source in self._sources))
        keys = {key_group: SerializedKeys.of(sorted(serialized)) for key_group, serialized in sorted(changed_keys.items())}
        old, new = (_SomeKeys(source, keys) for source in self._sources)
        return old, new

    def _add_stored(self, changed_keys: _Keys, key_groups: h.KeyGroupRange, stores: StoreChanges) -> bool:
        """Add the keys that may differ in the materialized parts; return false if these are all keys."""
        old, new = (base.key_bounds(key_groups) for base in self._bases if isinstance(base, RocksDbSource))
        if old is None or old != new:
            return False
        stores.forget()
        keys = stores.keys(*old)
        if keys is None:
            return False
        prefix = len(old[0])
        for begin, end in keys.bounds.tolist():
            source = DataInput(keys.data.data[begin + prefix : end], self._state.name)
            key_group = int.from_bytes(keys.data[begin : begin + prefix].tobytes(), "big")
            changed_keys.setdefault(key_group, set()).add(self._pieces.framed_scope(source)[0])
        return True

    def _above(self, source: KeyedStateSource, side: int) -> KeyedStateSource:
        """Return a source whose materialized part is read through the comparison of stores, which counts the bytes."""
        base = self._bases[side]
        if self._stores is None or not isinstance(base, RocksDbSource):
            return source
        looked_up = _LookedUp(base, self._stores, side)
        return source.above([looked_up]) if isinstance(source, ChangelogSource) else looked_up


def _base(source: KeyedStateSource, name: str) -> KeyedStateSource | None:
    """Return the source of the only materialized part if it has a state."""
    parts = source.materialized if isinstance(source, ChangelogSource) else (source,)
    return parts[0] if len(parts) == 1 and parts[0].describe(name) is not None else None


def _have_same_base(old: KeyedStateSource, new: KeyedStateSource) -> bool:
    """Return whether the materialized parts of both sources are the same files."""
    return isinstance(old, ChangelogSource) and isinstance(new, ChangelogSource) and old.has_materialized_files_of(new)


def _share(source: KeyedStateSource, key_groups: int) -> int:
    """Estimate the bytes of some key groups of the materialized parts."""
    handles = source.handle.materialized if isinstance(source, ChangelogSource) else ()
    return sum(handle.state_size * key_groups // max(1, len(handle.key_groups)) for handle in handles)


def _unshared(old: list[Change], new: list[Change]) -> Iterable[Change]:
    """Return the changes of both lists without the changes that both lists begin with."""
    same = 0
    for old_change, new_change in zip(old, new, strict=False):
        if old_change.operation != new_change.operation or old_change.payload != new_change.payload:
            break
        same += 1
    return (*old[same:], *new[same:])


class _LookedUp(KeyedStateSource):
    """A store whose entries are looked up by their keys."""

    def __init__(self, source: RocksDbSource, stores: StoreChanges, side: int) -> None:
        super().__init__(source.header, source.context)
        self._source = source
        self._stores = stores
        self._side = side

    @property
    def backend(self) -> str:
        """Name of the backend."""
        return self._source.backend

    def _runs(self, state: KeyedDescription, key_groups: h.KeyGroupRange, keys: SerializedKeys | None) -> Iterator[FramedRun]:
        context = f"{self.context}, state {state.name!r}, {self._source.store.description}"
        yield FramedRun(state, context, self._blocks(key_groups, keys)).of_keys(keys)

    def _blocks(self, key_groups: h.KeyGroupRange, keys: SerializedKeys | None) -> Iterator[Block]:
        for key_group in key_groups:
            bounds = self._source.key_bounds(h.KeyGroupRange(key_group, key_group))
            if bounds is None:
                continue
            for lower, upper in [bounds] if keys is None else ((bounds[0] + key, behind(bounds[0] + key)) for key in keys):
                yield from self._stores.entries(self._side, lower, upper)


class _SomeKeys(KeyedStateSource):
    """The entries of some keys of a source, by key group."""

    def __init__(self, source: KeyedStateSource, keys: dict[int, SerializedKeys]) -> None:
        super().__init__(source.header, source.context)
        self._source = source
        self._keys = keys

    @property
    def backend(self) -> str:
        """Name of the backend."""
        return self._source.backend

    def _runs(self, state: KeyedDescription, key_groups: h.KeyGroupRange, keys: SerializedKeys | None) -> Iterator[EntryRun]:
        for key_group, group_keys in self._keys.items():
            if key_group in key_groups:
                yield from self._source.runs(state.name, h.KeyGroupRange(key_group, key_group), group_keys)


class Narrowing:
    """Restricts the entries of both snapshots, part by part. Open tables stay open for the following parts.

    ``name``: the state. ``tally``: counts the bytes that are read. ``full``: true to compare all entries, also in files that both
    snapshots have.
    """

    def __init__(self, name: str, tally: BytesRead, full: bool) -> None:
        self._name = name
        self._tally = tally
        self._full = full
        self._changes: dict[tuple[RocksDbSource, RocksDbSource], StoreChanges] = {}
        self._logged: dict[Sources, ChangelogChanges | None] = {}

    def narrowed(self, old: StateEntries, new: StateEntries) -> tuple[StateEntries, StateEntries]:
        """Return the entries of both sides that may differ.

        All entries are returned with ``full``, if a side is not a store of RocksDB or ForSt, or if the keys of the key groups
        have different bounds in the stores.

        ``old`` and ``new``: the entries of both sides, with the same types and key groups.
        """
        sources = old.source, new.source
        if not self._full and any(isinstance(source, ChangelogSource) for source in sources):
            return self._narrowed_by_log(old, new, sources)
        if self._full or not all(isinstance(source, RocksDbSource) for source in sources):
            self.count_full(old, new)
            return old, new
        old_source, new_source = (source for source in sources if isinstance(source, RocksDbSource))
        bounds = old_source.key_bounds(old.key_groups)
        if bounds is None or bounds != new_source.key_bounds(new.key_groups):
            self.count_full(old, new)
            return old, new
        if (old_source, new_source) not in self._changes:
            self._changes[old_source, new_source] = StoreChanges(
                old_source.store, new_source.store, self._name, old_source.prefix, self._tally
            )
        olds, news = self._changes[old_source, new_source].blocks(*bounds)
        return replace(old, source=_Narrowed(old_source, olds)), replace(new, source=_Narrowed(new_source, news))

    def _narrowed_by_log(self, old: StateEntries, new: StateEntries, sources: Sources) -> tuple[StateEntries, StateEntries]:
        if sources not in self._logged:
            self._logged[sources] = ChangelogChanges.of(sources, old.state, self._tally)
        changes = self._logged[sources]
        changed_sources = None if changes is None or old.key_groups != new.key_groups else changes.sources(old.key_groups)
        if changed_sources is None:
            self.count_full(old, new)
            return old, new
        return replace(old, source=changed_sources[0]), replace(new, source=changed_sources[1])

    def count_full(self, *sides: StateEntries) -> None:
        """Count entries that are compared in full."""
        self._tally.add_full(sum(side.size for side in sides))


class _Narrowed(KeyedStateSource):
    """Some entries of one state of a store. They can be read once."""

    def __init__(self, source: RocksDbSource, blocks: Iterator[Block]) -> None:
        super().__init__(source.header, source.context)
        self._source = source
        self._blocks = blocks

    @property
    def backend(self) -> str:
        """Name of the backend."""
        return self._source.backend

    def _runs(self, state: KeyedDescription, key_groups: h.KeyGroupRange, keys: SerializedKeys | None) -> Iterator[FramedRun]:
        yield FramedRun(state, f"{self.context}, state {state.name!r}, {self._source.store.description}", self._blocks).of_keys(
            keys
        )
