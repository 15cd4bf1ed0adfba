"""Search for texts and numbers in all state of an operator: in columns of Arrow, or in bytes that are not decoded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.errors import OptionError, StateProcessorError
from state_processor.options import ReadOptions
from state_processor.serializers.extension import ELEMENT, VALUE
from state_processor.snapshots import OperatorState, Snapshot
from state_processor.states import (
    DOMAIN,
    FIRES_AT,
    LIST_INDEX,
    RAW_KEYED,
    RAW_OPERATOR,
    SERVICE,
    StateDescription,
    StateReader,
    StoredOperator,
    all_parts,
    channel_states,
    contents,
    join_path,
    json_text_of,
    open_state,
    parse_json,
    positions,
    raw_keyed_state,
    raw_operator_state,
    read_all,
    shown_name,
)
from state_processor.support import cached_property, pc

# Texts and numbers to search for: in columns of Arrow, and in bytes that are not decoded

TEXT: Final = "text"
NUMBER: Final = "number"
UTF_8: Final = "UTF-8"
_LEAST_LONG: Final = 1 << 24
"""Smaller numbers have so many zeros among their eight bytes that other values contain these bytes, too."""
_IN_ONE_BYTE: Final = 0x80


@dataclass(frozen=True)
class Needle:
    """A text or a number to search for."""

    kind: str  # :data:`TEXT` or :data:`NUMBER`
    value: str | int | float

    @classmethod
    def text(cls, value: str) -> Needle:
        """Return a needle that is found in any part of a value."""
        if not isinstance(value, str) or not value:
            raise OptionError(f"text: expected a text of at least one character, found {value!r}")
        return cls(TEXT, value)

    @classmethod
    def number(cls, value: float) -> Needle:
        """Return a needle that is found if it equals a whole value."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise OptionError(f"number: expected a number, found {value!r}")
        return cls(NUMBER, value)

    def __str__(self) -> str:
        return str(self.value)

    @cached_property
    def patterns(self) -> dict[bytes, str]:
        """The bytes to search for in undecoded values, with the names of the encodings."""
        text = str(self.value)
        encodings: dict[bytes, str] = {}
        for data, name in _encodings(text) if self.kind == TEXT else _number_encodings(self.value):
            encodings.setdefault(data, name)
        return encodings

    def rows(self, leaf: pa.Array) -> npt.NDArray[np.int64] | None:
        """Return the positions of the values that contain this needle, ``None`` without such values. The array is not nested."""
        type_ = leaf.type
        if self.kind == TEXT:
            if pa.types.is_string(type_):
                return _containing(leaf, self.utf_8)
            return self._in_bytes(leaf) if pa.types.is_binary(type_) else None
        if pa.types.is_integer(type_) or pa.types.is_floating(type_):
            return self._equal(leaf)
        if pa.types.is_string(type_):
            return _same_text(leaf, self.utf_8)
        return self._in_bytes(leaf) if pa.types.is_binary(type_) else None

    @cached_property
    def utf_8(self) -> bytes:
        """The needle as UTF-8."""
        return str(self.value).encode("utf-8", "surrogatepass")

    def count_in(self, data: npt.NDArray[np.uint8]) -> dict[str, int]:
        """Return how often bytes contain the needle, by the name of the encoding."""
        return {name: count for pattern, name in self.patterns.items() if (count := len(positions(data, pattern)))}

    def _in_bytes(self, leaf: pa.Array) -> npt.NDArray[np.int64] | None:
        row_sets = [rows for pattern in self.patterns if (rows := _containing(leaf, pattern)) is not None]
        return np.unique(np.concatenate(row_sets)) if row_sets else None

    def _equal(self, leaf: pa.Array) -> npt.NDArray[np.int64] | None:
        try:
            number = pa.scalar(self.value, leaf.type)
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            return None
        return _true_rows(pc.equal(leaf, number)) if number.as_py() == self.value else None


