"""Restriction of a comparison to the entries that may differ. Both snapshots need stores of RocksDB or ForSt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from state_processor.backends.analysis.changelog_changes import ChangelogChanges, Sources
from state_processor.backends.analysis.comparison import BytesRead
from state_processor.backends.analysis.entry_bytes import StateEntries
from state_processor.backends.analysis.store_changes import StoreChanges
from state_processor.backends.formats.changelog import ChangelogSource
from state_processor.backends.formats.entry_runs import Block, FramedRun
from state_processor.backends.formats.key_index import SerializedKeys
from state_processor.backends.formats.rocksdb import RocksDbSource
from state_processor.backends.formats.source import KeyedStateSource
from state_processor.backends.metadata import handles as h
from state_processor.backends.state.descriptions import KeyedDescription


class Narrowing:
    """Restricts the entries of both snapshots, part by part. Open tables stay open for the following parts.

    Parameters
    ----------
    name
        The state.
    tally
        Counts the bytes that are read.
    full
        True to compare all entries, also in files that both snapshots have.
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

        Parameters
        ----------
        old, new
            The entries of both sides, with the same types and key groups.
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
