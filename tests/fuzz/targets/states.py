"""Files of states: canonical, heap, changelog, operator state, and the files of RocksDB."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from fuzz.edits import Edits, Field, Seed
from fuzz.fields import recording
from fuzz.targets.base import OPTIONS, MemoryStorage, Target, WrongRowsError, check, open_in_memory, seed_cases

from state_processor.backends.formats.keyed_files import CanonicalSource, HeapSource, KeyedStateSource, ScanRequest
from state_processor.backends.formats.rocksdb_store import close_stores
from state_processor.backends.formats.row_layout import ReferenceDecoder, RowLayout
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot, open_snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState, OperatorSubtaskState
from state_processor.backends.metadata.state_stream import StateStream
from state_processor.backends.read.keyed_rows import read_state
from state_processor.backends.read.keyed_sources import KeyedHandle, keyed_handles
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.state_access import open_state
from state_processor.backends.read.state_listing import survey
from state_processor.backends.state.descriptions import OPERATOR_KINDS
from state_processor.serializers.errors import NotFoundError, StateProcessorError

_LARGEST: Final = 256 << 10
_COLUMNS: Final = frozenset({"key", "namespace", "value", "map_key", "map_value", "timestamp", "_key_group", "_key_bytes"})
_READ_OPTIONS: Final = (
    ReadOptions(nanos="string", row_kind=True),
    ReadOptions(nanos="truncate", flatten=False),
    ReadOptions(nanos="string", metadata=True),
    ReadOptions(nanos="string", metadata=True, flatten=False),
)


@dataclass(frozen=True, slots=True)
class EditedSnapshot(Snapshot):
    """A snapshot in memory of which one stream has other bytes."""

    def open(self, handle: h.StreamStateHandle, context: str = "") -> StateStream:
        edited = _INLINE.get(handle) if isinstance(handle, h.ByteStreamStateHandle) else None
        if edited is not None:
            handle = replace(handle, data=edited)  # type: ignore[type-var]
        return Snapshot.open(self, handle, context)


_INLINE: Final[dict[Any, bytes]] = {}


@dataclass(eq=False)
class Place:
    """One stream of one subtask."""

    snapshot: Snapshot
    storage: MemoryStorage
    operator: OperatorState
    stream: h.StreamStateHandle
    path: str | None
    names: tuple[str, ...]
    header_size: int = 0
    source: KeyedStateSource | None = None

    def put(self, data: bytes) -> None:
        """Put other bytes in the place of the stream's."""
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
    snapshot = EditedSnapshot(*(getattr(opened, n) for n in ("directory", "metadata", "storage", "relocation", "scratch")))
    for operator in opened.metadata.operators:
        for subtask in operator.subtasks:
            yield snapshot, storage, replace(operator, subtasks=(subtask,)), subtask


def _seed(name: str, place: Place, watch: Any) -> Seed | None:
    stream = place.snapshot.open(place.stream)
    place.path = stream.path
    whole = stream.path is not None and stream.start == 0 and place.storage.size_if_file(stream.path) == stream.size
    data = bytes(stream.read())
    if stream.path is not None and not whole:
        data = bytes(place.storage.read_all(stream.path))
    if not data or len(data) > _LARGEST:
        return None
    place.put(data)
    with recording(data) as found, patch.object(RowLayout, "decoder", lambda layout, options: ReferenceDecoder(layout, options)):
        try:
            watch()
        except StateProcessorError:
            return None
        finally:
            place.restore()
    return Seed(name, data, place, fixed=True, fields=found.fields)


