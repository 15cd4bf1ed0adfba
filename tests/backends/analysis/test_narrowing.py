"""Differences of changelogs above stores that share tables: by the keys that may differ, and in full."""

from __future__ import annotations

import random
import shutil
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from state_processor.backends.formats import changelog_log as log
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.metadata.snapshot_metadata import read_metadata, write_metadata
from state_processor.backends.read.keyed_splits import managed_handles
from state_processor.backends.read.stored_operator import find_operator
from state_processor.serializers.core.basic import StringSerializer
from tests.backends.changelogs import Log
from tests.corpus import FIXTURES

NATIVE = FIXTURES / "2.3.0" / "orders-rocksdb-native" / "savepoint"
TEXT = StringSerializer()
KEYS = ["amelia", "aoife", "chidi", "clara", "elif", "emre", *(f"newcomer {i}" for i in range(20))]


def whole(*elements: str) -> bytes:
    return struct.pack(">i", len(elements)) + b"".join(map(TEXT.serialize, elements))


def change(changes: Log, rng: random.Random) -> None:
    key, name = rng.choice(KEYS), rng.choice(("scarf", "mug", "tray"))
    match rng.randrange(6):
        case 0:
            changes.change("total", log.CLEAR, key)
        case 1:
            changes.change("total", log.SET, key, struct.pack(">q", rng.randrange(9)))
        case 2:
            changes.change("history", log.ADD, key, whole(name, "again"))
        case 3:
            changes.change("history", log.SET, key, whole(name))
        case 4:
            changes.change("items", log.ADD_OR_UPDATE_ELEMENT, key, TEXT.serialize(name) + struct.pack(">q", rng.randrange(9)))
        case _:
            changes.change("items", log.REMOVE_ELEMENT, key, TEXT.serialize(name))


def put_on_top(snapshot: Path, seeds: list[int]) -> None:
    """Put changes above the keyed state of a snapshot: those of each seed."""
    opened = open_snapshot(snapshot, allow_paths=[str(snapshot.parent)])
    source = next(managed_handles(find_operator(opened, "orders"))).open(opened)
    changes = Log()
    for meta in source.header.states:
        changes.announce(meta)
    for seed in seeds:
        rng = random.Random(seed)
        for _ in range(12):
            change(changes, rng)
    metadata = read_metadata((snapshot / "_metadata").read_bytes())

    def topped(subtask: Any) -> Any:
        base = subtask.managed_keyed
        if base is None:
            return subtask
        inner = h.ChangelogStateBackendHandle(14, base.key_groups, 0, (base,), (changes.handle(base.key_groups),), 1, 1, "id")
        return replace(subtask, managed_keyed=inner)

    operators = tuple(replace(o, subtasks=tuple(map(topped, o.subtasks))) for o in metadata.operators)
    (snapshot / "_metadata").write_bytes(write_metadata(replace(metadata, operators=operators)))


def rows(old: Path, new: Path, state: str, full: bool) -> list[str]:
    batches = sp.arrow.diff(old, new, "orders", state, full, allow_paths=[str(old.parent)])
    return sorted(repr(row) for batch in batches for row in batch.to_pylist())


@pytest.mark.parametrize("seed", range(4))
def test_random_changes(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    old, new = tmp_path / "old", tmp_path / "new"
    shutil.copytree(NATIVE, old)
    writer = sp.arrow.SavepointWriter.from_existing(old)
    writer.update_keyed_state("orders", "total", [{"key": key, "value": rng.randrange(9)} for key in rng.sample(KEYS, 6)])
    writer.update_keyed_state("orders", "history", [{"key": key, "value": ["materialized"]} for key in rng.sample(KEYS, 6)])
    writer.write(new, format="native", backend="rocksdb", share_files=True)
    put_on_top(old, [seed])
    put_on_top(new, [seed, seed + 100] if seed % 2 else [seed + 100])
    summary = {r["state_name"]: r for r in sp.arrow.diff_summary(old, new, "orders", allow_paths=[str(tmp_path)]).to_pylist()}
    found = 0
    for state in ("total", "history", "items", "profile"):
        incremental = rows(old, new, state, full=False)
        assert incremental == rows(old, new, state, full=True)
        assert summary[state]["method"] == "incremental"
        found += len(incremental)
    assert found > 5
