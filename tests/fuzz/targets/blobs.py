"""Input that is one piece of bytes: ``_metadata``, serializer snapshots, Avro schemas, snappy streams."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from typing import Any, Final

import cramjam
import pyarrow as pa

from state_processor.backends.files import snappy
from state_processor.backends.files.recorded_paths import Relocation
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import read_metadata
from state_processor.backends.read import catalog
from state_processor.serializers import DataInput, read_serializer_snapshot
from state_processor.serializers.kernel.decode.program import DecodeBuilder
from state_processor.support.errors import NotCompilableError, StateProcessorError
from tests.archives import unpacked
from tests.corpus import CORPUS
from tests.fuzz.edits import Edit, Edits, Field, Seed
from tests.fuzz.fields import recorded
from tests.fuzz.targets.base import OPTIONS, Target, external, open_in_memory, seed_cases
from tests.fuzz.targets.samples import avro_samples

_LARGEST: Final = 48 << 10
_PROXY_VERSION: Final = bytes.fromhex("00000002")


class MetadataTarget(Target):
    """``_metadata``: parsed, and shown as tables; sometimes its operators' states are looked for where it says they are."""

    name = "metadata"

    def find_seeds(self) -> Iterator[Seed]:
        for case in seed_cases():
            snapshot, storage = open_in_memory(case)
            data = bytes(storage.read_all(f"{snapshot.directory}/_metadata"))
            if len(data) <= _LARGEST:
                yield Seed(case.id, data, (snapshot, storage), find_fields=partial(recorded, data, partial(read_metadata, data)))

    def run(self, seed: Seed, data: bytes, edits: Edits, rng: random.Random) -> None:
        metadata = read_metadata(data)
        original, storage = seed.context
        directory = original.directory
        snapshot = Snapshot(directory, metadata, storage, Relocation(storage, directory))
        for table in (catalog.operators(snapshot), catalog.handles(snapshot)):
            table.validate(full=True)
        if rng.random() < 0.1:
            catalog.states(snapshot).validate(full=True)


class SnapshotTarget(Target):
    """Serializer snapshots: read, restored, typed and compiled; sometimes they decode the value of the specimen."""

    def __init__(self, name: str, wanted: Callable[[str], bool]) -> None:
        self.name = name
        self._wanted = wanted

    def find_seeds(self) -> Iterator[Seed]:
        for name, snapshot, value in specimens():
            if self._wanted(name):
                fields = partial(recorded, snapshot, partial(read_serializer_snapshot, snapshot))
                yield Seed(name, snapshot, value, find_fields=fields, special=_json_edits(snapshot))

    def run(self, seed: Seed, data: bytes, edits: Edits, rng: random.Random) -> None:
        snapshot = read_serializer_snapshot(data)
        serializer = snapshot.restore_serializer()
        options = rng.choice(OPTIONS)
        str(serializer)
        builder = DecodeBuilder(pa.schema([("value", serializer.arrow_type(options))]), options)
        with suppress(NotCompilableError):
            serializer.emit_decode(builder, builder.column("value"))
        if rng.random() < 0.3:
            serializer.snapshot().to_bytes()
            serializer.read(DataInput(seed.context))


class SnappyTarget(Target):
    """Framed snappy streams."""

    name = "snappy"

    def find_seeds(self) -> Iterator[Seed]:
        for name, plain in {
            "text": b"the quick brown fox " * 100,
            "noise": random.Random(1).randbytes(3000),
            "long": b"abcd" * 40_000,
            "one": b"x",
        }.items():
            data = bytes(cramjam.snappy.compress(plain))
            yield Seed(name, data, find_fields=partial(_chunks, data))
            yield Seed(f"{name} twice", data + data, find_fields=partial(_chunks, data))

    def run(self, seed: Seed, data: bytes, edits: Edits, rng: random.Random) -> None:
        try:
            snappy.chunk_positions(data, "fuzz")
        finally:
            snappy.decompress(data, "fuzz")


