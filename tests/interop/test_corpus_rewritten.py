"""Packed snapshots, and snapshots of the external corpus, written by us: real Flink restores them with every entry.

Whatever a snapshot was read from, it is written canonically. Flink restores each shape from each version of Flink, each shape
from each backend, and each format. Cases of the external corpus with the name of a packed case are omitted.
``STATE_PROCESSOR_EVERY_CASE=1`` selects all.

All states are decoded to columns and encoded again. Entries with numbers of unknown classes (:data:`UNTYPED_STATES`) are copied
as bytes. Cases without an available job (:data:`CARRIED_CASES`) are copied as bytes as a whole, and Avro's cases are rewritten
(Flink's distribution does not contain Avro); our reader compares both entry by entry, and Avro's bytes are compared with Flink's
bytes.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import state_processor as sp
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.state_access import open_state
from state_processor.backends.read.stored_operator import StoredOperator, operator_states
from state_processor.backends.state.descriptions import StateDescription
from state_processor.backends.write.assembly import metadata_version
from state_processor.support.errors import InvalidRowError
from tests import corpus
from tests.interop import flink
from tests.interop.rewriting import entry_bytes, rewrite
from tests.interop.selection import EVERY_CASE, asking, covering

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]

UNTYPED_STATES = frozenset({"value-pojo-account", "map-int-pojo", "account", "union-accounts", "accounts"})
"""States of Flink 1.x that are copied as bytes: Account.counters, in Kryo's encoding, is JSON, with one kind of numbers."""

CARRIED_CASES = ("sql-", "cep-", "file-sink-", "pyflink-")
"""Cases taken over as bytes as a whole: the planner's, the libraries' and Python's operators come with the job alone."""

FINISHED_CASES = ("finished-tasks-",)
"""Cases with a source that is through in some subtasks: our own keeps splits that no other job takes over."""

PYTHON_CASES = ("pyflink-",)
"""Carried cases with serializers of PyFlink. Flink's libraries do not contain them."""

OUR_READER_CASES = ("keyed-avro-",)
"""Rewritten cases with serializers that the restoring Flink lacks."""

FIRST_PROFILE = "evolution-v1-"
"""Cases of the first version of ``fixtures.evo.Profile``: their jobs need that version."""

EXPLAINED = ("1.20.5/keyed-all-hashmap-canonical", "1.20.5/operator-state-hashmap-canonical")
"""Cases that show why :data:`UNTYPED_STATES` are copied as bytes."""

SAME_BYTES = ("1.20.5/keyed-all-hashmap-canonical", "2.3.0/keyed-all-rocksdb-canonical", "2.3.0/windows-rocksdb-canonical")
"""Cases that are compared byte by byte, in addition to Avro's."""

OTHER_KEY_GROUPS = (
    "1.20.5/keyed-all-hashmap-canonical",
    "2.3.0/keyed-all-hashmap-changelog",
    "2.3.0/keyed-all-rocksdb-heap-timers-incremental",
)
"""Cases whose key groups change, with classes that users have to describe, a changelog, and timers on the heap."""

NULL_MAP_VALUES = ("labels", "addresses")
"""Map states with null values: behind the flag of null Flink leaves what the serializer makes of null, and never reads it."""

RESTORED_BY = {"1": "1.20.5", "2": "2.3.0"}
PARALLELISM = 3
OPPOSITE = {"hashmap": "rocksdb", "rocksdb": "hashmap", "forst": "hashmap"}

PACKED = {case.name for case in corpus.packed_cases()}
OTHERS = [case for case in corpus.corpus_cases() if EVERY_CASE or case.name not in PACKED]
ALL = [case for case in corpus.packed_cases() + OTHERS if "snapshot_dir" in case.facts]


def named(case: corpus.Case, prefixes: tuple[str, ...]) -> bool:
    return case.directory.name.startswith(prefixes)


def is_of_its_own_job(case: corpus.Case) -> bool:
    return named(case, CARRIED_CASES) or (named(case, FINISHED_CASES) and case.id == case.name)


CARRIED = [case for case in ALL if is_of_its_own_job(case)]
OURS = [case for case in ALL if named(case, OUR_READER_CASES)]
RESTORED = [case for case in ALL if not is_of_its_own_job(case) and not named(case, OUR_READER_CASES)]


