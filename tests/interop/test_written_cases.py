"""Real Flink restores what ``SavepointWriter`` wrote: all of it, with other backends and parallelisms, and goes on with it."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import flink
import pytest
from expectations import repeated
from selection import asking
from written_cases import CASES, Workshop, Written, all_of

from state_processor.backends.formats.entry_runs import Block
from state_processor.backends.metadata.handles import KeyGroupRange
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.keyed_handles import keyed_handles
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.state_access import open_state
from state_processor.backends.read.state_listing import find_operator
from tests import corpus

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

FORST_VERSIONS = ("2.0.2", "2.3.0")
GOING_ON = ("a job that goes on", "windows that go on")
PATCHED = [name for name in CASES if name.endswith(("updated", "deleted", "sixth state", "four states"))]
TIMER_PREFIXES = {"EVENT_TIMER": "_timer_state/event_", "PROCESSING_TIMER": "_timer_state/processing_"}


@dataclass(frozen=True)
class Outcome:
    """A case, and what Flink answered to each of its requests."""

    written: Written
    answers: list[dict[str, Any]]


@pytest.fixture(scope="module")
def outcomes(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[tuple[str, str], Outcome]:
    """All cases that are asked for; one JVM restores those of a version, while those of the next are written."""
    asked: dict[str, dict[str, None]] = defaultdict(dict)
    for item in asking(request, "outcomes"):
        parameters = item.callspec.params
        asked[parameters["version"]][parameters.get("name", "bootstrapped")] = None
    running: list[tuple[str, list[tuple[str, Written, int]], Future[list[dict[str, Any]]]]] = []
    with ThreadPoolExecutor(1) as jvm:
        for version, names in asked.items():
            workshop = Workshop(spark, version, tmp_path_factory.mktemp(version))
            requests: list[dict[str, Any]] = []
            cases = []
            for name in names:
                written = workshop.written(name)
                own = list(written.requests())
                if name == "bootstrapped" and version in FORST_VERSIONS:
                    own.append(flink.request(written.operators, written.target, backend="forst"))
                requests += own
                cases.append((name, written, len(own)))
            running.append((version, cases, jvm.submit(flink.restore, version, requests)))
        found = {}
        for version, cases, future in running:
            answers = iter(future.result())
            for name, written, count in cases:
                found[name, version] = Outcome(written, [next(answers) for _ in range(count)])
    return found


@pytest.mark.parametrize(("name", "version"), all_of(CASES))
def test_flink_finds_every_entry(name: str, version: str, outcomes: Mapping[tuple[str, str], Outcome]) -> None:
    outcome = outcomes[name, version]
    wanted = flink.entries(outcome.written.operators)
    assert sum(map(len, wanted.values())) > 50
    for (backend, parallelism), answer in zip(outcome.written.restores, outcome.answers, strict=False):
        where = f"{backend}, parallelism {parallelism}"
        assert "error" not in answer, f"{where}: {answer['error'][:3000]}"
        found = flink.entries(answer["operators"])
        assert {state: found[state] for state in wanted if found[state] != wanted[state]} == {}, where


@pytest.mark.parametrize("version", FORST_VERSIONS)
def test_forst_takes_no_canonical_savepoint(version: str, outcomes: Mapping[tuple[str, str], Outcome]) -> None:
    """Whoever wrote it: Flink has no restore of full snapshots into ForSt yet."""
    *_, refusal = outcomes["bootstrapped", version].answers
    assert "UnsupportedOperationException: Not support restoring yet for ForStStateBackend" in refusal["error"]


@pytest.mark.parametrize(("name", "version"), all_of(GOING_ON))
def test_a_restored_job_goes_on(name: str, version: str, outcomes: Mapping[tuple[str, str], Outcome]) -> None:
    """It sees and changes its state, timers and windows fire, and its next savepoint holds what comes of it."""
    outcome = outcomes[name, version]
    assert outcome.written.fired
    for (backend, parallelism), answer in zip(outcome.written.restores, outcome.answers, strict=True):
        assert "error" not in answer, f"{backend}: {answer['error'][:3000]}"
        assert sorted(map(_text, answer["fired"])) == sorted(map(_text, outcome.written.fired)), backend
        # Each subtask of such a job keeps all of what it got of union state.
        finally_ = repeated(outcome.written.finally_, "UNION_LIST", parallelism)
        assert list(_differences(Path(answer["savepoint"]), finally_)) == [], backend


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _differences(savepoint: Path, operators: list[dict[str, Any]]) -> Iterator[str]:
    """What our reader finds in a savepoint that is not expected."""
    snapshot = open_snapshot(savepoint)
    options = ReadOptions(flatten=False, nanos="string", row_kind=True)
    for operator in operators:
        found = find_operator(snapshot, operator["uid"])
        for state in operator["states"]:
            reader = open_state(snapshot, found, TIMER_PREFIXES.get(state["kind"], "") + state["name"], options=options)
            rows = [row for split in reader.splits() for batch in reader.read(split) for row in batch.to_pylist()]
            if state["kind"] in ("OPERATOR_LIST", "UNION_LIST"):
                elements = [corpus.as_expected(row["value"], state["entries"][0]) for row in rows]
                if corpus.bag(elements) != corpus.bag(state["entries"]):
                    yield f"{state['name']}: {elements}"
            else:
                yield from (f"{state['name']}: {problem}" for problem in corpus.differences(rows, state))


@pytest.mark.parametrize(("name", "version"), all_of(PATCHED))
def test_everything_else_stays_byte_for_byte(name: str, version: str, outcomes: Mapping[tuple[str, str], Outcome]) -> None:
    """Entries of each state and key group, in their order, but for those of keys that the patch is about."""
    written = outcomes[name, version].written
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
