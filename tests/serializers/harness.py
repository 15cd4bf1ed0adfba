"""What the tests of serializers share: decoding with the kernel, specimens of Flink's own tests, the round of checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from state_processor.serializers import (
    DataInput,
    DecodeOptions,
    TypeSerializer,
    TypeSerializerSnapshot,
    read_serializer_snapshot,
    registry,
)
from state_processor.serializers.avro.scalars import AvroType
from state_processor.serializers.base import CompositeTypeSerializerSnapshot, SimpleSerializer
from state_processor.serializers.codec import Codec
from state_processor.serializers.format_versions import SNAPSHOT_VERSIONS, SnapshotVersions
from state_processor.serializers.kernel.columns import DISCARD
from state_processor.serializers.kernel.decode.decoder import ColumnDecoder
from state_processor.serializers.kernel.decode.program import DecodeBuilder
from state_processor.serializers.kernel.encode.encoder import encode_column
from state_processor.serializers.kernel.interpreter import interpreter
from state_processor.serializers.kernel.opcodes import Op
from state_processor.serializers.traversal import walk
from state_processor.support.errors import InvalidRowError, NotCompilableError, StateProcessorError
from state_processor.support.plugin_table import PLUGINS
from tests.archives import unpacked
from tests.corpus import CORPUS

REPOSITORY = Path(__file__).resolve().parents[2]
OFFICIAL = CORPUS / "official" / "serializers"
PLAIN = DecodeOptions()
PROXY_VERSION = bytes.fromhex("00000002")
"""What Flink's tests write before the versioned snapshot (``TypeSerializerSnapshotSerializationUtil``)."""


def snapshot_versions() -> Mapping[str, SnapshotVersions]:
    """Return the versions of all snapshot classes, with those of plug-ins."""
    for plugin in PLUGINS:
        for packages in plugin.classes[:1]:
            registry._of_flink(packages)
    return SNAPSHOT_VERSIONS


def decode_with_kernel(serializer: Codec, payloads: Sequence[bytes], options: DecodeOptions = PLAIN) -> list[Any]:
    """Every payload as one value of a column, read to its last byte."""
    schema = pa.schema([("value", serializer.arrow_type(options))])
    return [value for batch in _run(serializer, payloads, schema, options) for value in batch.column(0).to_pylist()]


def skip_with_kernel(serializer: Codec, payloads: Sequence[bytes], options: DecodeOptions = PLAIN) -> int:
    """Every payload stepped over, to its last byte; the number of rows."""
    return sum(batch.num_rows for batch in _run(serializer, payloads, pa.schema([]), options))


def _run(serializer: Codec, payloads: Sequence[bytes], schema: pa.Schema, options: DecodeOptions) -> Iterator[pa.RecordBatch]:
    builder = DecodeBuilder(schema, options)
    builder.op(Op.SEEK, part=0)
    serializer.emit_decode(builder, builder.column("value"))
    builder.op(Op.END)
    builder.op(Op.ROW_END)
    decoder = ColumnDecoder(builder.build())
    ends = np.cumsum([len(p) for p in payloads], dtype=np.int64)
    entries = np.zeros((len(payloads), 5), dtype=np.int64)
    entries[1:, 0] = ends[:-1]
    entries[:, 1] = ends
    buffer = np.frombuffer(b"".join(payloads) + b"\0", dtype=np.uint8)
    yield from decoder.entries(buffer, entries, lambda position, *_: f"payloads, offset {position}")
    yield from decoder.finish()


@contextmanager
def interpreted_kernels() -> Iterator[None]:
    """Kernels of the block run in Python."""
    before = interpreter.budget, interpreter.loads
    interpreter.budget, interpreter.loads = 1 << 60, False
    try:
        yield
    finally:
        interpreter.budget, interpreter.loads = before


def compiles(serializer: Codec, options: DecodeOptions = PLAIN) -> bool:
    """Whether the kernel can decode it."""
    try:
        serializer.emit_decode(DecodeBuilder(pa.schema([]), options), DISCARD)
    except NotCompilableError:
        return False
    return True


def check_payloads(serializer: Codec, payloads: Sequence[bytes], options: DecodeOptions = PLAIN) -> list[Any]:
    """Read, write, skip and present agree with one another and with the kernel; the values."""
    check_children(serializer)
    values = []
    for payload in payloads:
        source = DataInput(payload + b"\xa5", end=len(payload))
        values.append(serializer.read(source))
        assert source.at_end()
        assert serializer.serialize(values[-1]) == payload
        skipped = DataInput(payload + b"\xa5")
        serializer.skip(skipped)
        assert skipped.position == len(payload)
        assert serializer.length in (-1, len(payload)) or serializer.length == 0
        assert len(payload) >= serializer.min_size
    shown = pa.array([serializer.to_column(v, options) for v in values], serializer.arrow_type(options)).to_pylist()
    check_encoding(serializer, shown, options)
    if compiles(serializer, options) and payloads:
        assert repr(decode_with_kernel(serializer, payloads, options)) == repr(shown)
        assert skip_with_kernel(serializer, payloads, options) in (0, len(payloads))
        with interpreted_kernels():
            assert repr(decode_with_kernel(serializer, payloads, options)) == repr(shown)
    return values


