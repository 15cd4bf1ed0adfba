"""``_metadata``: the table of contents of a snapshot, versions 2 to 7, read and written byte for byte; its digest.

Framing: Flink's ``Checkpoints``; bodies: ``MetadataV2Serializer`` to ``MetadataV7Serializer``. The table :data:`LAYOUTS` lists
the differences between versions.
"""

from __future__ import annotations

import gc
import struct
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from itertools import chain, repeat
from typing import Any, Final

from state_processor.backends.files.location import Location
from state_processor.backends.files.storage import Storage, StoredFile
from state_processor.backends.metadata import handle_layouts as layouts
from state_processor.backends.metadata.handle_layouts import HandleInput
from state_processor.backends.metadata.handles import (
    MAX_KEY_GROUPS,
    ByteStreamStateHandle,
    InputStateHandle,
    KeyedStateHandle,
    MergedChannelStateHandle,
    MetadataFile,
    OperatorStateHandle,
    OperatorStateMeta,
    OutputStateHandle,
    StateHandle,
    StreamStateHandle,
    total_size,
)
from state_processor.backends.metadata.properties import NULL_STREAM, CheckpointProperties, decode_properties
from state_processor.serializers.format_versions import FormatVersions
from state_processor.serializers.io import INT, LONG, DataOutput
from state_processor.support.errors import MissingFileError, StateProcessorError, UnsupportedFormatError
from state_processor.support.mappings import without_none

_PICTURED: Final = 40
_TEXT: Final = frozenset(b"\t\n\r").union(range(0x20, 0x7F))

