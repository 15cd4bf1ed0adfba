"""Savepoints of Flink 1.x, migrated, are restored by real Flink 2.x with every entry in place."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from state_processor import serializers
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.keyed_splits import keyed_handles
from state_processor.backends.write.staging import Staging
from state_processor.serializers import register_kryo_class
from state_processor.write.build import SavepointBuild
from state_processor.write.tasks.local_engine import LocalEngine
from tests import corpus
from tests.interop import flink, flink_jars
from tests.interop import test_corpus_rewritten as rewritten
from tests.interop.selection import covering

pytestmark = pytest.mark.interop

VERSION = "2.3.0"
FIXTURES = sorted((flink_jars.ROOT / "tests" / "fixtures" / "migration").glob("*/*"))
SAME_JOBS = tuple(f"1.20.5/{name}-rocksdb-canonical" for name in ("keyed-all", "evolution-v1", "windows", "windows-kinds"))
"""Cases that Flink 2.3 wrote as well, with the same values."""
LINE = "io.stateprocessor.interop.Line"
T = sp.Types
LINES = T.LIST(T.POJO(LINE, {"product": T.STRING(), "pieces": T.INT(), "remarks": T.LIST(T.STRING())}))
OF_BASKETS = {"lines": LINES, "never": T.LIST(T.INT())}
TYPES = {
    "baskets": {
        **dict.fromkeys(("basket", "history", "by-day", "draft"), OF_BASKETS),
        "pair": {f"f1.{path}": type_ for path, type_ in OF_BASKETS.items()},
    },
    "lists": {"open": OF_BASKETS, "samples": OF_BASKETS},
}
"""What the values of the fixtures do not tell: whether a class is a POJO, and of what type lists are that are always empty."""

OLD = [case for case in rewritten.ALL if case.name.startswith("1.")]
RESTORED = [case for case in rewritten.RESTORED if case in OLD]
LISTED = [
    case
    for case in OLD
    if rewritten.named(case, rewritten.CARRIED_CASES)
    and not rewritten.named(case, rewritten.PYTHON_CASES)
    and (case.directory / "flink_states.json").exists()
]


@pytest.fixture(scope="module", autouse=True)
def described() -> Iterator[None]:
    """The classes of the fixtures that Kryo wrote are known in this module only."""
    with serializers.registrations():
        register_kryo_class(LINE, {"product": "java.lang.String", "pieces": "int", "remarks": "java.util.List<java.lang.String>"})
        register_kryo_class("io.stateprocessor.interop.Tier", ["BRONZE", "SILVER", "GOLD"])
        yield


def migrate(source: Path | str, target: Path, version: str = VERSION, types: Any = None) -> sp.WriteSummary:
    """A savepoint for Flink 2.x, written in this process."""
    plan = SavepointBuild.from_existing(source)
    plan.migrate(LocalEngine(), version, types)
    return write(plan, target)


def write(plan: SavepointBuild, target: Path) -> sp.WriteSummary:
    staging = Staging(str(target), "migrated")
    plan.prepare(staging)
    return plan.write(staging, LocalEngine())


@pytest.fixture(scope="module")
def answers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What Flink found in each migrated case, or what became of migrating it; one JVM for all."""
    groups: dict[str | None, list[corpus.Case]] = defaultdict(list)
    for case in rewritten.asked_for(request, "answers"):
        groups["profile1" if rewritten.named(case, (rewritten.FIRST_PROFILE,)) else None].append(case)
    found: dict[str, Any] = {}
    with ThreadPoolExecutor(len(groups)) as jvms:
        running = []
        for instead, cases in groups.items():
            requests: dict[str, dict[str, Any]] = {}
            for case in cases:
                target = tmp_path_factory.mktemp("migrated") / "savepoint"
                try:
                    migrate(case.snapshot, target)
                except Exception as problem:
                    found[case.id] = {"error": repr(problem)}
                    continue
                backend, size = rewritten.OPPOSITE[case.facts["backend"]], case.facts["max_parallelism"]
                operators = rewritten.expected_operators(case)
                requests[case.id] = flink.request(operators, target, backend=backend, max_parallelism=size)
            running.append((requests, jvms.submit(flink.restore, VERSION, list(requests.values()), instead)))
        for requests, future in running:
            found |= zip(requests, future.result(), strict=True)
    return found


@rewritten.of_cases(covering(RESTORED, rewritten.traits))
def test_flink_2_restores_what_was_migrated(case: corpus.Case, answers: Mapping[str, Any]) -> None:
    answer = answers[case.id]
    assert "error" not in answer, answer["error"][:3000]
    found, expected = flink.entries(answer["operators"]), flink.entries(rewritten.expected_operators(case))
    assert found.keys() == expected.keys()
    different = [state for state in expected if found[state] != expected[state]]
    assert [rewritten.first_difference(state, found[state], expected[state]) for state in different] == []


