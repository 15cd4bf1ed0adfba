"""Keyed state of packed snapshots and of the external corpus, written natively for a backend: real Flink restores it.

Flink restores every entry and timer, with the same or with another parallelism. The job continues, and its incremental
checkpoint has the same content. ``STATE_PROCESSOR_EVERY_CASE=1`` tries all cases with all backends and both parallelisms in an
hour; otherwise a sample runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pytest

from state_processor.backends.metadata.handles import IncrementalRemoteKeyedStateHandle
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.stored_operator import StoredOperator
from state_processor.backends.state.descriptions import StateDescription
from state_processor.backends.write.assembly import metadata_version
from state_processor.backends.write.keyed_formats import HeapFormat, KeyedFormat, StoreFormat
from state_processor.types.identifier import OperatorIdentifier
from tests import corpus
from tests.interop import flink
from tests.interop.rewriting import rewrite
from tests.interop.selection import EVERY_CASE, asking, in_turn
from tests.interop.test_corpus_rewritten import (
    FIRST_PROFILE,
    PARALLELISM,
    RESTORED,
    UNTYPED_STATES,
    expected_operators,
    first_difference,
    named,
    read,
    restorer,
)

pytestmark = pytest.mark.interop

FORMATS: Final[dict[str, KeyedFormat]] = {
    "rocksdb": StoreFormat("rocksdb"),
    "forst": StoreFormat("forst"),
    "hashmap": HeapFormat(),
}
PARALLELISMS: Final = (PARALLELISM, 2)
"""The parallelism that was written, and another."""
SAMPLE: Final = {
    "1.20.5/keyed-all-hashmap-canonical": ("rocksdb", "hashmap"),
    "1.20.5/windows-kinds-rocksdb-canonical": ("rocksdb",),
    "2.3.0/keyed-all-rocksdb-heap-timers-incremental": ("rocksdb", "forst"),
    "2.3.0/big-list-rocksdb-canonical": ("forst",),
}
TOGETHER: Final = 64
"""Cases of one request to Flink: it keeps their content, as text, until all are answered."""
SETTINGS: Final = {"execution.checkpointing.incremental": "true", "state.backend.incremental": "true"}


@dataclass(frozen=True)
class Native:
    """A case, and the backend whose native format it is written in."""

    case: corpus.Case
    backend: str

    def __str__(self) -> str:
        return f"{self.case.id} to-{self.backend}"

    @property
    def jvm(self) -> tuple[str, str | None]:
        """The version of Flink that restores it, and classes that take the place of others."""
        return restorer(self.case), "profile1" if named(self.case, (FIRST_PROFILE,)) else None

    @cached_property
    def operators(self) -> list[dict[str, Any]]:
        """What Flink has to find."""
        return expected_operators(self.case)

    @property
    def has_keyed_state(self) -> bool:
        return any(operator.get("key_type") for operator in self.operators)

    def write(self, target: Path) -> None:
        """Decode and encode each value, and write natively."""

        def carried(state: StateDescription) -> bool:
            return restorer(self.case)[0] == "1" and state.name in UNTYPED_STATES

        version = metadata_version(restorer(self.case))
        rewrite(self.case.snapshot, target, PARALLELISM, version, carried, FORMATS[self.backend])

    def requests(self, target: Path, directory: Path) -> list[dict[str, Any]]:
        """What to ask of Flink: to restore it, and to take a checkpoint then."""
        size = self.case.facts["max_parallelism"]
        return [
            flink.request(
                self.operators,
                target,
                backend=self.backend,
                parallelism=min(parallelism, size),
                max_parallelism=size,
                settings=SETTINGS,
                snapshots=["incremental"],
                snapshots_to=directory,
            )
            for parallelism in in_turn(PARALLELISMS, NATIVES.index(self))
        ]


def natives() -> Iterator[Native]:
    """Cases with keyed state, by backend; ForSt came with Flink 2."""
    for case in RESTORED:
        backends = tuple(FORMATS) if EVERY_CASE else SAMPLE.get(case.name, ())
        for backend in backends:
            native = Native(case, backend)
            if native.has_keyed_state and (backend != "forst" or restorer(case)[0] == "2"):
                yield native


NATIVES: Final = list(natives())


@pytest.fixture(scope="module")
def answers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, list[dict[str, Any]]]:
    """What Flink found in each case, or what became of writing it; one JVM for many cases, while others are written."""
    groups: dict[tuple[str, str | None], list[Native]] = defaultdict(list)
    for item in asking(request, "answers"):
        native = item.callspec.params["native"]
        groups[native.jvm].append(native)
    portions = [(jvm, group[i : i + TOGETHER]) for jvm, group in groups.items() for i in range(0, len(group), TOGETHER)]
    found: dict[str, list[dict[str, Any]]] = {}
    with ThreadPoolExecutor(1) as jvm:
        running = []
        for (version, instead), group in portions:
            requests: dict[str, list[dict[str, Any]]] = {}
            for native in group:
                directory = tmp_path_factory.mktemp("natively")
                try:
                    native.write(directory / "savepoint")
                except Exception as problem:
                    found[str(native)] = [{"error": repr(problem)}]
                    continue
                requests[str(native)] = native.requests(directory / "savepoint", directory)
            asked = [request for own in requests.values() for request in own]
            running.append((requests, jvm.submit(flink.restore, version, asked, instead, timeout=7200)))
        for requests, future in running:
            answered = iter(future.result())
            found |= {name: [next(answered) for _ in own] for name, own in requests.items()}
    return found


def keyed_rows(snapshot_directory: str | Path, operators: list[dict[str, Any]]) -> dict[str, list[str]]:
    """The rows of keyed states and timers as text, by operator and state; operators without uid get another hash in a job."""
    snapshot = open_snapshot(snapshot_directory)
    uids = {OperatorIdentifier.for_uid(o["uid"]).uid_hash: o["uid"] for o in operators if o.get("uid")}
    rows = {}
    for operator in snapshot.metadata.operators:
        stored = StoredOperator(snapshot, operator)
        for name, (state, *_) in stored.states().items():
            if state.is_keyed:
                found = [corpus.sort_key(sorted_maps(row)) for row in read(stored, name)]
                rows[f"{uids.get(operator.operator_id)}/{name}"] = sorted(found)
    return rows


def sorted_maps(value: Any) -> Any:
    """A value with maps (lists of pairs) in a fixed order: Java's order changes."""
    if isinstance(value, dict):
        return {name: sorted_maps(part) for name, part in value.items()}
    if isinstance(value, list):
        parts = [sorted_maps(part) for part in value]
        return sorted(parts, key=corpus.sort_key) if value and isinstance(value[0], tuple) else parts
    return tuple(map(sorted_maps, value)) if isinstance(value, tuple) else value


@pytest.mark.parametrize("native", NATIVES, ids=map(str, NATIVES))
def test_flink_restores_and_goes_on(native: Native, answers: Mapping[str, list[dict[str, Any]]]) -> None:
    expected = flink.entries(native.operators)
    rows = keyed_rows(native.case.snapshot, native.operators)
    for answer in answers[str(native)]:
        assert "error" not in answer, answer["error"][:3000]
        found = flink.entries(answer["operators"])
        assert found.keys() == expected.keys()
        differences = [
            first_difference(state, found[state], expected[state]) for state in expected if found[state] != expected[state]
        ]
        assert differences == []
        checkpoint = answer["snapshots"]["incremental"]
        handles = [s.managed_keyed for o in open_snapshot(checkpoint).metadata.operators for s in o.subtasks]
        stores = any(isinstance(handle, IncrementalRemoteKeyedStateHandle) for handle in handles)
        assert stores == (native.backend != "hashmap")
        after = keyed_rows(checkpoint, native.operators)
        assert {state for state in rows if after.get(state, []) != rows[state]} == set()