def of_cases(cases: list[corpus.Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.id)


def traits(case: corpus.Case) -> set[Any]:
    """What a restore of a case is about. All snapshots of a shape have the same content."""
    backend = case.facts["backend"]
    shape, _, format = case.directory.name.partition(f"-{backend}-")
    return {(shape, case.directory.parent.name), (shape, backend), format}


def restorer(case: corpus.Case) -> str:
    return RESTORED_BY[case.directory.parent.name[0]]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[corpus.Case, bool], Path]:
    """What writes a case once, for all tests that read it."""

    @cache
    def write_once(case: corpus.Case, everything: bool) -> Path:
        return write(case, tmp_path_factory.mktemp("rewritten") / "savepoint", everything)

    return write_once


def write(case: corpus.Case, target: Path, everything: bool) -> Path:
    """The case written by us to another parallelism, decoded and encoded or, with everything, copied as bytes."""

    def carried(state: StateDescription) -> bool:
        return everything or (restorer(case)[0] == "1" and state.name in UNTYPED_STATES)

    rewrite(case.snapshot, target, PARALLELISM, metadata_version(restorer(case)), carried)
    return target


def read(stored: StoredOperator, state: str) -> list[dict[str, Any]]:
    reader = open_state(stored, state, options=ReadOptions.of(flatten=False, nanos="string", row_kind=True))
    return [row for split in reader.splits() for batch in reader.read(split) for row in batch.to_pylist()]


def expected_operators(case: corpus.Case) -> list[dict[str, Any]]:
    """What Flink has to find, in its notation: splits of a source as bytes, timestamps without zeros at the end."""
    operators: list[dict[str, Any]] = case.expected["operators"]
    for operator in operators:
        for state in operator.setdefault("states", []):
            if "sequence_from" in state:
                snapshot = open_snapshot(case.snapshot)
                rows = read(StoredOperator.find(snapshot, operator["uid"]), state["name"])
                state |= {"value_type": "BYTES", "entries": [row["value"].hex() for row in rows]}
            elif state.get("value_type") == "SQL_TIMESTAMP":
                for entry in state["entries"]:
                    seconds, _, fraction = entry["value"].partition(".")
                    entry["value"] = f"{seconds}.{fraction.rstrip('0') or '0'}"
    # Canonical savepoints are of the synchronous API: the other has no TTL where the backend is not ForSt.
    return [operator | {"asynchronous": False} for operator in operators if operator["states"]]


def asked_for(request: pytest.FixtureRequest, name: str) -> list[corpus.Case]:
    """The cases that the selected tests with a fixture are about."""
    return [item.callspec.params["case"] for item in asking(request, name)]


@pytest.fixture(scope="module")
def answers(request: pytest.FixtureRequest, written: Callable[[corpus.Case, bool], Path]) -> dict[str, Any]:
    """What Flink found in each case, or what became of writing it; one JVM for many cases, while others are written."""
    groups: dict[tuple[str, str | None], list[corpus.Case]] = defaultdict(list)
    for case in asked_for(request, "answers"):
        groups[restorer(case), "profile1" if named(case, (FIRST_PROFILE,)) else None].append(case)
    found: dict[str, Any] = {}
    with ThreadPoolExecutor(len(groups)) as jvms:
        running = []
        for (version, instead), cases in groups.items():
            requests: dict[str, dict[str, Any]] = {}
            for case in cases:
                try:
                    target = written(case, False)
                except Exception as problem:
                    found[case.id] = {"error": repr(problem)}
                    continue
                backend, size = OPPOSITE[case.facts["backend"]], case.facts["max_parallelism"]
                requests[case.id] = flink.request(expected_operators(case), target, backend=backend, max_parallelism=size)
            running.append((requests, jvms.submit(flink.restore, version, list(requests.values()), instead)))
        for requests, future in running:
            found |= zip(requests, future.result(), strict=True)
    return found


@of_cases(covering(RESTORED, traits))
def test_flink_restores_what_we_wrote(case: corpus.Case, answers: Mapping[str, Any]) -> None:
    answer = answers[case.id]
    assert "error" not in answer, answer["error"][:3000]
    found, expected = flink.entries(answer["operators"]), flink.entries(expected_operators(case))
    assert found.keys() == expected.keys()
    assert [first_difference(state, found[state], expected[state]) for state in expected if found[state] != expected[state]] == []


def first_difference(state: tuple[str, str, str], found: list[str], expected: list[str]) -> str:
    """Numbers of entries, and the first that only one side has."""
    one, other = (sorted(set(a) - set(b))[:1] for a, b in ((found, expected), (expected, found)))
    return f"{state}: {len(found)} entries found, {len(expected)} expected; {one} instead of {other}"