def _chunks(data: bytes) -> tuple[Field, ...]:
    offset, found = 0, []
    while offset < len(data):
        found += [Field(offset, 1), Field(offset + 1, 3, "little"), Field(offset + 4, 4)]
        found += [Field(offset + 8, 1), Field(offset + 9, 1)]
        offset += 4 + int.from_bytes(data[offset + 1 : offset + 4], "little")
    return tuple(f for f in found if f.offset + f.size <= len(data))


@cache
def specimens() -> tuple[tuple[str, bytes, bytes], ...]:
    """Return name, serializer snapshot and one value of all specimens that Flink wrote, and of our samples of Avro."""
    roots = [unpacked("serializers")] + ([CORPUS / "official" / "serializers"] if external() else [])
    found = []
    for root in roots:
        for file in sorted(root.rglob("serializer-snapshot")):
            value = file.parent / "test-data"
            snapshot = file.read_bytes().removeprefix(_PROXY_VERSION)
            try:
                read_serializer_snapshot(snapshot).restore_serializer()
            except StateProcessorError:
                continue  # of classes that users have to describe
            found.append((str(file.parent.relative_to(root)), snapshot, value.read_bytes() if value.exists() else b""))
    found += [(f"avro/{name}", snapshot, value) for name, snapshot, value in avro_samples()]
    return tuple(found)


def _json_edits(snapshot: bytes) -> Callable[[random.Random, bytes], Edit] | None:
    """Return edits of an Avro schema as JSON: removed nodes, copied nodes, and odd attributes."""
    begin, end = snapshot.find(b'{"'), snapshot.rfind(b"}") + 1
    try:
        schema = json.loads(snapshot[begin:end])
    except ValueError:
        return None
    if begin < 0:
        return None

    def draw(rng: random.Random, data: bytes) -> Edit:
        edited = copy.deepcopy(schema)
        for _ in range(rng.randint(1, 3)):
            _edit_json(rng, edited)
        text = json.dumps(edited, separators=(",", ":"), ensure_ascii=rng.random() < 0.5)
        return _replace_text(data, begin, end, text)

    return draw


_ODD: Final = (None, True, 0, -1, 1 << 70, 1.5, "", "\0", "\ud800", "int", "string", "no.Such", [], {}, ["null"], "decimal")
_KEYS: Final = (
    "type", "name", "fields", "items", "values", "symbols", "size", "logicalType", "precision", "scale", "namespace", "aliases",
    "default", "order", "java-class",
)  # fmt: skip


def _edit_json(rng: random.Random, root: Any) -> None:
    nodes: list[Any] = []

    def collect(node: Any) -> None:
        if isinstance(node, dict | list):
            nodes.append(node)
            for child in node.values() if isinstance(node, dict) else node:
                collect(child)

    collect(root)
    node = rng.choice(nodes)
    value = copy.deepcopy(rng.choice((rng.choice(_ODD), rng.choice(nodes), rng.choice(nodes))))
    if isinstance(node, list):
        at = rng.randint(0, len(node))
        if node and rng.random() < 0.5:
            at %= len(node)
            node[at : at + 1] = [] if rng.random() < 0.3 else [value]
        else:
            node.insert(at, value)
    elif node and rng.random() < 0.7:
        key = rng.choice(list(node))
        if rng.random() < 0.25:
            del node[key]
        else:
            node[key] = value
    else:
        node[rng.choice(_KEYS)] = value


def _replace_text(data: bytes, begin: int, end: int, text: str) -> Edit:
    """Return the edit that replaces a string of Flink or Java."""
    old = data[begin:end].decode()
    raw = text.encode("utf-8", "surrogatepass")
    if data[begin - 2 : begin] == len(old).to_bytes(2, "big") and len(raw) < 1 << 16:
        return Edit(begin - 2, end - begin + 2, len(raw).to_bytes(2, "big") + raw)
    size = len(_varint(len(old) + 1))
    if data[begin - size : begin] == _varint(len(old) + 1):
        units = text.encode("utf-16-be", "surrogatepass")
        body = b"".join(_varint(int.from_bytes(units[i : i + 2], "big")) for i in range(0, len(units), 2))
        return Edit(begin - size, end - begin + size, _varint(len(units) // 2 + 1) + body)
    return Edit(begin, end - begin, raw[: end - begin].ljust(end - begin))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
