"""Every state of every real snapshot has the values that the job put in."""

from __future__ import annotations

from collections.abc import Iterator, Set
from functools import cached_property
from typing import Any

import pyarrow as pa
import pytest

from state_processor.backends.formats.source import KeyedStateSource
from state_processor.backends.metadata.snapshot import Snapshot, open_snapshot
from state_processor.backends.read.keyed_reader import KeyedStateReader
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.state_access import open_state
from state_processor.backends.read.stored_operator import StoredOperator, Survey, find_operator, survey
from tests import corpus

OPTIONS = ReadOptions.of(flatten=False, nanos="string", row_kind=True)
TIMER_NAMES = {"EVENT_TIMER": "_timer_state/event_", "PROCESSING_TIMER": "_timer_state/processing_"}
_WITHOUT_STATE_CONTENT = ("sql-", "cep-", "file-sink-", "pyflink-")
"""Cases whose expected content is logical, not entries of states; other tests read them."""
_KEYED_FORMATS = ("canonical", "native", "checkpoint")


def readable(case: corpus.Case) -> bool:
    return not case.directory.name.startswith(_WITHOUT_STATE_CONTENT) and case.facts.get("format") in _KEYED_FORMATS


CASES = [c for c in corpus.all_cases() if readable(c)]


class Reading:
    """The rows of states of one case. Headers are read and keyed handles are opened once."""

    def __init__(self, case: corpus.Case, options: ReadOptions) -> None:
        self._case = case
        self._options = options
        self._surveyed: dict[str, Survey] = {}
        self._opened: dict[tuple[str, int, bool], KeyedStateSource] = {}

    @cached_property
    def _snapshot(self) -> Snapshot:
        return open_snapshot(self._case.snapshot)  # cases without states don't have a snapshot

    def rows(self, operator: dict[str, Any], name: str) -> list[dict[str, Any]]:
        """The rows of an expected operator's state."""
        found = find_operator(self._snapshot, operator["uid"], operator.get("uid_hash"))
        if found.operator_id not in self._surveyed:
            self._surveyed[found.operator_id] = survey(self._snapshot, found)
        reader = open_state(StoredOperator(self._snapshot, found, self._surveyed[found.operator_id]), name, options=self._options)
        if isinstance(reader, KeyedStateReader):
            batches = self._keyed(found.operator_id, reader)
        else:
            batches = (batch for split in reader.splits() for batch in reader.read(split))
        return [row for batch in batches for row in batch.to_pylist()]

    def _keyed(self, operator: str, reader: KeyedStateReader) -> Iterator[pa.RecordBatch]:
        for split in reader.splits():
            handle = split.handle
            place = operator, handle.subtask, handle.raw
            if place not in self._opened:
                self._opened[place] = handle.open(self._snapshot)
            yield from reader.read_source(self._opened[place], split.key_groups, split.keys, handle.subtask)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_every_state_is_as_the_job_left_it(case: corpus.Case) -> None:
    problems = []
    reading = Reading(case, OPTIONS)
    for operator, state in corpus.states_of(case):
        label = f"{operator['uid']}/{state['name']} ({state['kind']})"
        try:
            rows = reading.rows(operator, TIMER_NAMES.get(state["kind"], "") + state["name"])
        except Exception as e:  # every state is reported, not the first that fails
            problems.append(f"{label}: {type(e).__name__}: {e}")
            continue
        problems += [f"{label}: {p}"[:600] for p in compare(rows, state)]
    assert not problems, f"{len(problems)} differences\n" + "\n".join(problems[:40])


def compare(rows: list[dict[str, Any]], state: dict[str, Any]) -> list[str]:
    if state["kind"] in ("OPERATOR_LIST", "UNION_LIST"):
        if "sequence_from" in state:  # split bytes of a source: their content is another test's
            return []
        expected = state["entries"]
        texts = set(corpus.bag(expected))
        found = [closest(row["value"], expected, texts) for row in rows]
        if corpus.bag(found) != corpus.bag(expected):
            return [f"expected {corpus.bag(expected)[:3]}, found {corpus.bag(found)[:3]}"]
        return []
    return corpus.differences(rows, state)


def closest(actual: Any, expected: list[Any], texts: Set[str]) -> Any:
    """An element in the notation of the expected one that it equals, else of the first. ``texts``: of the expected elements."""
    shaped = (corpus.as_expected(actual, e) for e in expected)
    equal = (s for s in shaped if corpus.sort_key(s) in texts)
    return next(equal, corpus.as_expected(actual, expected[0]) if expected else actual)