def tables(directory: Path | str) -> Iterator[tuple[str, list[str]]]:
    """The rows of every state as text, in an order of their own."""
    snapshot = open_snapshot(directory)
    for operator in snapshot.metadata.operators:
        stored = StoredOperator(snapshot, operator)
        for name, (state, *_) in stored.states().items():
            rows = [corpus.sort_key(row) for row in read(stored, name)]
            yield f"{operator.operator_id}/{name} {state.kind}", sorted(rows)


@of_cases(OURS + CARRIED)
def test_we_read_what_we_wrote(case: corpus.Case, written: Callable[[corpus.Case, bool], Path]) -> None:
    found, expected = dict(tables(written(case, case in CARRIED))), dict(tables(case.snapshot))
    assert expected
    assert {name: len(rows) for name, rows in found.items()} == {name: len(rows) for name, rows in expected.items()}
    assert [name for name in expected if found[name] != expected[name]] == []


@of_cases([case for case in RESTORED if case.name in SAME_BYTES] + OURS)
def test_bytes_are_those_that_flink_wrote(case: corpus.Case, written: Callable[[corpus.Case, bool], Path]) -> None:
    """Each decoded and encoded entry equals the copied entry."""
    anew, taken = (entry_bytes(written(case, everything)) for everything in (False, True))
    assert sum(map(len, taken.values())) > 100
    assert anew.keys() == taken.keys()
    assert [state for state in taken if anew[state] != taken[state] and state[1] not in NULL_MAP_VALUES] == []
    for state in taken:
        if state[1] in NULL_MAP_VALUES:
            flagged = [(key, value[:1] if value[0] else value) for key, value in taken[state]]
            assert anew[state] == flagged


@of_cases([case for case in ALL if case.name in OTHER_KEY_GROUPS])
def test_everything_in_other_key_groups(case: corpus.Case, spark: SparkSession, tmp_path: Path) -> None:
    """Each key gets its new key group, for any value, and with registrations about values in tasks."""
    sp.SavepointWriter.from_existing(spark, case.snapshot).with_max_parallelism(512).write(tmp_path / "savepoint")
    found, expected = dict(tables(tmp_path / "savepoint")), dict(tables(case.snapshot))
    assert sum(map(len, expected.values())) > 500
    assert [name for name in expected | found if found.get(name) != expected.get(name)] == []


@pytest.fixture(scope="module")
def listed(request: pytest.FixtureRequest, written: Callable[[corpus.Case, bool], Path]) -> dict[str, Any]:
    """The states that Flink finds registered in cases that were taken over as a whole."""
    groups: dict[str, list[corpus.Case]] = defaultdict(list)
    for case in asked_for(request, "listed"):
        groups[restorer(case)].append(case)
    found: dict[str, Any] = {}
    for version, cases in groups.items():
        savepoints = [written(case, True) for case in cases]
        found |= zip([case.id for case in cases], flink.list_states(version, savepoints), strict=True)
    return found


@of_cases([case for case in CARRIED if (case.directory / "flink_states.json").exists() and not named(case, PYTHON_CASES)])
def test_flink_reads_the_headers_that_we_wrote(case: corpus.Case, listed: Mapping[str, Any]) -> None:
    """The same states, options and serializer snapshots as Flink found in the snapshot that they are from."""
    operators = json.loads((case.directory / "flink_states.json").read_text("utf-8"))["operators"]
    assert any(operator["states"] for operator in operators)
    assert listed[case.id] == {
        operator["operator_id"]: {
            "coordinator": operator["coordinator"],
            "states": sorted(operator["states"], key=lambda state: state["name"]),
        }
        for operator in operators
    }


@of_cases([case for case in RESTORED if case.name in EXPLAINED])
def test_why_states_are_taken_over(case: corpus.Case, tmp_path: Path) -> None:
    """Each state that is named, alone, is refused, for the numbers in its JSON."""
    snapshot = open_snapshot(case.snapshot)
    states = {s.name for o in snapshot.metadata.operators for s in operator_states(snapshot, o).values()} & UNTYPED_STATES
    assert states
    for number, name in enumerate(sorted(states)):

        def carried(state: StateDescription, tried: str = name) -> bool:
            return state.name in UNTYPED_STATES - {tried}

        with pytest.raises(InvalidRowError, match="Integer or a Long"):
            rewrite(case.snapshot, tmp_path / str(number), 1, metadata_version(None), carried)