@pytest.mark.corpus(instead="tests/serializers/avro/test_avro.py::test_types")
@rewritten.of_cases([case for case in OLD if rewritten.named(case, rewritten.OUR_READER_CASES)])
def test_avro_is_the_same(case: corpus.Case, tmp_path: Path) -> None:
    """Real Flink is not asked: its package has no Avro."""
    summary = migrate(case.snapshot, tmp_path / "savepoint")
    assert summary.migration is not None
    assert {report.outcome for report in summary.migration} == {"unchanged"}
    assert registrations(tmp_path / "savepoint") == registrations(case.snapshot)
    assert dict(rewritten.tables(tmp_path / "savepoint")) == dict(rewritten.tables(case.snapshot))


WRITTEN_BY_BOTH = [case for case in OLD if case.name in SAME_JOBS]


@rewritten.of_cases(WRITTEN_BY_BOTH)
def test_bytes_are_those_that_flink_2_writes(case: corpus.Case, tmp_path: Path) -> None:
    """The same job under both versions: migrated, all snapshots of serializers and all entries are the same, but for times."""
    other = corpus.Case(case.directory.parent.parent / VERSION / case.directory.name)
    migrate(case.snapshot, tmp_path / "savepoint")
    found, expected = registrations(tmp_path / "savepoint"), registrations(other.snapshot)
    assert expected
    assert found == expected
    entries, wanted = (rewritten.entry_bytes(Path(directory)) for directory in (tmp_path / "savepoint", other.snapshot))
    assert entries.keys() == wanted.keys()
    assert [state for state in wanted if entries[state] != wanted[state] and "ttl" not in state[1]] == []
    assert sum(map(len, wanted.values())) > 50


def registrations(directory: Path | str) -> dict[tuple[str, str], dict[str, bytes]]:
    """The serializer snapshots of all keyed states, keys among them."""
    snapshot = open_snapshot(directory)
    found = {}
    for operator in snapshot.metadata.operators:
        for handle in keyed_handles(operator, snapshot):
            header = handle.open(snapshot).header
            found[operator.operator_id, ""] = {"key": header.key.to_bytes()}
            for meta in header.states:
                found[operator.operator_id, meta.name] = {role: s.to_bytes() for role, s in meta.serializers.items()}
    return found


@pytest.fixture(scope="module")
def listed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The states that Flink 2.x finds registered in migrated cases of SQL and of libraries."""
    cases = rewritten.asked_for(request, "listed")
    targets = [tmp_path_factory.mktemp("listed") / "savepoint" for _ in cases]
    for case, target in zip(cases, targets, strict=True):
        migrate(case.snapshot, target)
    return dict(zip([case.id for case in cases], flink.list_states(VERSION, targets), strict=True))


@rewritten.of_cases(LISTED)
def test_flink_2_reads_the_headers(case: corpus.Case, listed: Mapping[str, Any]) -> None:
    """No serializer snapshot of SQL, pattern matching and file sinks is one that Flink 2.x lacks."""
    operators = json.loads((case.directory / "flink_states.json").read_text("utf-8"))["operators"]
    assert listed[case.id] == {
        operator["operator_id"]: {
            "coordinator": operator["coordinator"],
            "states": sorted(operator["states"], key=lambda state: state["name"]),
        }
        for operator in operators
    }


@pytest.fixture(scope="module")
def baskets(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[list[dict[str, Any]], Path, Path]]:
    """The fixtures: their operators, one of them unchanged in a separate savepoint, and all migrated."""
    found = []
    for fixture in FIXTURES:
        expected = json.loads((fixture / "expected.json").read_text("utf-8"))
        source, folder = fixture / expected["snapshot_dir"], tmp_path_factory.mktemp("baskets")
        others = SavepointBuild.from_existing(source)
        others.remove_operator("days")
        others.remove_operator("lists")
        write(others, folder / "as-it-is")
        migrate(source, folder / "migrated", "2.0", TYPES)
        found.append((expected["operators"], folder / "as-it-is", folder / "migrated"))
    return found


@pytest.mark.parametrize("version", ["2.0.2", VERSION])
def test_collections_and_kryo(version: str, baskets: Sequence[tuple[list[dict[str, Any]], Path, Path]]) -> None:
    """Fields with collections, their content, and fields that stay with Kryo: refused unchanged, restored after the migration."""
    assert FIXTURES
    requests, expectations = [], []
    for operators, as_it_is, migrated in baskets:
        requests.append(flink.request(operators[:1], as_it_is, backend="rocksdb"))
        requests.append(flink.request(operators, migrated, backend="rocksdb", parallelism=3))
        requests.append(flink.request(operators, migrated, backend="hashmap"))
        expectations += [None, operators, operators]
    for answer, operators in zip(flink.restore(version, requests), expectations, strict=True):
        if operators is None:
            assert "StateMigrationException" in answer["error"]
            continue
        assert "error" not in answer, answer["error"][:3000]
        found, expected_entries = flink.entries(answer["operators"]), flink.entries(operators)
        assert found.keys() == expected_entries.keys()
        different = [state for state in found if found[state] != expected_entries[state]]
        assert [rewritten.first_difference(s, found[s], expected_entries[s]) for s in different] == []
        assert sum(map(len, found.values())) > 100
