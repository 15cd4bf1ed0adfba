"""Ids of operators without uids, recomputed from the graphs that real Flink prints, equal Flink's ids."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from state_processor.applications.jobs.matching import with_hashes
from state_processor.applications.jobs.opening import graph_of
from tests.interop import flink

pytestmark = pytest.mark.interop


def op(name: str, *inputs: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputs": list(inputs), **more}


JOBS = {
    "chain": [op("a"), op("b", 0), op("c", 1)],
    "keyed": [op("a"), op("b", 0), op("c", 1, keyed=True), op("d", 2)],
    "branches": [op("a"), op("b", 0), op("c", 0), op("d", 1), op("e", 2, keyed=True)],
    "two sources": [op("a"), op("b"), op("c", 0), op("d", 1), op("e", 2, 3), op("f", 4, keyed=True)],
    "sizes": [op("a"), op("b", 0, parallelism=2), op("c", 1, parallelism=2), op("d", 2)],
    "tasks": [op("a"), op("b", 0, keyed=True), op("c", 1), op("d", 2, keyed=True), op("e", 3), op("f", 3)],
    "diamond": [op("a"), op("b", 0, keyed=True), op("c", 0, keyed=True), op("d", 1, 2), op("e", 3)],
    "three sources": [op("a"), op("b"), op("c"), op("d", 1, keyed=True), op("e", 0, 2, keyed=True), op("f", 3), op("g", 4)],
    "long": [op("a"), *(op(f"m{n}", n, keyed=n % 3 == 2) for n in range(12))],
    "broken chain": [op("a"), op("b", 0, alone=True), op("c", 1)],
}
"""Jobs without uids. The execution plan does not show that a job breaks a chain by hand."""


@pytest.mark.parametrize("version", ["1.20.5", "2.3.0"])
def test_ids_equal_those_of_flink(version: str, tmp_path: Path) -> None:
    asked, answered = tmp_path / "jobs.json", tmp_path / "answers.json"
    asked.write_text(json.dumps(list(JOBS.values())), "utf-8")
    flink.run_kept(version, "GraphHashes", [str(asked), str(answered)], tables=False)
    answers = json.loads(answered.read_text("utf-8"))
    for (name, job), answer in zip(JOBS.items(), answers, strict=True):
        for form in ("execution_plan", "rest"):
            graph = graph_of(json.loads(answer[form]))
            assert graph is not None
            found = with_hashes(graph, set(answer["ids"]))
            names = {
                node.name.removeprefix("Source: "): node.uid_hash for node in found.nodes if node.name not in ("Sequence Source",)
            }
            where = f"{name}, {form}"
            assert len(found.nodes) == len(job), where
            known = {uid_hash for uid_hash in names.values() if uid_hash is not None}
            if (name, form) != ("broken chain", "execution_plan"):
                assert known == set(answer["ids"]), where
                assert len(known) == len(job), where
            else:
                assert known < set(answer["ids"]), where
