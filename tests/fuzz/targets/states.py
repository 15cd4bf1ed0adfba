"""Files of states: canonical, heap, changelog, operator state, and the files of RocksDB."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from state_processor.backends.formats.heap import HeapSource
from state_processor.backends.formats.key_group_file import CanonicalSource
from state_processor.backends.formats.opening import open_key_groups
from state_processor.backends.formats.row_layout import ReferenceDecoder, RowLayout
from state_processor.backends.formats.source import KeyedStateSource, ScanRequest
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot, open_snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState, OperatorSubtaskState
from state_processor.backends.metadata.streams import StateStream
from state_processor.backends.read.keyed_reader import read_state
from state_processor.backends.read.keyed_splits import KeyedHandle, managed_handles
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.state_access import open_state
from state_processor.backends.read.stored_operator import StoredOperator, survey
from state_processor.support.errors import StateProcessorError
from tests.backends.open_stores import close_stores
from tests.fuzz.edits import Edits, Field, Seed
from tests.fuzz.fields import recorded
from tests.fuzz.targets.base import OPTIONS, MemoryStorage, Target, WrongRowsError, check, open_in_memory, seed_cases

_LARGEST: Final = 48 << 10
_MOST_SEEDS: Final = 60
_COLUMNS: Final = frozenset({"key", "namespace", "value", "map_key", "map_value", "timestamp", "_key_group", "_key_bytes"})
_READ_OPTIONS: Final = (
    ReadOptions.of(nanos="string", row_kind=True),
    ReadOptions.of(nanos="truncate", flatten=False),
    ReadOptions.of(nanos="string", metadata=True),
    ReadOptions.of(nanos="string", metadata=True, flatten=False),
)


@dataclass(frozen=True, slots=True)
class EditedSnapshot(Snapshot):
    """A snapshot in memory; one stream has other bytes."""

    def open(self, handle: h.StreamStateHandle, context: str = "") -> StateStream:
        edited = _INLINE.get(handle) if isinstance(handle, h.ByteStreamStateHandle) else None
        if edited is not None:
            handle = replace(handle, data=edited)  # type: ignore[type-var]
        return Snapshot.open(self, handle, context)


_INLINE: Final[dict[Any, bytes]] = {}


@dataclass(eq=False)
class StateRef:
    """One stream of one subtask."""

    snapshot: Snapshot
    storage: MemoryStorage
    operator: OperatorState
    stream: h.StreamStateHandle
    path: str | None
    names: tuple[str, ...]
    kept: KeyedStateSource | None = None

    @property
    def header_size(self) -> int:
        """Bytes in front of the first key group."""
        keyed = self.operator.subtasks[0].managed_keyed
        offsets = keyed.offsets if isinstance(keyed, h.KeyGroupsStateHandle) else ()
        return min((o for o in offsets if o > 0), default=0)

    def put(self, data: bytes) -> None:
        """Replace the bytes of the stream."""
        if self.path is None:
            _INLINE[self.stream] = data
        else:
            self.storage.replaced[self.path] = data

    def restore(self) -> None:
        """Undo :meth:`put`."""
        _INLINE.clear()
        self.storage.replaced.clear()


def _subtasks(case: Any) -> Iterator[tuple[Snapshot, MemoryStorage, OperatorState, OperatorSubtaskState]]:
    opened, storage = open_in_memory(case)
    snapshot = EditedSnapshot(*(getattr(opened, n) for n in ("directory", "metadata", "storage", "relocation")))
    for operator in opened.metadata.operators:
        for subtask in operator.subtasks:
            yield snapshot, storage, replace(operator, subtasks=(subtask,)), subtask


def _content(place: StateRef) -> bytes:
    """Return the bytes of the file, or of the inline state, that a stream is in."""
    stream = place.snapshot.open(place.stream)
    place.path = stream.path
    return bytes(stream.read()) if stream.path is None else bytes(place.storage.read_all(stream.path))


def _seeds(found: Iterator[tuple[str, StateRef, Callable[[], Any]]]) -> Iterator[Seed]:
    """Make seeds of the smaller ones of places, whose fields are what ``watch`` reads."""
    sized = sorted(((len(data), name, data, *rest) for name, *rest in found if (data := _content(rest[0]))), key=lambda s: s[:2])
    known = set()
    for size, name, data, place, watch in sized:
        if size > _LARGEST or len(known) == _MOST_SEEDS or data in known:
            continue
        known.add(data)
        yield Seed(name, data, place, fixed=True, find_fields=partial(_fields, data, place, watch))


def _fields(data: bytes, place: StateRef, watch: Callable[[], Any]) -> tuple[Field, ...]:
    place.put(data)
    try:
        with patch.object(RowLayout, "decoder", lambda *a: ReferenceDecoder(*a)):
            return (*recorded(data, watch), *_framing(data, place))
    finally:
        place.restore()


class KeyedTarget(Target):
    """Files of keyed state in one of the formats ``canonical``, ``heap``, ``changelog``."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_seeds(self) -> Iterator[Seed]:
        return _seeds(self._places())

    def _places(self) -> Iterator[tuple[str, StateRef, Callable[[], Any]]]:
        for case in seed_cases("*changelog*" if self.name == "changelog" else "*"):
            for snapshot, storage, operator, subtask in _subtasks(case):
                for handle in managed_handles(operator):
                    for number, stream in enumerate(self._streams(handle)):
                        try:
                            source = handle.open(snapshot)
                        except StateProcessorError:
                            continue
                        if self.name == "changelog" or isinstance(source, self._source):
                            names = tuple(m.name for m in source.header.states)
                            kept = None if self.name == "changelog" else source
                            place = StateRef(snapshot, storage, operator, stream, None, names, kept)
                            name = f"{case.id}: {operator.uid or operator.operator_id}/{subtask.index}/{number}"
                            yield name, place, partial(_read_all, place, handle)

    @property
    def _source(self) -> type:
        return CanonicalSource if self.name == "canonical" else HeapSource

    def _streams(self, handle: KeyedHandle) -> Iterator[h.StreamStateHandle]:
        if isinstance(handle.handle, h.ChangelogStateBackendHandle):
            if self.name == "changelog":
                for change in handle.handle.changes:
                    yield from dict.fromkeys(s for _, s in getattr(change, "streams", ()))
                for part in handle.handle.materialized:
                    if isinstance(part, h.KeyGroupsStateHandle):
                        yield part.stream
        elif self.name != "changelog" and isinstance(handle.handle, h.KeyGroupsStateHandle):
            yield handle.handle.stream

    def run(self, seed: Seed, data: bytes, edits: Edits, rng: random.Random) -> None:
        place: StateRef = seed.context
        place.put(data)
        try:
            in_header = place.kept is None or any(e.offset < place.header_size for e in edits)
            if in_header or rng.random() < 0.02:
                self._read(place, rng)
            else:
                self._scan(place, data, rng)
        finally:
            place.restore()

    def _read(self, place: StateRef, rng: random.Random) -> None:
        """Read a state as users do, header included."""
        reader = open_state(
            StoredOperator(place.snapshot, place.operator), rng.choice(place.names), options=rng.choice(_READ_OPTIONS)
        )
        for split in reader.splits():
            for batch in reader.read(split):
                check(batch)

    def _scan(self, place: StateRef, data: bytes, rng: random.Random) -> None:
        """Read states with the original header, and count their entries."""
        handle = place.operator.subtasks[0].managed_keyed
        assert isinstance(handle, h.KeyGroupsStateHandle)
        assert place.kept is not None
        stream = place.snapshot.open(place.stream)
        header, context = place.kept.header, place.kept.context
        source = open_key_groups(stream, handle, header, context, place.operator.max_parallelism)
        for name in rng.sample(place.names, min(len(place.names), 3)):
            state = source.describe(name)
            assert state is not None
            if rng.random() < 0.5:
                for batch in read_state(source, state, rng.choice(_READ_OPTIONS).of_states(), handle.key_groups):
                    check(batch)
                continue
            request = ScanRequest(name, _COLUMNS, rng.choice(OPTIONS), handle.key_groups)
            rows = sum(map(check, source.scan(request)))
            counted = self._count(source, name, data, handle)
            if counted is not None and rows != counted:
                raise WrongRowsError(f"{rows} rows of state {name!r}, its file has {counted} entries")

    def _count(self, source: CanonicalSource | HeapSource, name: str, data: bytes, handle: h.KeyGroupsStateHandle) -> int | None:
        """Count the entries of a state by a walk of our own; ``None`` where the file is compressed."""
        if source.header.compressed:
            return None
        if isinstance(source, HeapSource):
            return source.count(name, handle.key_groups)
        number = source.header.state_id(name)
        return sum(_walk(data, offset, number) for offset in handle.offsets if offset > 0)