_FORMATS: Final = (
    (b"PAR1", "a Parquet file"),
    (b"PK\x03\x04", "a zip archive; unpack it"),
    (b"\x1f\x8b", "compressed by gzip; unpack it"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd; unpack it"),
    (b"Obj\x01", "an Avro file"),
    (b"ORC", "an ORC file"),
    (b"ARROW1", "an Arrow file"),
    (b"\xac\xed\x00\x05", "a Java object stream"),
    (b"version https://git-lfs", "a pointer of Git LFS; run git lfs pull"),
    (b"{", "JSON"),
    (b"[", "JSON"),
    (b"<", "XML or HTML, perhaps the answer of a server"),
)
"""First bytes and description of known file formats."""

_DIRECTORIES: Final = (
    ({"offsets", "commits"}, "a checkpoint of Spark Structured Streaming; read its state with spark.read.format('statestore')"),
    ({"_delta_log"}, "a Delta table"),
    ({"metadata", "data"}, "an Iceberg table"),
    ({"_SUCCESS"}, "the output of a Spark job"),
    ({"CURRENT"}, "a working directory of RocksDB. Flink does not restore it; take a savepoint of the job"),
    ({"shared", "taskowned"}, "the checkpoint directory of a job without a complete checkpoint: Flink writes _metadata last"),
)
"""Names in known directories, and their description."""


def described_file(head: bytes) -> str:
    """Return a description of a file by its first bytes; an empty string if they are unknown."""
    for magic, description in _FORMATS:
        if head.startswith(magic):
            return description
    if head and _TEXT.issuperset(head):
        return f"text: {head[:_PICTURED].decode().splitlines()[0]!r}"
    return ""


def described_directory(names: Collection[str]) -> str:
    """Return a description of a directory by the names in it; an empty string if they are unknown."""
    return next((description for expected, description in _DIRECTORIES if expected.issubset(names)), "")


MAGIC: Final = 0x4960672D
MASTER_STATE_MAGIC: Final = 0xC96B1696

_HEAD: Final = 64
"""Number of bytes that identify other file formats."""
_HEADER: Final = struct.Struct(">iiq")
_MASTER_HEADER: Final = struct.Struct(">Ii")
_PARALLELISM: Final = struct.Struct(">ii")
_LEGACY_PREFIX: Final = struct.Struct(">qi")

_FULLY_FINISHED: Final = INT.pack(-1)
_NO_PAIR: Final = bytes(8)  # two zeros: neither kind of operator state, or neither direction of channel state

_SMALLEST_MASTER_STATE: Final = 18
_SMALLEST_OPERATOR: Final = 29
_SMALLEST_SUBTASK: Final = 4
_SMALLEST_CHANNEL: Final = 13


@dataclass(frozen=True, slots=True)
class MetadataLayout:
    """Features of a version of ``_metadata``."""

    names: bool = False
    """Name and uid before each operator id."""
    chain_length: bool = False
    """An unused number in the position of the coordinator state of later versions."""
    legacy_prefix: bool = False
    """Duration and number of legacy states before each subtask."""
    channels: bool = False
    """Lists of channel state, and finished operators and subtasks."""
    typed_channels: bool = False
    """A type byte before each channel state handle."""
    properties: bool = False
    """A Java stream at the end."""
    reference: bool = False
    """The checkpoint that the state of a subtask comes from."""


LAYOUTS: Final = {
    2: MetadataLayout(chain_length=True, legacy_prefix=True),
    3: MetadataLayout(channels=True),
    4: MetadataLayout(channels=True, properties=True),
    5: MetadataLayout(channels=True, properties=True, names=True),
    6: MetadataLayout(channels=True, properties=True, names=True, typed_channels=True),
    7: MetadataLayout(channels=True, properties=True, names=True, typed_channels=True, reference=True),
}

METADATA: Final = FormatVersions("`_metadata`", {2: "1.3", 3: "1.11", 4: "1.16", 5: "2.0", 6: "2.1", 7: "2.4"})


@dataclass(frozen=True, slots=True)
class MasterState:
    """State of a hook of the checkpoint coordinator (``MasterTriggerRestoreHook``)."""

    version: int
    name: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class OperatorSubtaskState:
    """The handles of one subtask; empty for a ``finished`` subtask.

    ``duration`` exists only in version 2. ``reference_checkpoint_id`` (version 7) is set if the region of the subtask had failed:
    the state comes from that checkpoint.
    """

    index: int
    managed_operator: OperatorStateHandle | None = None
    raw_operator: OperatorStateHandle | None = None
    managed_keyed: KeyedStateHandle | None = None
    raw_keyed: KeyedStateHandle | None = None
    input_channels: tuple[InputStateHandle, ...] = ()
    result_subpartitions: tuple[OutputStateHandle, ...] = ()
    finished: bool = False
    reference_checkpoint_id: int | None = None
    duration: int = -1

    @property
    def handles(self) -> list[StateHandle]:
        """All handles."""
        single = (self.managed_operator, self.raw_operator, self.managed_keyed, self.raw_keyed)
        return [*(handle for handle in single if handle is not None), *self.input_channels, *self.result_subpartitions]

    @property
    def has_state(self) -> bool:
        """Whether Flink finds state (``OperatorSubtaskState.hasState``)."""
        return bool(self.handles)

    @property
    def state_size(self) -> int:
        """Sum over all handles."""
        return total_size(self.handles)


@dataclass(frozen=True, slots=True)
class OperatorState:
    """One operator of the job with the states of its subtasks, in the order of the file.

    ``name`` and ``uid`` are ``None`` if the snapshot does not have them (before version 5, or without a uid). ``operator_id`` is
    32 hexadecimal digits. ``chain_length`` exists only in version 2.
    """

    operator_id: str
    parallelism: int
    max_parallelism: int
    subtasks: tuple[OperatorSubtaskState, ...] = ()
    coordinator_state: ByteStreamStateHandle | None = None
    name: str | None = None
    uid: str | None = None
    fully_finished: bool = False
    chain_length: int = 1

    @property
    def label(self) -> str:
        """The uid, or else its hash."""
        return self.uid or self.operator_id

    @property
    def operator_handles(self) -> list[OperatorStateHandle]:
        """The handles of list, union and broadcast state of the subtasks that have some."""
        return without_none(subtask.managed_operator for subtask in self.subtasks)

    @property
    def operator_metas(self) -> list[OperatorStateMeta]:
        """The name and the offsets of each list, union and broadcast state, as each subtask has it."""
        return list(chain.from_iterable(handle.states for handle in self.operator_handles))

    @property
    def reference_checkpoints(self) -> frozenset[int]:
        """The earlier checkpoints that subtasks of failed regions have their state from."""
        return frozenset(s.reference_checkpoint_id for s in self.subtasks if s.reference_checkpoint_id is not None)

    @property
    def has_state(self) -> bool:
        """Whether Flink finds state (``OperatorSubtaskState.hasState``, and the state of the coordinator)."""
        return self.coordinator_state is not None or any(subtask.has_state for subtask in self.subtasks)

    @property
    def state_size(self) -> int:
        """Sum over the coordinator and all subtasks."""
        coordinator = self.coordinator_state.state_size if self.coordinator_state else 0
        return coordinator + total_size(self.subtasks)


@dataclass(frozen=True, slots=True)
class CheckpointMetadata:
    """The content of a ``_metadata`` file; ``properties`` is ``None`` before version 4."""

    version: int
    checkpoint_id: int
    operators: tuple[OperatorState, ...]
    master_states: tuple[MasterState, ...] = ()
    properties: CheckpointProperties | None = None

    @property
    def operators_by_id(self) -> dict[str, OperatorState]:
        """The operators by the ids that the file has."""
        return {operator.operator_id: operator for operator in self.operators}


def read_metadata(data: bytes | bytearray | memoryview | MetadataFile, source: str = "_metadata") -> CheckpointMetadata:
    """Parse a ``_metadata`` file to its last byte.

    ``data``: the whole file, in memory or read in parts. ``source``: name of the file in errors, usually its path.
    """
    inp = HandleInput(data, source)
    _check_magic(inp)
    collecting = gc.isenabled()
    gc.disable()  # a million handles without cycles: the search for cycles takes a third of the time
    try:
        return _read(inp)
    except RecursionError:
        raise inp.corrupt("state handles are nested too deeply") from None
    finally:
        if collecting:
            gc.enable()


_KEPT: Final = 8
"""Number of files whose content is kept."""
_SMALL_FILE: Final = 1 << 18
"""Size of the largest of these files. Larger content takes tens of megabytes."""


def kept_metadata(data: memoryview | MetadataFile, source: str) -> CheckpointMetadata:
    """Parse a ``_metadata`` file, see :func:`read_metadata`. The same bytes are parsed once."""
    cached = _content_of(bytes(data)) if isinstance(data, memoryview) and len(data) <= _SMALL_FILE else None
    return cached or read_metadata(data, source)


@lru_cache(maxsize=_KEPT)
def _content_of(data: bytes) -> CheckpointMetadata | None:
    """Parse a file without a problem; ``None`` otherwise: then a message has to name the file."""
    try:
        return read_metadata(data)
    except StateProcessorError:
        return None


def _check_magic(inp: HandleInput) -> None:
    """Check the first bytes, and return to the start."""
    head = inp.take(min(_HEAD, inp.remaining), "start of the file")
    inp.position = 0
    if not head:
        raise inp.corrupt("the file is empty: writing or copying it was interrupted; use another snapshot, or copy it again", 0)
    if not head.startswith(INT.pack(MAGIC)[: len(head)]):
        description = described_file(head)
        problem = f"it is {description}" if description else f"it starts with {head[: INT.size].hex()}, not {MAGIC:08x}"
        raise inp.corrupt(f"not a _metadata file of Flink: {problem}. Pass the directory of a savepoint or checkpoint", 0)


def _read(inp: HandleInput) -> CheckpointMetadata:
    _, version, checkpoint_id = inp.unpack(_HEADER)
    layout = _layout(version, inp.source)
    if checkpoint_id < 0:
        raise inp.corrupt(f"negative checkpoint id {checkpoint_id}", 8)
    masters = tuple(map(_read_master_state, repeat(inp, inp.read_count("master states", _SMALLEST_MASTER_STATE))))
    operators = tuple(map(_read_operator, repeat(inp, inp.read_count("operators", _SMALLEST_OPERATOR)), repeat(layout)))
    properties = None
    if layout.properties:
        start = inp.position
        properties = decode_properties(inp.take(inp.remaining, "properties"), inp.source, start)
    if not inp.at_end():
        raise inp.corrupt(f"{inp.remaining} bytes after the last operator")
    return CheckpointMetadata(version, checkpoint_id, operators, masters, properties)


def _layout(version: int, source: str) -> MetadataLayout:
    METADATA.check(version, source, INT.size)
    return LAYOUTS[version]


def _read_master_state(inp: HandleInput) -> MasterState:
    magic, size = inp.unpack(_MASTER_HEADER)
    if magic != MASTER_STATE_MAGIC:
        raise inp.corrupt(f"master state expected, found {magic:08x}", inp.position - _MASTER_HEADER.size)
    start = inp.position
    (version,) = inp.unpack(INT)
    state = MasterState(version, inp.read_utf(), inp.read_data("master state"))
    if inp.position - start != size:
        raise inp.corrupt(f"master state of {size} bytes announced, it has {inp.position - start}", start)
    return state


def _read_operator(inp: HandleInput, layout: MetadataLayout) -> OperatorState:
    name = uid = None
    if layout.names:
        name, uid = inp.read_utf() or None, inp.read_utf() or None
    operator_id = inp.take(16, "operator id").hex()
    parallelism, max_parallelism = inp.unpack(_PARALLELISM)
    if not 0 <= parallelism <= max_parallelism <= MAX_KEY_GROUPS:
        raise inp.corrupt(f"parallelism {parallelism} and max parallelism {max_parallelism}", inp.position - _PARALLELISM.size)
    chain_length = inp.read_int() if layout.chain_length else 1
    coordinator = None if layout.chain_length else _read_coordinator(inp)
    fully_finished = layout.channels and inp.skip_if(_FULLY_FINISHED)
    subtasks: tuple[OperatorSubtaskState, ...] = ()
    if fully_finished:
        if coordinator is not None:
            raise inp.corrupt("a finished operator with coordinator state")
    else:
        count = inp.read_count("subtasks", _SMALLEST_SUBTASK)
        subtasks = tuple(map(_read_subtask, repeat(inp, count), repeat(layout), repeat(parallelism)))
    return OperatorState(
        operator_id, parallelism, max_parallelism, subtasks, coordinator, name, uid, fully_finished, chain_length
    )


def _read_coordinator(inp: HandleInput) -> ByteStreamStateHandle | None:
    handle: StreamStateHandle | None = layouts.STREAM.read(inp)
    if handle is not None and not isinstance(handle, ByteStreamStateHandle):
        raise inp.corrupt(f"coordinator state must be inline, found a {type(handle).__name__}")
    return handle


def _read_subtask(inp: HandleInput, layout: MetadataLayout, parallelism: int) -> OperatorSubtaskState:
    (index,) = inp.unpack(INT)
    lowest = -parallelism if layout.channels else 0
    if not lowest <= index < parallelism:
        raise inp.corrupt(f"subtask {index} of an operator with parallelism {parallelism}", inp.position - 4)
    if index < 0:
        return OperatorSubtaskState(-index - 1, finished=True)
    duration = -1
    if layout.legacy_prefix:
        duration, legacy = inp.unpack(_LEGACY_PREFIX)
        if legacy:
            raise inp.corrupt(f"{legacy} states of Flink 1.1 or older; current versions of Flink can't read them")
    managed_operator = raw_operator = None
    if not inp.skip_if(_NO_PAIR):
        managed_operator, raw_operator = _read_optional_operator_state(inp), _read_optional_operator_state(inp)
    managed_keyed, raw_keyed = layouts.KEYED.read(inp), layouts.KEYED.read(inp)
    inputs: tuple[InputStateHandle, ...] = ()
    outputs: tuple[OutputStateHandle, ...] = ()
    if layout.channels and not inp.skip_if(_NO_PAIR):
        inputs = _read_channels(inp, layouts.INPUT, layout.typed_channels)
        outputs = _read_channels(inp, layouts.OUTPUT, layout.typed_channels)
    reference = _read_reference(inp) if layout.reference else None
    return OperatorSubtaskState(
        index, managed_operator, raw_operator, managed_keyed, raw_keyed, inputs, outputs, False, reference, duration
    )


def _read_optional_operator_state(inp: HandleInput) -> OperatorStateHandle | None:
    (present,) = inp.unpack(INT)
    if not present:
        return None
    handle: OperatorStateHandle | None = layouts.OPERATOR.read(inp) if present == 1 else None
    if handle is None:
        raise inp.corrupt(f"operator state announced by {present}, found null")
    return handle


def _read_channels(inp: HandleInput, kind: layouts.HandleKind, typed: bool) -> tuple[Any, ...]:
    read = kind.read if typed else kind.read_untyped
    return tuple(map(read, repeat(inp, inp.read_count("channel states", _SMALLEST_CHANNEL))))


def _read_reference(inp: HandleInput) -> int | None:
    return int(inp.unpack(LONG)[0]) if inp.read_boolean() else None


def write_metadata(metadata: CheckpointMetadata) -> bytes:
    """Write a ``_metadata`` file: the exact inverse of :func:`read_metadata`.

    ``metadata``: the content. Its ``version`` selects the layout, and has to support all of the content.
    """
    layout = _layout(metadata.version, "metadata to write")
    out = DataOutput()
    out.write_bytes(_HEADER.pack(MAGIC, metadata.version, metadata.checkpoint_id))
    out.write_int(len(metadata.master_states))
    for master in metadata.master_states:
        _write_master_state(out, master)
    out.write_int(len(metadata.operators))
    for operator in metadata.operators:
        _write_operator(out, operator, layout, metadata.version)
    if layout.properties:
        out.write_bytes(metadata.properties.raw if metadata.properties else NULL_STREAM)
    return out.to_bytes()


def _write_master_state(out: DataOutput, state: MasterState) -> None:
    body = DataOutput()
    body.write_int(state.version)
    body.write_utf(state.name)
    body.write_int(len(state.data))
    body.write_bytes(state.data)
    out.write_bytes(_MASTER_HEADER.pack(MASTER_STATE_MAGIC, body.position))
    out.write_bytes(body.buffer)


def _write_operator(out: DataOutput, operator: OperatorState, layout: MetadataLayout, version: int) -> None:
    if layout.names:
        out.write_utf(operator.name or "")
        out.write_utf(operator.uid or "")
    out.write_bytes(bytes.fromhex(operator.operator_id))
    out.write_bytes(_PARALLELISM.pack(operator.parallelism, operator.max_parallelism))
    if layout.chain_length:
        _inexpressible(operator.coordinator_state is not None, "coordinator state", operator, version)
        out.write_int(operator.chain_length)
    else:
        layouts.write_handle(out, operator.coordinator_state)
    if operator.fully_finished:
        _inexpressible(not layout.channels, "a finished operator", operator, version)
        out.write_int(-1)
        return
    out.write_int(len(operator.subtasks))
    for subtask in operator.subtasks:
        _write_subtask(out, subtask, layout, operator, version)


def _write_subtask(
    out: DataOutput, subtask: OperatorSubtaskState, layout: MetadataLayout, operator: OperatorState, version: int
) -> None:
    if subtask.finished:
        _inexpressible(not layout.channels, "a finished subtask", operator, version)
        out.write_int(-subtask.index - 1)
        return
    out.write_int(subtask.index)
    if layout.legacy_prefix:
        out.write_bytes(_LEGACY_PREFIX.pack(subtask.duration, 0))
    for handle in (subtask.managed_operator, subtask.raw_operator):
        out.write_int(0 if handle is None else 1)
        if handle is not None:
            layouts.write_handle(out, handle)
    layouts.write_handle(out, subtask.managed_keyed)
    layouts.write_handle(out, subtask.raw_keyed)
    for channels in (subtask.input_channels, subtask.result_subpartitions):
        if layout.channels:
            out.write_int(len(channels))
        for channel in channels:
            _inexpressible(not layout.channels, "channel state", operator, version)
            merged = isinstance(channel, MergedChannelStateHandle)
            _inexpressible(merged and not layout.typed_channels, "merged channel state", operator, version)
            layouts.write_channel(out, channel, layout.typed_channels)
    if layout.reference:
        out.write_boolean(subtask.reference_checkpoint_id is not None)
        if subtask.reference_checkpoint_id is not None:
            out.write_long(subtask.reference_checkpoint_id)


def _inexpressible(problem: bool, feature: str, operator: OperatorState, version: int) -> None:
    if problem:
        raise UnsupportedFormatError(
            f"metadata version {version} cannot express {feature} (operator {operator.label}); write a later version"
        )


METADATA_FILE: Final = "_metadata"
LARGE_METADATA: Final = 64 << 20
"""A larger local ``_metadata`` is read in parts."""
_PIECE: Final = 4 << 20
_BEGINNING: Final = 64 << 10


def metadata_content(stored: StoredFile) -> memoryview | StoredFile:
    """Return the input of :func:`~state_processor.backends.metadata.snapshot_metadata.read_metadata`.

    A large local file consists mostly of inline state; it is read in parts. A remote file is read at once, because each part
    would be a request.
    """
    in_parts = stored.size > LARGE_METADATA and Location.parse(stored.path).is_local
    return stored if in_parts else stored.read(0, stored.size)


def content_digest(data: memoryview | StoredFile) -> str:
    """Return the digest of the content of ``_metadata``."""
    if isinstance(data, memoryview):
        return sha256(data).hexdigest()
    digest = sha256()
    for start in range(0, data.size, _PIECE):
        digest.update(data.read(start, min(_PIECE, data.size - start)))
    return digest.hexdigest()


def beginning_digest(data: memoryview | StoredFile) -> str:
    """Return the digest of the length and the beginning of ``_metadata``, for checks that many tasks make."""
    if isinstance(data, memoryview):
        return sha256(len(data).to_bytes(8) + data[:_BEGINNING]).hexdigest()
    return sha256(data.size.to_bytes(8) + data.read(0, min(_BEGINNING, data.size))).hexdigest()


def stored_metadata(directory: str, storage: Storage) -> StoredFile | None:
    """Open the ``_metadata`` that a directory has now; ``None`` without one."""
    return storage.open_if_file(str(Location.parse(directory).joined(METADATA_FILE)))


def stored_digest(directory: str, storage: Storage) -> str | None:
    """Return the digest of the ``_metadata`` that a directory has now; ``None`` without one."""
    stored = stored_metadata(directory, storage)
    return None if stored is None else content_digest(metadata_content(stored))


def check_not_replaced(storage: Storage, directory: str, beginning: str) -> None:
    """Raise an error if a directory has another snapshot now: files of the former one are gone.

    ``beginning``: the :func:`beginning_digest` of the former one. A snapshot may miss all its files: for each of them, all of a
    large ``_metadata`` would be read.
    """
    stored = stored_metadata(directory, storage) if beginning else None
    if stored is not None and beginning_digest(stored) != beginning:
        raise MissingFileError(
            f"{directory} was replaced since it was opened: its _metadata has another content, and files of the former snapshot "
            "are gone. Open it again"
        )