@cache
def check_children(serializer: Codec) -> None:
    """Check that ``children`` are all that the serializer is made of, and that ``with_children`` makes the same of them again."""
    for part in _all_inside(serializer):
        kind = type(part).__name__
        assert part.with_children(part.children) == part, f"{kind}.with_children(children) is another serializer"
        try:
            snapshot = part.snapshot() if isinstance(part, TypeSerializer) else None
        except StateProcessorError:
            snapshot = None  # it only reads
        if isinstance(snapshot, CompositeTypeSerializerSnapshot):
            of_children = [cast(TypeSerializer, child).snapshot().to_bytes() for child in part.children]
            nested = [inner.to_bytes() for inner in snapshot.nested]
            around = [snapshot.to_bytes()]  # a serializer around another that has the snapshot of that
            assert of_children in (nested, around), f"the children of {kind} are not those in its snapshot"
        reachable = list(walk(part))
        for name, value in vars(part).items():
            for hidden in _serializers_in(value):
                assert _is_reachable(hidden, reachable, set()), f"{kind}.{name} holds {hidden!r}, which is not among its children"


def _is_reachable(part: Codec, reachable: Sequence[Codec], seen: set[int]) -> bool:
    """True for a child, for one that is made of such and of others without configuration, and for types of an Avro schema."""
    if part in reachable or isinstance(part, SimpleSerializer | AvroType) or id(part) in seen:
        return True
    seen.add(id(part))
    inside = [inner for value in vars(part).values() for inner in _serializers_in(value)]
    return bool(inside) and all(_is_reachable(inner, reachable, seen) for inner in inside)


def _all_inside(part: Any, seen: set[int] | None = None) -> Iterator[Codec]:
    """A serializer and all that its attributes hold, however deep."""
    seen = set() if seen is None else seen
    for serializer in _serializers_in(part):
        if id(serializer) not in seen:
            seen.add(id(serializer))
            yield serializer
            for value in vars(serializer).values():
                yield from _all_inside(value, seen)


def _serializers_in(value: Any) -> Iterator[Codec]:
    """The serializers in an attribute, without those inside of them."""
    if isinstance(value, Codec):
        yield value
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _serializers_in(inner)
    elif isinstance(value, Mapping):
        yield from _serializers_in(list(value.values()))
    elif is_dataclass(value):
        yield from _serializers_in([getattr(value, field.name) for field in fields(value)])


def check_encoding(serializer: Codec, shown: Sequence[Any], options: DecodeOptions = PLAIN) -> None:
    """The kernel writes the same bytes as Python, and reading them gives the same column.

    Where a column does not tell all (both sides of an Either are null, …) both refuse. Times of values with TTL are no part of
    the column that is written.
    """
    if options.ttl:
        return
    told: list[tuple[Any, bytes]] = []
    for value in shown:
        try:
            told.append((value, serializer.serialize(serializer.from_column(value))))
        except ValueError:
            with pytest.raises(InvalidRowError):
                encode_column(serializer, pa.array([value], serializer.arrow_type(options)))
    column = pa.array([value for value, _ in told], serializer.arrow_type(options))
    payloads = [payload for _, payload in told]
    assert list(encode_column(serializer, column)) == payloads
    with interpreted_kernels():
        assert list(encode_column(serializer, column)) == payloads
    again = [serializer.to_column(serializer.deserialize(payload), options) for _, payload in told]
    assert repr(pa.array(again, column.type).to_pylist()) == repr(column.to_pylist())


def check_codec(serializer: TypeSerializer, values: Sequence[Any], options: DecodeOptions = PLAIN) -> None:
    """Values survive writing and reading, by every path."""
    payloads = [serializer.serialize(v) for v in values]
    assert repr(check_payloads(serializer, payloads, options)) == repr(list(values))
    check_snapshot(serializer.snapshot())


def check_snapshot(snapshot: TypeSerializerSnapshot) -> None:
    """The snapshot can be read again, and restores a serializer that has the same one."""
    data = snapshot.to_bytes()
    again = read_serializer_snapshot(data)
    assert again.to_bytes() == data
    assert again.restore_serializer().snapshot().to_bytes() == data


@dataclass(frozen=True)
class Specimen:
    """A serializer snapshot and one value, written by Flink."""

    name: str
    snapshot: bytes
    data: bytes
    origin: str = ""

    def __str__(self) -> str:
        return self.origin + self.name


def specimens(module: str, pattern: str) -> list[Specimen]:
    """Specimens of one module of Flink whose directory matches: own ones, and ones of the external corpus."""
    own = sorted(unpacked("serializers").glob(f"*/{module}/{pattern}"))
    return _specimens(own) + _specimens(sorted(OFFICIAL.glob(f"{module}/{pattern}")), "corpus:")


def specimen_modules() -> list[str]:
    """The modules of Flink with specimens; ``others`` has specimens that Flink's own tests lack.

    Specimens of Gelly are in the tests of its plug-in.
    """
    names = {d.name for d in (*unpacked("serializers").glob("*/*"), *OFFICIAL.glob("*"))}
    return sorted(name for name in names if not name.startswith("flink-gelly"))


def _specimens(directories: Sequence[Path], origin: str = "") -> list[Specimen]:
    return [
        Specimen(
            d.name, (d / "serializer-snapshot").read_bytes().removeprefix(PROXY_VERSION), (d / "test-data").read_bytes(), origin
        )
        for d in directories
        if (d / "test-data").exists()
    ]


def check_specimen(specimen: Specimen, options: DecodeOptions = PLAIN) -> Any:
    """Snapshot and value read to their last byte and rewritten identically; the value."""
    snapshot = read_serializer_snapshot(specimen.snapshot, specimen.name)
    assert snapshot.to_bytes() == specimen.snapshot
    serializer = snapshot.restore_serializer()
    return check_payloads(serializer, [specimen.data], options)[0]
