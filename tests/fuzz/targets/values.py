"""Values of states: the parts of an entry, decoded by the kernel with guard pages, and sometimes by its reference."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Final

import numpy as np

from state_processor.backends.formats.key_group_file import CanonicalSource
from state_processor.backends.formats.row_layout import Field as RowField
from state_processor.backends.formats.row_layout import ReferenceDecoder, RowLayout, RowPart
from state_processor.backends.formats.source import FramedRun
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.keyed_splits import managed_handles
from state_processor.serializers import DataInput, read_serializer_snapshot
from state_processor.serializers.codec import Codec
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.kernel.decode.decoder import ColumnDecoder
from state_processor.serializers.kernel.decode.program import DecodeProgram
from state_processor.support.errors import NotCompilableError, StateProcessorError
from tests.fuzz.edits import Edits, Field, Seed
from tests.fuzz.fields import recorded, words_of
from tests.fuzz.targets.base import OPTIONS, Target, WrongRowsError, check, seed_cases
from tests.fuzz.targets.blobs import specimens

_ENTRIES_PER_STATE: Final = 3
_LARGEST: Final = 4096
_BATCH_BYTES: Final = 1 << 15
_FAMILIES: Final = {"kryo": ".kryo", "avro-values": ".avro", "rowdata": ".table"}
"""Classes of values by a package that one of their serializers is of; ``values`` are all others."""


@dataclass(eq=False)
class Entry:
    """How a seed is decoded: its layout, where its value begins, and the programs that were compiled for it."""

    layout: RowLayout
    key_size: int
    key_group: int
    programs: dict[DecodeOptions, DecodeProgram | None] = field(default_factory=dict)

    def program(self, options: DecodeOptions) -> DecodeProgram | None:
        """The kernel's program; ``None`` where only the reference decodes it."""
        if options not in self.programs:
            try:
                self.programs[options] = self.layout.compile(options)
            except NotCompilableError:
                self.programs[options] = None
        return self.programs[options]


class ValueTarget(Target):
    """Entries of one family of serializers."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_seeds(self) -> Iterator[Seed]:
        for seed in entry_seeds():
            if family_of(seed.context.layout) == self.name:
                yield seed

    def run(self, seed: Seed, data: bytes, edits: Edits, rng: random.Random) -> None:
        entry: Entry = seed.context
        options = rng.choice(OPTIONS)
        program = entry.program(options)
        end = min(entry.key_size, len(data))
        table = np.array([[0, end, end, len(data), entry.key_group]], dtype=np.int64)
        buffer = np.frombuffer(data or b"\0", dtype=np.uint8)
        decoder: Any
        if program is None or rng.random() < 0.1:
            decoder = ReferenceDecoder(entry.layout, options)
        else:
            decoder = ColumnDecoder(program, batch_bytes=rng.choice((1, _BATCH_BYTES)))
        rows = sum(map(check, decoder.entries(buffer, table, lambda position, *_: f"offset {position}")))
        rows += sum(map(check, decoder.finish()))
        if rows != 1:
            raise WrongRowsError(f"{rows} rows of one entry")


@cache
def entry_seeds() -> tuple[Seed, ...]:
    """Return entries of all keyed states of canonical snapshots, and the specimens' values."""
    return (*_of_snapshots(), *_of_specimens())


def _of_snapshots() -> Iterator[Seed]:
    known: dict[str, int] = {}
    for case in seed_cases("*canonical*"):
        snapshot = open_snapshot(case.snapshot)
        for operator in snapshot.metadata.operators:
            for handle in managed_handles(operator):
                try:
                    source = handle.open(snapshot)
                except StateProcessorError:
                    continue
                if isinstance(source, CanonicalSource):
                    for meta in source.header.states:
                        yield from _of_state(case.id, source, meta.name, handle.key_groups, known)


def _of_state(case: str, source: CanonicalSource, name: str, groups: Any, known: dict[str, int]) -> Iterator[Seed]:
    every = frozenset({"key", "namespace", "value", "map_key", "map_value", "timestamp", "_key_group", "_key_bytes"})
    try:
        for run in source.runs(name, groups):
            assert isinstance(run, FramedRun)
            layout = run.layout(run.state, every)
            signature = " ".join(str(f.serializer) for p in layout.parts for f in p.fields)
            for buffer, _, entries in run.blocks:
                for begin, key_end, value, end, group in entries.tolist():
                    if known.get(signature, 0) >= _ENTRIES_PER_STATE:
                        return
                    data = bytes(buffer[begin:key_end]) + bytes(buffer[value:end])
                    if len(data) <= _LARGEST:
                        known[signature] = known.get(signature, 0) + 1
                        seed_name = f"{case}: {name} {signature} {known[signature]}"
                        yield _seed(seed_name, data, Entry(layout, key_end - begin, group))
    except StateProcessorError:
        return


def _of_specimens() -> Iterator[Seed]:
    for name, snapshot, value in specimens():
        serializer = read_serializer_snapshot(snapshot).restore_serializer()
        layout = RowLayout((RowPart(1, (RowField("value", serializer),)),), frozenset({"value"}))
        if value and len(value) <= _LARGEST:
            yield _seed(f"specimen {name}", value, Entry(layout, 0, 0))


def _seed(name: str, data: bytes, entry: Entry) -> Seed:
    return Seed(name, data, entry, find_fields=partial(_fields, data, entry))


def _fields(data: bytes, entry: Entry) -> tuple[Field, ...]:
    bounds = {0: (0, entry.key_size), 1: (entry.key_size, len(data))}

    def read() -> None:
        for part in entry.layout.parts:
            begin, end = bounds[part.slot or 0]
            entry.layout.read(DataInput(data, "seed", begin, end), part, {}, DecodeOptions(nanos="string"))

    found = recorded(data, read)
    if family_of(entry.layout) == "rowdata":
        return (*found, *words_of(data, entry.key_size), *words_of(data, entry.key_size + 4, 8))
    return found


def family_of(layout: RowLayout) -> str:
    """Return the class that a layout's values belong to."""
    modules = {type(s).__module__ for p in layout.parts for f in p.fields for s in _tree(f.serializer)}
    return next((name for name, package in _FAMILIES.items() if any(package in m for m in modules)), "values")


def _tree(part: Any, depth: int = 0) -> Iterator[Codec]:
    if depth > 8:
        return
    if isinstance(part, Codec):
        yield part
        for child in vars(part).values():
            yield from _tree(child, depth + 1)
    elif isinstance(part, dict):
        for child in part.values():
            yield from _tree(child, depth + 1)
    elif isinstance(part, list | tuple):
        for child in part:
            yield from _tree(child, depth + 1)