def _read_all(place: StateRef, handle: KeyedHandle) -> None:
    """Read all states of a handle."""
    source = handle.open(place.snapshot)
    for name in place.names:
        for _ in source.scan(ScanRequest(name, _COLUMNS, OPTIONS[1], handle.key_groups)):
            pass


def _walk(data: bytes, offset: int, wanted: int) -> int:
    """Count the entries of one state in one key group of a canonical file."""
    found, position = 0, offset + 2
    state = int.from_bytes(data[offset:position], "big")
    while state != 0xFFFF:
        size = int.from_bytes(data[position : position + 4], "big")
        last = data[position + 4] & 0x80
        position += 4 + size
        position += 4 + int.from_bytes(data[position : position + 4], "big")
        found += state == wanted
        if last:
            state = int.from_bytes(data[position : position + 2], "big")
            position += 2
    return found


def _framing(data: bytes, place: StateRef) -> tuple[Field, ...]:
    """Return the numbers at the begin of each key group, and around the entries of canonical ones."""
    keyed = place.operator.subtasks[0].managed_keyed
    if place.kept is None or not isinstance(keyed, h.KeyGroupsStateHandle):
        return ()
    found = []
    for offset in {o for o in keyed.offsets if 0 < o < len(data) - 12}:
        found += [Field(offset, 2), Field(offset + 2, 4), Field(offset + 6, 1)]
        size = int.from_bytes(data[offset + 2 : offset + 6], "big")
        if offset + 10 + size < len(data):
            found.append(Field(offset + 6 + size, 4))
    return tuple(found)


