"""Row layouts: the kernel and its reference return the same rows and the same errors."""

from __future__ import annotations

import struct
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from state_processor.backends.formats.heap import HeapSource
from state_processor.backends.formats.key_group_file import CanonicalSource
from state_processor.backends.formats.row_layout import (
    KEY_BYTES_COLUMN,
    KEY_GROUP_COLUMN,
    Field,
    ReferenceDecoder,
    RowLayout,
    RowPart,
    suffix_size,
)
from state_processor.backends.formats.source import EntryLocator, ScanRequest
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.keyed_splits import managed_handles
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.kernel.decode.decoder import ColumnDecoder
from state_processor.support.errors import CorruptSnapshotError, ForeignCodeError, NotCompilableError, UndecodableValueError
from tests import corpus
from tests.backends.state_files import INT, LONG, STRING, VOID, long, string
from tests.interop.selection import covering

LAYOUT = RowLayout(
    (
        RowPart(0, (Field("key", STRING, suffixed=True), Field("namespace", STRING, suffixed=True), Field(None, INT)), (0, 2)),
        RowPart(1, (Field("value", LONG),)),
    ),
    frozenset({"key", "namespace", "value", KEY_GROUP_COLUMN, KEY_BYTES_COLUMN}),
)
COLUMNS = ["key", "namespace", "value", KEY_GROUP_COLUMN, KEY_BYTES_COLUMN]


class Exotic(NumberSerializer):
    """An int that the kernel can't decode: negative ones are refused, large ones do not fit the column."""

    def __init__(self) -> None:
        super().__init__("INT")

    def read(self, source: Any) -> Any:
        value = source.read_int()
        if value < 0:
            raise ValueError("negative")
        return value << 40 if value == 0x7FFFFFFF else value

    def emit_decode(self, builder: Any, column: Any) -> None:
        raise NotCompilableError(str(self))


def decoders(layout: RowLayout, options: DecodeOptions | None = None) -> list[Any]:
    options = options or DecodeOptions()
    return [ColumnDecoder(layout.compile(options)), ReferenceDecoder(layout, options, batch_rows=3)]


def framed(*rows: tuple[bytes, bytes, int]) -> tuple[np.ndarray, np.ndarray]:
    data, entries = b"", []
    for key, value, group in rows:
        at = len(data)
        data += key + value
        entries.append((at, at + len(key), at + len(key), len(data), group))
    return np.frombuffer(data, dtype=np.uint8), np.array(entries, dtype=np.int64).reshape(-1, 5)


def site(position: int, entry: int, row_start: int) -> str:
    return f"at {position} of entry {entry} from {row_start}"


def row(key: str, namespace: str, value: int, group: int) -> tuple[tuple[bytes, bytes, int], dict[str, Any]]:
    raw = b"".join(string(t) + bytes([len(string(t))]) for t in (key, namespace))
    expected = {"key": key, "namespace": namespace, "value": value, KEY_GROUP_COLUMN: group, KEY_BYTES_COLUMN: raw}
    return (raw + b"\0\0\0\7", long(value), group), expected


ROWS = [row("a", "n", 1, 5), row("", "", -1, 6), row("key" * 20, "x", 2**40, 0), row("b", "", 0, 127)]


@pytest.mark.parametrize("wanted", [COLUMNS, [], ["value"], ["key", KEY_BYTES_COLUMN], ["namespace", KEY_GROUP_COLUMN]])
def test_framed_rows(wanted: list[str]) -> None:
    layout = RowLayout(LAYOUT.parts, frozenset(wanted))
    buffer, entries = framed(*(r for r, _ in ROWS))
    for decoder in decoders(layout):
        batches = [*decoder.entries(buffer, entries, site), *decoder.finish()]
        assert all(b.schema == layout.schema(DecodeOptions()) for b in batches)
        assert [r for b in batches for r in b.to_pylist()] == ([{n: e[n] for n in wanted} for _, e in ROWS] if wanted else [])


def test_the_schema_keeps_the_order_of_the_bytes() -> None:
    assert LAYOUT.schema(DecodeOptions()).names == COLUMNS