def _encodings(text: str) -> Iterator[tuple[bytes, str]]:
    """Yield a text as bytes in each text encoding of Flink, Java, Kryo and Python."""
    yield text.encode("utf-8", "surrogatepass"), UTF_8
    units = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), dtype="<u2")
    yield b"".join(map(_modified, units.tolist())), "modified UTF-8"
    yield b"".join(map(_string_value, units.tolist())), "StringValue"
    yield units.tobytes(), "UTF-16LE"
    yield units.astype(">u2").tobytes(), "UTF-16BE"
    if text.isascii():
        data = text.encode("ascii")
        yield data[:-1] + bytes([data[-1] | _IN_ONE_BYTE]), "Kryo"
    elif all(unit < 0x100 for unit in units.tolist()):
        yield text.encode("latin-1"), "Latin-1"


def _modified(unit: int) -> bytes:
    """Return a UTF-16 code unit as ``DataOutput.writeUTF`` and Kryo write it."""
    if 0 < unit < _IN_ONE_BYTE:
        return bytes([unit])
    if unit < 0x800:
        return bytes([0xC0 | unit >> 6, 0x80 | unit & 0x3F])
    return bytes([0xE0 | unit >> 12, 0x80 | unit >> 6 & 0x3F, 0x80 | unit & 0x3F])


def _string_value(unit: int) -> bytes:
    """Return a UTF-16 code unit as ``StringValue.writeString`` writes it: seven bits a byte, the lowest first."""
    data = bytearray()
    while unit >= _IN_ONE_BYTE:
        data.append(unit & 0x7F | _IN_ONE_BYTE)
        unit >>= 7
    return bytes([*data, unit])


def _number_encodings(number: str | float) -> Iterator[tuple[bytes, str]]:
    if len(str(number)) >= 4:
        yield str(number).encode(), UTF_8
    if isinstance(number, int) and _LEAST_LONG <= abs(number) < 1 << 63:
        yield number.to_bytes(8, "big", signed=True), "long"
        yield number.to_bytes(8, "little", signed=True), "long, little endian"


def _containing(leaf: pa.Array, pattern: bytes) -> npt.NDArray[np.int64] | None:
    """Return the positions of the values that contain a pattern; ``None`` without such values."""
    _, offset_buffer, data = leaf.buffers()
    if data is None or not len(leaf):
        return None
    offsets = np.frombuffer(offset_buffer, dtype=np.int32)[leaf.offset : leaf.offset + len(leaf) + 1]
    begin = int(offsets[0])
    matches = positions(np.frombuffer(data, dtype=np.uint8)[begin : offsets[-1]], pattern) + begin
    if not len(matches):
        return None
    rows = np.searchsorted(offsets, matches, side="right") - 1
    rows = np.unique(rows[matches + len(pattern) <= offsets[rows + 1]])
    if leaf.null_count and len(rows):
        rows = rows[leaf.take(pa.array(rows)).is_valid().to_numpy(zero_copy_only=False)]
    return rows if len(rows) else None


def _same_text(leaf: pa.Array, text: bytes) -> npt.NDArray[np.int64] | None:
    """Return the positions of the values that equal a text; ``None`` without such values. Few values have its length."""
    _, offset_buffer, _ = leaf.buffers()
    if offset_buffer is None or not len(leaf):
        return None
    offsets = np.frombuffer(offset_buffer, dtype=np.int32)[leaf.offset : leaf.offset + len(leaf) + 1]
    rows = np.flatnonzero(offsets[1:] - offsets[:-1] == len(text))
    if not len(rows):
        return None
    same = _true_rows(pc.equal(leaf.take(pa.array(rows)), text.decode()))
    return None if same is None else rows[same]


def _true_rows(mask: Any) -> npt.NDArray[np.int64] | None:
    return np.flatnonzero(mask.fill_null(False).to_numpy(zero_copy_only=False)) if mask.true_count else None


# States of an operator