class OperatorTarget(Target):
    """Files of operator state: lists and broadcast state."""

    name = "operator"

    def find_seeds(self) -> Iterator[Seed]:
        return _seeds(self._places())

    def _places(self) -> Iterator[tuple[str, StateRef, Callable[[], Any]]]:
        for case in seed_cases():
            for snapshot, storage, operator, subtask in _subtasks(case):
                if subtask.managed_operator is not None and subtask.managed_operator.states:
                    names = tuple(s.name for s in subtask.managed_operator.states)
                    place = StateRef(snapshot, storage, operator, subtask.managed_operator.stream, None, names)
                    name = f"{case.id}: {operator.uid or operator.operator_id}/{subtask.index}"
                    yield name, place, partial(self._read_all, place)

    def run(self, seed: Seed, data: bytes, edits: Edits, rng: random.Random) -> None:
        place: StateRef = seed.context
        place.put(data)
        try:
            self._read(place, rng.choice(place.names), rng)
        finally:
            place.restore()

    def _read_all(self, place: StateRef) -> None:
        for name in place.names:
            self._read(place, name, random.Random(0))

    def _read(self, place: StateRef, name: str, rng: random.Random) -> None:
        handle = place.operator.subtasks[0].managed_operator
        assert handle is not None
        reader = open_state(StoredOperator(place.snapshot, place.operator), name, options=rng.choice(_READ_OPTIONS))
        rows = sum(check(b) for split in reader.splits() for b in reader.read(split))
        counts = {s.name: len(s.offsets) for s in handle.states if s.mode != h.BROADCAST}
        if rows != counts.get(name, rows):
            raise WrongRowsError(f"{rows} rows of state {name!r}, its handle has {counts[name]} offsets")


class RocksDbTarget(Target):
    """Files of RocksDB and ForSt: MANIFEST, CURRENT, OPTIONS, SST, and their header."""

    name = "rocksdb"

    def find_seeds(self) -> Iterator[Seed]:
        for case in chain(seed_cases("*rocksdb*"), seed_cases("*forst*")):
            snapshot = open_snapshot(case.snapshot)
            for operator in snapshot.metadata.operators:
                for handle in managed_handles(operator):
                    if isinstance(handle.handle, h.IncrementalRemoteKeyedStateHandle):
                        yield from self._of_handle(case, snapshot, operator, handle.handle, handle.subtask)

    def _of_handle(
        self, case: Any, snapshot: Snapshot, operator: OperatorState, handle: h.IncrementalRemoteKeyedStateHandle, index: int
    ) -> Iterator[Seed]:
        files = {f.local_name: f.stream for f in handle.files} | {"header": handle.meta}
        for name, stream in files.items():
            opened = snapshot.open(stream)
            if opened.path is None or opened.start or opened.size > _LARGEST or not opened.size:
                continue
            inside = str(Path(opened.path).relative_to(case.directory))
            yield Seed(
                f"{case.id}: {operator.uid or operator.operator_id}/{index}/{name}",
                bytes(opened.read()),
                (case, operator.operator_id, index, inside),
                fixed=True,
            )

    def run(self, seed: Seed, data: bytes, edits: Edits, rng: random.Random) -> None:
        case, operator_id, index, inside = seed.context
        directory = _copied(case)
        file = directory / inside
        file.write_bytes(data)
        try:
            snapshot = open_snapshot(directory / Path(case.snapshot).relative_to(case.directory))
            operator = next(o for o in snapshot.metadata.operators if o.operator_id == operator_id)
            subtask = next(s for s in operator.subtasks if s.index == index)
            operator = replace(operator, subtasks=(subtask,))
            known, _ = survey(snapshot, operator)
            keyed = [name for name, states in known.items() if states[0].is_keyed]
            for name in rng.sample(keyed, min(len(keyed), 2)):
                reader = open_state(StoredOperator(snapshot, operator), name, options=rng.choice(_READ_OPTIONS))
                for split in reader.splits():
                    for batch in reader.read(split):
                        check(batch)
        finally:
            close_stores()
            file.write_bytes(seed.data)


@cache
def _copied(case: Any) -> Path:
    """Return a copy of a snapshot, which this process may edit."""
    target = Path(tempfile.mkdtemp()) / case.directory.name
    shutil.copytree(case.directory, target)
    return target