@pytest.mark.parametrize("length", [0, 1, 255, 256, 65535, 65536, 2**24])
def test_suffix_sizes(length: int) -> None:
    assert suffix_size(length) == len(length.to_bytes(max(1, -(-length.bit_length() // 8)), "little"))


def test_rows_without_frames() -> None:
    fields = (Field("namespace", VOID), Field("key", STRING), Field("value", LONG))
    layout = RowLayout((RowPart(None, fields, (1, 2)),), frozenset({"key", "value", KEY_GROUP_COLUMN, KEY_BYTES_COLUMN}))
    data = b"".join(b"\0" + string(k) + long(v) for k, v in (("a", 1), ("bc", 2), ("", 3), ("d", 4)))
    buffer = np.frombuffer(b"head" + data + b"tail", dtype=np.uint8)
    for decoder in decoders(layout):
        batches = [*decoder.rows(buffer, 4, 4, site, 9), *decoder.finish()]
        rows = [r for b in batches for r in b.to_pylist()]
        assert decoder.position == 4 + len(data)
        assert [(r["key"], r["value"], r[KEY_GROUP_COLUMN], r[KEY_BYTES_COLUMN]) for r in rows] == [
            ("a", 1, 9, string("a")), ("bc", 2, 9, string("bc")), ("", 3, 9, string("")), ("d", 4, 9, string("d")),
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("damaged", "entry", "problem"),
    [
        ((ROWS[1][0][0], long(1) + b"x", 0), 1, "left over"),
        ((ROWS[1][0][0] + b"x", long(1), 0), 1, "left over"),
        ((ROWS[1][0][0], long(1)[:-1], 0), 1, "announced|end inside"),
        ((b"\x7fz", long(1), 0), 1, "announced|damaged"),
        ((string("a") + b"\2", long(1), 0), 1, "announced|damaged"),
    ],
)
def test_damaged_entries(damaged: tuple[bytes, bytes, int], entry: int, problem: str) -> None:
    buffer, entries = framed(ROWS[0][0], damaged)
    for decoder in decoders(LAYOUT):
        with pytest.raises(CorruptSnapshotError, match=rf"^at \d+ of entry {entry} from {entries[1, 0]}: .*({problem})"):
            list(decoder.entries(buffer, entries, site))


def exotic_layout(first: TypeSerializer = STRING) -> RowLayout:
    return RowLayout((RowPart(None, (Field("key", first), Field("value", Exotic()))),), frozenset({"key", "value"}))


def test_what_cannot_be_compiled_is_decoded_in_python() -> None:
    layout = exotic_layout()
    decoder = layout.decoder(DecodeOptions())
    assert isinstance(decoder, ReferenceDecoder)
    buffer = np.frombuffer(string("a") + b"\0\0\0\1" + string("b") + b"\0\0\0\2", dtype=np.uint8)
    batches = [*decoder.rows(buffer, 0, 2, site), *decoder.finish()]
    assert [r for b in batches for r in b.to_pylist()] == [{"key": "a", "value": 1}, {"key": "b", "value": 2}]
    assert isinstance(RowLayout((RowPart(None, (Field("key", STRING),)),), frozenset()).decoder(DecodeOptions()), ColumnDecoder)


@pytest.mark.parametrize(
    ("value", "error", "problem"),
    [
        (struct.pack(">i", -1), ForeignCodeError, "Exotic.read failed with ValueError: negative"),
        (b"\0\0", CorruptSnapshotError, "int of 4 bytes announced, 2 left"),
        (struct.pack(">i", 0x7FFFFFFF), UndecodableValueError, "expected int32 in the column 'value'"),
    ],
)
def test_the_reference_names_the_row_only_when_it_fails(value: bytes, error: type, problem: str) -> None:
    layout = exotic_layout()
    buffer = np.frombuffer(string("good") + b"\0\0\0\1" + string("bad") + value, dtype=np.uint8)
    asked: list[int] = []
    find = EntryLocator("context", layout, buffer, 100)

    def where(position: int, entry: int, row_start: int) -> str:
        asked.append(row_start)
        return find(position, entry, row_start)

    decoder = layout.decoder(DecodeOptions())
    with pytest.raises(error, match=rf"^context, offset 1\d\d, key 'bad'.*: .*{problem}"):
        list(chain(decoder.rows(buffer, 0, 2, where), decoder.finish()))
    assert asked == [9]


def test_the_words_for_a_place_survive_any_damage() -> None:
    class Explosive(StringSerializer):
        def read(self, source: Any) -> Any:
            raise RecursionError("deep")

    layout = exotic_layout(Explosive())
    buffer = np.frombuffer(bytes(8), dtype=np.uint8)
    assert EntryLocator("context", layout, buffer, 0)(3, -1, 0) == "context, offset 3"
    with pytest.raises(ForeignCodeError, match=r"context, offset 0: .*Explosive\.read failed with RecursionError: deep"):
        list(layout.decoder(DecodeOptions()).rows(buffer, 0, 1, EntryLocator("context", layout, buffer, 0)))


def test_rows_of_no_file_are_named_by_their_bytes() -> None:
    layout = RowLayout((RowPart(0, (Field("key", STRING),)), RowPart(1, (Field("value", LONG),))), frozenset({"key", "value"}))
    buffer, entries = framed((string("k"), long(1)[:-1], 0))
    with pytest.raises(CorruptSnapshotError, match=r"^context, entry '026b', key 'k': the bytes end inside a value"):
        list(layout.decoder(DecodeOptions()).entries(buffer, entries, EntryLocator("context", layout, buffer, None, entries)))


def test_long_values_are_shortened_in_messages() -> None:
    layout = RowLayout((RowPart(0, (Field("key", STRING),)), RowPart(1, (Field("value", LONG),))), frozenset({"key", "value"}))
    buffer, entries = framed((string("k" * 5000), b"", 0))
    with pytest.raises(CorruptSnapshotError) as caught:
        list(layout.decoder(DecodeOptions()).entries(buffer, entries, EntryLocator("context", layout, buffer, 0, entries)))
    assert len(str(caught.value)) < 300


# Real snapshots


CASES = [
    c
    for c in corpus.all_cases()
    if c.facts.get("format") in ("canonical", "checkpoint", "native")
    and (c.facts.get("format") == "canonical" or c.facts.get("backend") == "hashmap")
    and c.directory.name.startswith(("keyed-all", "windows", "sql-", "cep-", "keyed-avro"))
    and "changelog" not in c.directory.name
]


@pytest.mark.parametrize("case", covering(CASES, lambda c: c.traits), ids=lambda c: c.id)
def test_the_kernel_decodes_as_its_reference_does(case: corpus.Case) -> None:
    snapshot = open_snapshot(case.snapshot)
    options = DecodeOptions("string", row_kind=True, ttl=True)
    compared = 0
    for operator in snapshot.metadata.operators:
        for handle in managed_handles(operator):
            source = handle.open(snapshot)
            if not isinstance(source, (CanonicalSource, HeapSource)):
                continue
            for meta in source.header.states:
                compared += compare(source, meta.name, handle.key_groups, options)
    assert compared


def compare(source: CanonicalSource | HeapSource, name: str, key_groups: Any, options: DecodeOptions) -> int:
    state = source.describe(name)
    assert state is not None
    [run] = source.runs(name, key_groups)
    parts = run.layout(state, frozenset()).parts
    layout = RowLayout(parts, frozenset({*(f.name for p in parts for f in p.fields if f.name), KEY_GROUP_COLUMN}))
    request = ScanRequest(name, layout.columns, options, key_groups)
    try:
        ColumnDecoder(layout.compile(options))
    except NotCompilableError:
        return 0
    kernel = table(source.scan(request), layout, options)
    reference = ReferenceDecoder(layout, options)
    found = []
    if isinstance(source, CanonicalSource):
        for buffer, base, entries in source.blocks(name, key_groups):
            found += reference.entries(buffer, entries, EntryLocator("", layout, buffer, base, entries))
    else:
        for s in source.sections(name, key_groups):
            found += reference.rows(s.buffer, s.position, s.count, EntryLocator("", layout, s.buffer, s.base), s.key_group)
    plain = table([*found, *reference.finish()], layout, options)
    assert kernel == plain, name
    return len(kernel)


def table(batches: Any, layout: RowLayout, options: DecodeOptions) -> list[str]:
    """Rows as text, so that NaN equals NaN."""
    return [repr(r) for r in pa.Table.from_batches(list(batches), layout.schema(options)).to_pylist()]
