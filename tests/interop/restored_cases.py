"""Cases that Flink restores, with Flink's answers. One JVM restores the cases of a version while others are written."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.state_access import open_state
from state_processor.backends.read.stored_operator import StoredOperator
from tests import corpus
from tests.interop import flink
from tests.interop.expectations import repeated
from tests.interop.written_cases import Workshop, Written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMER_PREFIXES = {"EVENT_TIMER": "_timer_state/event_", "PROCESSING_TIMER": "_timer_state/processing_"}

Case = tuple[str, str, str | None]
"""Name, version of Flink, and the backend whose native format is written."""


@dataclass(frozen=True)
class Outcome:
    """A case, and Flink's answer to each of its requests."""

    written: Written
    answers: list[dict[str, Any]]


def restored(
    spark: SparkSession | None, directories: pytest.TempPathFactory, asked: Iterable[Case], more: Mapping[Case, dict[str, Any]]
) -> dict[Case, Outcome]:
    """Write cases and have Flink restore them; ``more`` are backends (arguments of :func:`flink.request`) to try in addition.

    Without a session of Spark, the writer without Spark writes them.
    """
    groups: dict[str, dict[Case, None]] = defaultdict(dict)
    for case in asked:
        groups[case[1]][case] = None
    running: list[tuple[list[tuple[Case, Written, int]], Future[list[dict[str, Any]]]]] = []
    with ThreadPoolExecutor(1) as jvm:
        for version, of_version in groups.items():
            workshops = {b: Workshop(spark, version, directories.mktemp(f"{version}-{b}"), b) for _, _, b in of_version}
            requests: list[dict[str, Any]] = []
            cases = []
            for case in of_version:
                name, _, backend = case
                written = workshops[backend].written(name)
                own = list(written.requests())
                if case in more:
                    own.append(flink.request(written.operators, written.target, **more[case]))
                requests += own
                cases.append((case, written, len(own)))
            running.append((cases, jvm.submit(flink.restore, version, requests)))
        found = {}
        for cases, future in running:
            answers = iter(future.result())
            for case, written, count in cases:
                found[case] = Outcome(written, [next(answers) for _ in range(count)])
    return found


def check_entries(outcome: Outcome) -> None:
    """Flink has found every entry, with each backend and parallelism."""
    wanted = flink.entries(outcome.written.operators)
    assert sum(map(len, wanted.values())) > 50
    for (backend, parallelism), answer in zip(outcome.written.restores, outcome.answers, strict=False):
        where = f"{backend}, parallelism {parallelism}"
        assert "error" not in answer, f"{where}: {answer['error'][:3000]}"
        found = flink.entries(answer["operators"])
        assert {state: found[state] for state in wanted if found[state] != wanted[state]} == {}, where


def check_going_on(outcome: Outcome) -> None:
    """The job sees and changes its state, timers and windows fire, and its next snapshot has the expected result."""
    assert outcome.written.fired
    for (backend, parallelism), answer in zip(outcome.written.restores, outcome.answers, strict=True):
        assert "error" not in answer, f"{backend}: {answer['error'][:3000]}"
        assert sorted(map(_text, answer["fired"])) == sorted(map(_text, outcome.written.fired)), backend
        # Each subtask of such a job keeps all elements of union state.
        finally_ = repeated(outcome.written.finally_, "UNION_LIST", parallelism)
        assert list(differences(Path(answer["savepoint"]), finally_)) == [], backend
    assert (outcome.written.target / "_metadata").exists() != outcome.written.claimed  # Flink removes claimed snapshots


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def differences(savepoint: Path, operators: list[dict[str, Any]]) -> Iterator[str]:
    """What our reader finds in a savepoint that is not expected."""
    snapshot = open_snapshot(savepoint)
    options = ReadOptions.of(flatten=False, nanos="string", row_kind=True)
    for operator in operators:
        stored = StoredOperator.find(snapshot, operator["uid"])
        for state in operator["states"]:
            reader = open_state(stored, TIMER_PREFIXES.get(state["kind"], "") + state["name"], options=options)
            rows = [row for split in reader.splits() for batch in reader.read(split) for row in batch.to_pylist()]
            if state["kind"] in ("OPERATOR_LIST", "UNION_LIST"):
                elements = [corpus.as_expected(row["value"], state["entries"][0]) for row in rows]
                if corpus.bag(elements) != corpus.bag(state["entries"]):
                    yield f"{state['name']}: {elements}"
            else:
                yield from (f"{state['name']}: {problem}" for problem in corpus.differences(rows, state))