IN_FLIGHT: Final = "IN_FLIGHT"
COORDINATOR: Final = "COORDINATOR"
KEY: Final = "key"

HITS: Final = pa.schema(
    [
        ("operator_uid", pa.string()),
        ("operator_uid_hash", pa.string()),
        ("state_name", pa.string()),
        ("state_kind", pa.string()),
        ("key", pa.string()),
        ("field", pa.string()),
        ("sought", pa.string()),
        ("count", pa.int64()),
    ]
)
"""The columns of a hit: a place with a needle, and the number of values that contain the needle."""
UNDECODED: Final = pa.schema([*map(HITS.field, range(4)), ("reason", pa.string()), ("count", pa.int64())])
"""The columns of state that is searched as bytes: the state, the reason, and the number of occurrences."""
_PLACE: Final = [name for name in HITS.names if name != "count"]

_OPTIONS: Final = ReadOptions.of(nanos="string", row_kind=False)
_SKIPPED: Final = frozenset({DOMAIN, SERVICE, FIRES_AT, LIST_INDEX})
"""Columns that are not content of entries."""
_FEW: Final = 1000
"""Fewer hits are merged at the end of a search; they need less memory than the merge takes time."""
_AS_BYTES: Final = "values are bytes"
_NO_TYPES: Final = "Flink does not record types"


