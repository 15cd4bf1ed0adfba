"""Real Flink restores what ``SavepointWriter`` wrote: all of it, with other backends and parallelisms, and goes on with it."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from state_processor.backends.formats.source import Block
from state_processor.backends.metadata.handles import KeyGroupRange
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.keyed_splits import keyed_handles
from state_processor.backends.read.stored_operator import find_operator
from tests.interop.restored_cases import Case, Outcome, check_entries, check_going_on, restored
from tests.interop.selection import asking
from tests.interop.written_cases import CASES, all_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

FORST_VERSIONS = ("2.0.2", "2.3.0")
GOING_ON = ("a job that goes on", "windows that go on")
SYNCHRONOUS = [name for name in CASES if "asynchronous" not in name]
CANONICAL = [name for name in SYNCHRONOUS if not name.endswith(("in steps", "shared files", "that claims"))]
PATCHED = [name for name in SYNCHRONOUS if name.endswith(("updated", "deleted", "sixth state", "four states"))]


BOOTSTRAPPED: dict[Case, dict[str, Any]] = {("bootstrapped", version, None): {"backend": "forst"} for version in FORST_VERSIONS}


@pytest.fixture(scope="module")
def outcomes(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[Case, Outcome]:
    """All cases that are asked for."""
    parameters = [item.callspec.params for item in asking(request, "outcomes")]
    asked = [(p.get("name", "bootstrapped"), p["version"], None) for p in parameters]
    return restored(spark, tmp_path_factory, asked, BOOTSTRAPPED)


@pytest.mark.parametrize(("name", "version"), all_of(CANONICAL))
def test_flink_finds_every_entry(name: str, version: str, outcomes: Mapping[Case, Outcome]) -> None:
    check_entries(outcomes[name, version, None])


@pytest.mark.parametrize("version", FORST_VERSIONS)
def test_forst_takes_no_canonical_savepoint(version: str, outcomes: Mapping[Case, Outcome]) -> None:
    """Flink can't restore full snapshots into ForSt yet, not even its own."""
    *_, refusal = outcomes["bootstrapped", version, None].answers
    assert "UnsupportedOperationException: Not support restoring yet for ForStStateBackend" in refusal["error"]


@pytest.mark.parametrize(("name", "version"), all_of(GOING_ON))
def test_a_restored_job_goes_on(name: str, version: str, outcomes: Mapping[Case, Outcome]) -> None:
    check_going_on(outcomes[name, version, None])


@pytest.mark.parametrize(("name", "version"), all_of(PATCHED))
def test_everything_else_stays_byte_for_byte(name: str, version: str, outcomes: Mapping[Case, Outcome]) -> None:
    """Entries of each state and key group in order, without the keys of the patch."""
    written = outcomes[name, version, None].written
    assert written.base is not None
    before, after = (_digests(path, written.touched) for path in (written.base, written.target))
    shared = before.keys() & after.keys()
    assert len(shared) >= 5
    assert len(before.keys() ^ after.keys()) == (1 if name.endswith(("sixth state", "four states")) else 0)
    assert [state for state in shared if before[state] != after[state]] == []


def _digests(path: Path, touched: Mapping[str, set[str]]) -> dict[str, dict[int, tuple[int, str]]]:
    """For each state and key group the number of entries and a hash of their bytes; without some keys."""
    snapshot = open_snapshot(path)
    operator = find_operator(snapshot, "orders")
    digests: dict[str, dict[int, tuple[int, str]]] = {}
    for handle in keyed_handles(operator, snapshot):
        source = handle.open(snapshot)
        key = source.header.key.restore_serializer()
        for meta in source.header.states:
            gone = tuple(key.serialize(k) for name in ("", meta.name) for k in touched.get(name, ()))
            skipped = 8 if meta.name.startswith("_timer_state/") else 0  # a timer begins with its time
            groups = digests.setdefault(meta.name, {})
            entries: dict[int, list[bytes]] = defaultdict(list)
            for buffer, _, lines in _blocks(source, meta.name, handle.key_groups):
                for start, middle, value, end, group in lines.tolist():
                    if not bytes(buffer[start + skipped : middle]).startswith(gone):
                        entries[group].append(_framed(bytes(buffer[start:middle]), bytes(buffer[value:end])))
            groups |= {g: (len(found), hashlib.sha256(b"".join(found)).hexdigest()) for g, found in entries.items()}
    return digests


def _framed(key: bytes, value: bytes) -> bytes:
    return len(key).to_bytes(4, "big") + key + len(value).to_bytes(4, "big") + value


def _blocks(source: Any, name: str, key_groups: KeyGroupRange) -> Iterator[Block]:
    for run in source.runs(name, key_groups):
        yield from run.blocks
