"""From a keyed state handle to the source that reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from state_processor.backends.formats.changelog import ChangelogSource
from state_processor.backends.formats.changelog_log import changelog_header, read_log
from state_processor.backends.formats.keyed_files import KeyedStateSource, open_key_groups
from state_processor.backends.formats.raw_keyed import RawTimersSource
from state_processor.backends.formats.rocksdb import RocksDbSource
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.read.state_listing import keyed_header, leaf_keyed_handles, raw_timers_header, subtask_label
from state_processor.serializers.errors import UnsupportedFormatError
from state_processor.serializers.kryo.serializer import written_by_flink


@dataclass(frozen=True, slots=True)
class KeyedHandle:
    """A keyed handle of an operator and where it comes from. It can be pickled.

    ``context`` names operator and subtask in messages. ``raw`` marks timers in raw keyed state.
    """

    handle: h.KeyedStateHandle
    subtask: int
    max_parallelism: int
    context: str
    raw: bool = False

    @property
    def key_groups(self) -> h.KeyGroupRange:
        """The key groups that the handle covers."""
        return self.handle.key_groups

    def open(self, snapshot: Snapshot) -> KeyedStateSource:
        """The source of this handle.

        Raises
        ------
        UnsupportedFormatError
            If the handle is of a kind that is not read.
        """
        if self.raw:
            return self._open_raw(snapshot)
        return self._open(snapshot, self.handle)

    def _open(self, snapshot: Snapshot, handle: h.KeyedStateHandle) -> KeyedStateSource:
        if isinstance(handle, h.ChangelogStateBackendHandle):
            parts = [self._open(snapshot, part) for part in leaf_keyed_handles(handle)]
            log = read_log(snapshot, handle, self.context)
            header = changelog_header(log, [part.header for part in parts], self.context, self.max_parallelism)
            return ChangelogSource(handle, parts, log, header, self.context)
        header = keyed_header(snapshot, handle, self.context, self.max_parallelism)
        if isinstance(handle, h.KeyGroupsStateHandle):
            stream = snapshot.open(handle.stream, self.context)
            return open_key_groups(stream, handle, header, self.context, self.max_parallelism)
        if isinstance(handle, h.IncrementalRemoteKeyedStateHandle):
            return RocksDbSource(snapshot, handle, header, self.context, self.max_parallelism)
        raise UnsupportedFormatError(f"{self.context}: {type(handle).__name__} does not stand alone in any snapshot of Flink")

    def _open_raw(self, snapshot: Snapshot) -> KeyedStateSource:
        assert isinstance(self.handle, h.KeyGroupsStateHandle)
        with written_by_flink(snapshot.flink_major):
            return RawTimersSource(snapshot.open(self.handle.stream, self.context), self.handle, self.context)


def keyed_handles(operator: OperatorState, snapshot: Snapshot | None = None) -> Iterator[KeyedHandle]:
    """The handles of an operator's keyed state.

    Parameters
    ----------
    operator
        The operator.
    snapshot
        Where to look for timers in raw keyed state; without it, they are left out.
    """
    for subtask in operator.subtasks:
        context = subtask_label(operator, subtask)
        if subtask.managed_keyed is not None:
            yield KeyedHandle(subtask.managed_keyed, subtask.index, operator.max_parallelism, context)
        if snapshot is not None and subtask.raw_keyed is not None and raw_timers_header(snapshot, subtask.raw_keyed, context):
            yield KeyedHandle(subtask.raw_keyed, subtask.index, operator.max_parallelism, context, raw=True)