class KeyedTarget(Target):
    """Files of keyed state in one of the formats ``canonical``, ``heap``, ``changelog``."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_seeds(self) -> Iterator[Seed]:
        for case in seed_cases("*changelog*" if self.name == "changelog" else "*"):
            for snapshot, storage, operator, subtask in _subtasks(case):
                for handle in keyed_handles(operator):
                    for number, stream in enumerate(self._streams(handle)):
                        place = Place(snapshot, storage, operator, stream, None, ())
                        try:
                            source = handle.open(snapshot)
                        except StateProcessorError:
                            continue
                        if self.name != "changelog" and not isinstance(source, self._source):
                            continue
                        place.names = tuple(m.name for m in source.header.states)
                        if self.name != "changelog":
                            assert isinstance(handle.handle, h.KeyGroupsStateHandle)
                            place.header_size = min((o for o in handle.handle.offsets if o > 0), default=0)
                            place.source = source
                        name = f"{case.id}: {operator.uid or operator.operator_id}/{subtask.index}/{number}"
                        seed = _seed(name, place, lambda p=place: self._read(p, random.Random(0), p.names, True))
                        if seed is not None:
                            seed.fields = (*seed.fields, *_framing(seed, handle))
                            yield seed

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
        place: Place = seed.context
        place.put(data)
        try:
            in_header = place.source is None or any(e.offset < place.header_size for e in edits)
            names = rng.sample(place.names, min(len(place.names), 3))
            if in_header or rng.random() < 0.02:
                self._read(place, rng, names, False)
            else:
                self._scan(place, data, rng, names)
        finally:
            place.restore()

    def _read(self, place: Place, rng: random.Random, names: Any, every: bool) -> None:
        """Read states as users do, headers included."""
        known, _ = survey(place.snapshot, place.operator)
        for name in names if every else [n for n in known if n in names][:3]:
            reader = open_state(place.snapshot, place.operator, name, options=rng.choice(_READ_OPTIONS))
            for split in reader.splits():
                for batch in reader.read(split):
                    check(batch)

    def _scan(self, place: Place, data: bytes, rng: random.Random, names: Any) -> None:
        """Read states by the header as it was, and count their entries."""
        handle = next(iter(keyed_handles(place.operator)))
        header = place.source.header  # type: ignore[union-attr]
        with patch("state_processor.backends.read.keyed_sources.keyed_header", lambda *_: header):
            source = handle.open(place.snapshot)
        assert isinstance(source, CanonicalSource | HeapSource)
        for name in names:
            state = source.describe(name)
            assert state is not None
            if rng.random() < 0.5:
                options = rng.choice(_READ_OPTIONS)
                for batch in read_state(source, state, options, handle.key_groups):
                    check(batch)
                continue
            request = ScanRequest(name, _COLUMNS, rng.choice(OPTIONS), handle.key_groups)
            rows = sum(map(check, source.scan(request)))
            counted = self._count(source, header.state_id(name), name, data, handle)
            if counted is not None and rows != counted:
                raise WrongRowsError(f"{rows} rows of state {name!r}, its file has {counted} entries")

    def _count(self, source: Any, number: int, name: str, data: bytes, handle: KeyedHandle) -> int | None:
        """Count the entries of a state by a walk of our own; ``None`` where the file is compressed."""
        if source.header.compressed:
            return None
        if isinstance(source, HeapSource):
            return sum(section.count for section in source.sections(name, handle.key_groups))
        assert isinstance(handle.handle, h.KeyGroupsStateHandle)
        return sum(_walk(data, offset, number) for offset in handle.handle.offsets if offset > 0)


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


def _framing(seed: Seed, handle: KeyedHandle) -> tuple[Field, ...]:
    """Return the numbers at the begin of each key group, and around the entries of canonical ones."""
    if not isinstance(handle.handle, h.KeyGroupsStateHandle):
        return ()
    found = []
    data = seed.data
    for offset in {o for o in handle.handle.offsets if 0 < o < len(data) - 12}:
        found += [Field(offset, 2), Field(offset + 2, 4), Field(offset + 6, 1)]
        size = int.from_bytes(data[offset + 2 : offset + 6], "big")
        if offset + 10 + size < len(data):
            found.append(Field(offset + 6 + size, 4))
    return tuple(found)


class OperatorTarget(Target):
    """Files of operator state: lists and broadcast state."""

    name = "operator"

    def find_seeds(self) -> Iterator[Seed]:
        for case in seed_cases():
            for snapshot, storage, operator, subtask in _subtasks(case):
                if subtask.managed_operator is None:
                    continue
                names = tuple(s.name for s in subtask.managed_operator.states)
                place = Place(snapshot, storage, operator, subtask.managed_operator.stream, None, names)
                name = f"{case.id}: {operator.uid or operator.operator_id}/{subtask.index}"
                seed = _seed(name, place, lambda p=place: self._read(p, random.Random(0), p.names))
                if seed is not None:
                    yield seed

    def run(self, seed: Seed, data: bytes, edits: Edits, rng: random.Random) -> None:
        place: Place = seed.context
        place.put(data)
        try:
            self._read(place, rng, rng.sample(place.names, min(len(place.names), 2)))
        finally:
            place.restore()

    def _read(self, place: Place, rng: random.Random, names: Any) -> None:
        handle = place.operator.subtasks[0].managed_operator
        assert handle is not None
        counts = {s.name: len(s.offsets) for s in handle.states}
        for name in names:
            try:
                reader = open_state(place.snapshot, place.operator, name, options=rng.choice(_READ_OPTIONS))
            except NotFoundError:
                continue
            rows = sum(check(b) for split in reader.splits() for b in reader.read(split))
            kind = survey(place.snapshot, place.operator)[0][name][0].kind
            if kind in OPERATOR_KINDS and kind != "BROADCAST" and rows != counts[name]:
                raise WrongRowsError(f"{rows} rows of state {name!r}, its handle has {counts[name]} offsets")


class RocksDbTarget(Target):
    """Files of RocksDB and ForSt: MANIFEST, CURRENT, OPTIONS, SST, and the header beside them."""

    name = "rocksdb"

    def find_seeds(self) -> Iterator[Seed]:
        for case in chain(seed_cases("*rocksdb*"), seed_cases("*forst*")):
            snapshot = open_snapshot(case.snapshot)
            for operator in snapshot.metadata.operators:
                for handle in keyed_handles(operator):
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
                reader = open_state(snapshot, operator, name, options=rng.choice(_READ_OPTIONS))
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