@dataclass
class StateSearch:
    """A search in operators of one snapshot, with its results."""

    snapshot: Snapshot
    needles: Sequence[Needle]  # the texts and numbers to search for
    keys: Sequence[Any] = ()  # keys to look up in keyed state: Python values, or JSON text for keys of other types than text
    hits: list[pa.Table] = field(default_factory=list)
    undecoded: list[dict[str, Any]] = field(default_factory=list)
    fitting_keys: set[int] = field(default_factory=set)
    """The positions of the keys whose type is the key type of some operator."""

    def search(self, operator: OperatorState) -> None:
        """Search in all state of an operator."""
        stored = StoredOperator(self.snapshot, operator)
        try:
            states, unread = stored.surveyed
        except StateProcessorError as problem:
            self._search_files(operator, None, None, str(problem))
            return
        for state in unread:
            self._search_files(operator, state.name, state.kind, str(state.error))
        for variants in states.values():
            self._search_state(stored, variants[0])
        for kind, pieces in ((RAW_KEYED, raw_keyed_state), (RAW_OPERATOR, raw_operator_state)):
            self._search_bytes(operator, kind, (piece.data for piece in pieces(self.snapshot, operator)))
        channels = (b"".join(channel.read(self.snapshot)) for channel in channel_states(operator))
        self._search_bytes(operator, IN_FLIGHT, channels)
        if operator.coordinator_state is not None:
            self._search_bytes(operator, COORDINATOR, [self.snapshot.open(operator.coordinator_state).read()])

    def _search_state(self, stored: StoredOperator, state: StateDescription) -> None:
        place = _place(stored.operator, shown_name(state.name), state.kind)
        try:
            if self.needles:
                self._search_rows(stored, state.name, place)
            if state.is_keyed:
                self._look_up(stored, state.name, place)
        except StateProcessorError as problem:
            self._search_files(stored.operator, state.name, state.kind, str(problem))

    def _search_rows(self, stored: StoredOperator, name: str, place: dict[str, Any]) -> None:
        reader = open_state(stored, name, options=_OPTIONS)
        as_bytes: list[str] = []
        for column, type_ in zip(reader.schema.names, reader.schema.types, strict=True):
            as_bytes += _binary(column, type_)
        bytes_hits = 0

        def search(split: Any) -> Iterator[tuple[pa.Table, int]]:
            for batch in reader.read(split):
                hits = list(search_batch(batch, self.needles, _SKIPPED))
                if hits:
                    yield _hits(place, batch, hits), sum(len(rows) for _, path, rows in hits if path in as_bytes)

        for table, of_bytes in read_all(reader.splits, search, self.snapshot.threads):
            self.hits.append(table)
            bytes_hits += of_bytes
        if as_bytes:
            self.undecoded.append({**place, "reason": f"{_AS_BYTES}: {', '.join(as_bytes)}", "count": bytes_hits})

    def _look_up(self, stored: StoredOperator, name: str, place: dict[str, Any]) -> None:
        for number, key in enumerate(self.keys):
            reader = _reader_of(stored, name, key)
            if reader is None:
                continue
            self.fitting_keys.add(number)
            count = sum(batch.num_rows for batch in read_all(reader.splits, reader.read, self.snapshot.threads))
            if count:
                text = key if isinstance(key, str) else json_text_of(key)
                self.hits.append(pa.Table.from_pylist([{**place, KEY: text, "field": KEY, "sought": text, "count": count}], HITS))

    def _search_bytes(self, operator: OperatorState, kind: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Search in bytes without a name or a type, such as raw state."""
        self._search_parts(_place(operator, None, kind), _NO_TYPES, (_array(piece) for piece in pieces if len(piece)))

    def _search_files(self, operator: OperatorState, name: str | None, kind: str | None, reason: str) -> None:
        """Search in all files of an operator with a state that can't be decoded."""
        self._search_parts(_place(operator, name, kind), reason, all_parts(contents(self.snapshot, [operator])))

    def _search_parts(self, place: dict[str, Any], reason: str, parts: Iterable[Any]) -> None:
        counts = dict.fromkeys(self.needles, 0)
        part = None
        for part in parts:
            for needle in self.needles:
                counts[needle] += sum(needle.count_in(part).values())
        if part is not None:
            self.undecoded.append({**place, "reason": reason, "count": sum(counts.values())})
        rows = [{**place, "sought": str(needle), "count": count} for needle, count in counts.items() if count]
        if rows:
            self.hits.append(pa.Table.from_pylist(rows, HITS))


def _hits(place: dict[str, Any], batch: pa.RecordBatch, hits: Sequence[Hits]) -> pa.Table:
    """Return the hits in a batch in the order of its rows: the order does not depend on where batches end. Many are merged."""
    needles, paths, rows_of_hits = zip(*hits, strict=True)
    rows = np.concatenate(rows_of_hits)
    order = np.argsort(rows, kind="stable")
    sizes = list(map(len, rows_of_hits))
    columns = {name: pa.repeat(pa.scalar(value, pa.string()), len(rows)) for name, value in place.items()}
    at = batch.schema.get_field_index(KEY)
    columns[KEY] = pa.nulls(len(rows), pa.string()) if at < 0 else key_texts(batch.column(at).take(pa.array(rows[order])))
    numbers = np.repeat(np.arange(len(hits)), sizes)[order]
    columns["field"] = pa.array(paths, pa.string()).take(pa.array(numbers))
    columns["sought"] = pa.array(list(map(str, needles)), pa.string()).take(pa.array(numbers))
    columns["count"] = pa.array(np.ones(len(rows), dtype=np.int64))
    table = pa.table(columns, schema=HITS)
    return table if len(table) < _FEW else merged([table])


def _reader_of(stored: StoredOperator, name: str, key: Any) -> StateReader | None:
    """Return the reader of the entries of a key; ``None`` if the key has another type than the operator's keys."""
    for spelling in spellings(key):
        try:
            return open_state(stored, name, options=replace(_OPTIONS, keys=(spelling,)))
        except OptionError:
            continue
    return None


def merged(tables: Sequence[pa.Table]) -> pa.Table:
    """Return tables of :data:`HITS` as one, with a row for each place, in the order of the first hits there."""
    if not tables:
        return HITS.empty_table()
    table = pa.concat_tables(tables)
    numbered = table.append_column("number", pa.array(np.arange(len(table))))  # pyarrow groups in the order of a hash table
    grouped = numbered.group_by(_PLACE, use_threads=False).aggregate([("count", "sum"), ("number", "min")])
    return grouped.sort_by("number_min").select([*_PLACE, "count_sum"]).rename_columns([*_PLACE, "count"]).cast(HITS)


def spellings(key: Any) -> Iterator[Any]:
    """Yield a key. If the key is JSON text, also yield its value: keys of other types may be given as JSON."""
    yield key
    if isinstance(key, str):
        with suppress(ValueError):
            yield parse_json(key)


def key_texts(keys: pa.Array) -> pa.Array:
    """Return keys as text. Text and numbers are unchanged; other values become JSON."""
    if pa.types.is_string(keys.type):
        return keys
    if pa.types.is_integer(keys.type):
        return pc.cast(keys, pa.string())
    encoded = keys.to_pylist()  # few: of the values that were found
    return pa.array([None if key is None else json_text_of(key) for key in encoded], pa.string())


def _place(operator: OperatorState, name: str | None, kind: str | None) -> dict[str, Any]:
    return {
        "operator_uid": operator.uid,
        "operator_uid_hash": operator.operator_id,
        "state_name": name,
        "state_kind": kind,
    }


def _array(data: bytes | memoryview) -> Any:
    return np.frombuffer(data, dtype=np.uint8)


def _binary(path: str, type_: pa.DataType) -> Iterator[str]:
    """Yield the paths of bytes in a type, as :mod:`column_search` names them."""
    if pa.types.is_struct(type_):
        for child in type_:
            yield from _binary(join_path(path, child.name), child.type)
    elif pa.types.is_map(type_):
        yield from _binary(join_path(path, KEY), type_.key_type)
        yield from _binary(join_path(path, VALUE), type_.item_type)
    elif pa.types.is_list(type_):
        yield from _binary(join_path(path, ELEMENT), type_.value_type)
    elif pa.types.is_binary(type_):
        yield path


# Search in columns, including nested values, without a Python object for each row

_Rows = npt.NDArray[np.int64]
Hits = tuple[Needle, str, _Rows]
"""A needle, the path of a field, and positions of rows in the batch. A row is repeated for each hit in its field."""


def search_batch(batch: pa.RecordBatch, needles: Sequence[Needle], skipped: Iterable[str] = ()) -> Iterator[Hits]:
    """Yield the fields and rows of a batch that contain needles.

    ``needles``: the texts and numbers to search for. ``skipped``: columns that are not searched.
    """
    left_out = frozenset(skipped)
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name not in left_out:
            yield from _search(name, column, None, needles)


def _search(path: str, array: pa.Array, parents: _Parents | None, needles: Sequence[Needle]) -> Iterator[Hits]:
    """Search an array; ``parents`` maps its values to rows of the batch."""
    type_ = array.type
    if pa.types.is_struct(type_):
        for field, child in zip(type_, array.flatten(), strict=True):
            yield from _search(join_path(path, field.name), child, parents, needles)
    elif pa.types.is_map(type_):
        inner = _Parents(array.cast(pa.list_(pa.struct([("key", type_.key_type), ("value", type_.item_type)]))), parents)
        entries = inner.values
        yield from _search(join_path(path, KEY), entries.field(0), inner, needles)
        yield from _search(join_path(path, VALUE), entries.field(1), inner, needles)
    elif pa.types.is_list(type_):
        inner = _Parents(array, parents)
        yield from _search(join_path(path, ELEMENT), inner.values, inner, needles)
    else:
        for needle in needles:
            rows = needle.rows(array)
            if rows is not None:
                yield needle, path, rows if parents is None else parents.rows_of(rows)


class _Parents:
    """Maps the elements of lists to the rows of the lists."""

    def __init__(self, lists: pa.ListArray, parents: _Parents | None) -> None:
        self.values = lists.flatten()
        self._lists = lists
        self._parents = parents

    def rows_of(self, elements: _Rows) -> _Rows:
        """Return the row of each element."""
        rows: _Rows = pc.list_parent_indices(self._lists).to_numpy()[elements]
        return rows if self._parents is None else self._parents.rows_of(rows)
