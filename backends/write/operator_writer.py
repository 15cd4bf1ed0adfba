"""Writing one subtask's operator state. Flink: ``DefaultOperatorStateBackendSnapshotStrategy``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.backends.files.changes import BufferedSink, FileSink
from state_processor.backends.metadata import handles as h
from state_processor.backends.state import state_headers
from state_processor.backends.state.descriptions import (
    BROADCAST,
    MODES,
    BroadcastDescription,
    OperatorDescription,
    operator_header,
    register,
)
from state_processor.backends.write.pending_updates import resolved_broadcast, with_pending_parts
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.kernel.encode.conversion import bind
from state_processor.serializers.kernel.encode.encoder import ColumnEncoder, Encoded
from state_processor.serializers.kernel.encode.program import EncodeBuilder
from state_processor.serializers.kernel.opcodes import Op
from state_processor.support.errors import InvalidRowError, NotFoundError
from state_processor.support.mappings import index_by_name


class OperatorStateFileWriter:
    """Writes the operator state file of one subtask: any number of batches, state after state; then :meth:`close`.

    ``sink``: the file, next to ``_metadata``; it is closed at the end. ``states``: all operator states of the subtask, empty
    states included. ``registered``: their registrations, where they are to be as another snapshot had them; new ones by default.
    ``context``: operator and subtask, for error messages.
    """

    def __init__(
        self,
        sink: FileSink,
        states: Sequence[OperatorDescription],
        registered: Sequence[state_headers.StateMetaInfo] | None = None,
        context: str = "",
    ) -> None:
        self._sink = sink
        self._states = index_by_name(states)
        self._context = f"{context}, " if context else ""
        self._offsets: dict[str, list[npt.NDArray[np.int64]]] = {s.name: [] for s in states}
        header = operator_header(registered if registered is not None else list(map(register, states)))
        target = DataOutput()
        header.write(target)
        self._file = BufferedSink(sink, target.buffer)

    def add_elements(self, name: str, data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64]) -> None:
        """Append elements as their bytes, back to back, each from one of ``starts`` on."""
        self._state(name)
        self._offsets[name].append(starts + self._file.position)
        self._file.write(data.data)

    def add_broadcast_bytes(self, name: str, count: int, data: npt.NDArray[np.uint8]) -> None:
        """Write broadcast state as the bytes of its keys and values, back to back."""
        self._state(name)
        self._offsets[name].append(np.array([self._file.position], dtype=np.int64))
        self._file.write(count.to_bytes(4, "big"))
        self._file.write(data.data)

    def close(self) -> h.OperatorStreamStateHandle:
        """Complete the file and return its handle."""
        for name, state in self._states.items():
            if state.kind == BROADCAST and not self._offsets[name]:
                self.add_broadcast_bytes(name, 0, np.zeros(0, dtype=np.uint8))
        self._file.close()
        metas = []
        for name, state in self._states.items():
            metas.append(h.OperatorStateMeta(name, MODES[state.kind], _offsets(self._offsets[name])))
        return h.OperatorStreamStateHandle(tuple(metas), h.RelativeFileStateHandle(self._sink.name, self._sink.size))

    def _state(self, name: str) -> OperatorDescription:
        if name not in self._states:
            raise NotFoundError.naming_nearest("operator state", name, self._states)
        return self._states[name]


def _offsets(parts: Iterable[npt.NDArray[np.int64]]) -> h.Offsets:
    return h.Offsets(np.concatenate([np.zeros(0, dtype=np.int64), *parts]).astype(">i8").tobytes())


def edited_elements(
    elements: tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]], edits: Mapping[int, bytes | None]
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return elements with other bytes at some positions; ``None`` leaves an element out. The last bound is the end."""
    data, bounds = elements
    sizes, stays = np.diff(bounds), np.ones(len(bounds) - 1, dtype=bool)
    pieces, end = [], 0
    for position, new in sorted(edits.items()):
        pieces += [data[bounds[end] : bounds[position]], np.frombuffer(new or b"", dtype=np.uint8)]
        sizes[position], stays[position] = len(new or b""), new is not None
        end = position + 1
    pieces.append(data[bounds[end] : bounds[-1]])
    return np.concatenate(pieces), np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes[stays])])


def encode_columns(serializers: Mapping[str, TypeSerializer], columns: Mapping[str, pa.Array], context: str) -> Encoded:
    """Encode columns: of each row the values of all serializers, one after the other."""
    try:
        schema = pa.schema([(name, bind(s, columns[name].type, name)) for name, s in serializers.items()])
    except InvalidRowError as problem:
        raise InvalidRowError(f"{context}: {problem}") from None
    builder = EncodeBuilder(schema)
    for name, serializer in serializers.items():
        with builder.field(name):
            serializer.emit_encode(builder, builder.column(name))
    builder.op(Op.ENTRY_END)
    builder.op(Op.ROW_END)
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    return ColumnEncoder(builder.build(), context).encode(batch)


def encode_broadcast(state: BroadcastDescription, keys: pa.Array, values: pa.Array, context: str) -> npt.NDArray[np.uint8]:
    """Encode keys and values of broadcast state, back to back."""
    _check_keys(state.key, keys, context)
    return encode_columns({"key": state.key, "value": state.value}, {"key": keys, "value": values}, context).data


def updated_broadcast(
    stored: bytes, state: BroadcastDescription, keys: pa.Array, values: pa.Array, context: str
) -> npt.NDArray[np.uint8]:
    """Encode keys and values as :func:`encode_broadcast` does; parts of values that Kryo wrote keep their bytes if unchanged.

    ``stored``: the broadcast state of the source savepoint: number of entries, keys and values. ``state``, ``keys``, ``values``
    and ``context``: the new state.
    """
    _check_keys(state.key, keys, context)
    source, before = DataInput(stored, context), {}
    for _ in range(source.read_count("broadcast entries", 1)):
        start = source.position
        state.key.read(source)
        end = source.position
        state.value.read(source)
        before[stored[start:end]] = stored[end : source.position]
    written = encode_columns({"key": state.key}, {"key": keys}, context)
    pending = encode_columns({"value": with_pending_parts(state).value}, {"value": values}, context)
    try:
        entries = resolved_broadcast(state.value, before, list(written), list(pending))
    except InvalidRowError as problem:
        raise InvalidRowError(f"{context}: {problem}") from None
    return np.frombuffer(entries, dtype=np.uint8)


def _check_keys(serializer: TypeSerializer, keys: pa.Array, context: str) -> None:
    encoded = list(encode_columns({"key": serializer}, {"key": keys}, context))
    if len(set(encoded)) < len(encoded):
        seen: set[bytes] = set()
        for row, key in enumerate(encoded):
            if key in seen:
                raise InvalidRowError(f"{context}: key {keys[row].as_py()!r} of row {row} occurs more than once")
            seen.add(key)
