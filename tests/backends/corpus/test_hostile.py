"""Hostile snapshots next to the external corpus: in a process with limits, each is read or ends in an error of this library."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.corpus import CORPUS

HOSTILE = CORPUS.parent / "hostile"
MOST_MEGABYTES = 700
READ = {"nested-list-15", "nested-list-30", "rocksdb-crash-1bit"}
"""Those that are well-formed and not nested deeper than types may be, and one damaged in a file that is not read."""

CHILD = """
import json, resource, sys
from pathlib import Path
from state_processor import OperatorIdentifier, arrow
from state_processor.backends.metadata.properties import decode_properties
from state_processor.errors import StateProcessorError
from state_processor.serializers import read_serializer_snapshot

resource.setrlimit(resource.RLIMIT_CPU, (200, 200))

def read(path):
    if path.suffix == ".serializer-snapshot":
        return str(read_serializer_snapshot(path.read_bytes()).restore_serializer())
    if path.suffix == ".bin":
        return decode_properties(path.read_bytes())
    rows = arrow.operators(path).num_rows + arrow.states(path).num_rows + arrow.handles(path).num_rows
    for state in arrow.states(path).to_pylist():
        operator = OperatorIdentifier.for_uid_hash(state["operator_uid_hash"])
        rows += sum(b.num_rows for b in arrow.read_state(path, operator, state["state_name"]))
    return rows

for path in sorted(Path(sys.argv[1]).iterdir()):
    if path.name == "README.md":
        continue
    print(json.dumps({"name": path.name, "outcome": "ended"}), flush=True)
    try:
        outcome = {"outcome": "read", "rows": str(read(path))}
    except StateProcessorError as problem:
        outcome = {"outcome": type(problem).__name__, "message": str(problem)}
    except BaseException as problem:
        outcome = {"outcome": "foreign", "message": repr(problem)[:300]}
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    megabytes = int(status["VmHWM"].split()[0]) >> 10  # ru_maxrss counts the process of the tests, before this program
    print(json.dumps({"name": path.name, "megabytes": megabytes} | outcome), flush=True)
"""


@pytest.mark.corpus(instead="tests/fuzz/test_fuzz.py::test_inputs_that_failed_once_are_read_or_refused")
def test_each_ends_as_it_should() -> None:
    if not HOSTILE.is_dir():
        pytest.skip(f"{HOSTILE} is not there")
    command = [sys.executable, "-c", CHILD, str(HOSTILE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    found: dict[str, dict[str, Any]] = {line["name"]: line for line in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 0, (done.returncode, done.stderr[-500:], list(found)[-1:])
    assert set(found) == {path.name for path in Path(HOSTILE).iterdir()} - {"README.md"}
    wrong = {name: line for name, line in found.items() if line["outcome"] in ("foreign", "ended")}
    assert wrong == {}
    assert {name for name, line in found.items() if line["outcome"] == "read"} == READ
    assert all(line["megabytes"] < MOST_MEGABYTES for line in found.values())
