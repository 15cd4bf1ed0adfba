"""What has to hold after a fault: nothing partial is visible, and a second write leaves its savepoint and nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import state_processor as sp
from state_processor import cli
from state_processor.backends.files.storage import Storage
from tests.faults.writes import Write

NOTHING = "no savepoint"
COMPLETE = "complete"
REPLACED = "the one before"
_ATTEMPTS = 50


def names(target: str) -> set[str]:
    """Files in a directory."""
    return {e.name for e in Storage().list(target) if not e.is_directory}


def visible(write: Write, before: Write | None = None) -> str:
    """Return the result of readers after a fault: nothing, or a savepoint with every entry, new or from ``before``.

    Operations of the dying write may still complete, so a reader may have to read again.
    """
    for attempt in range(_ATTEMPTS):
        try:
            return _visible(write, before)
        except (AssertionError, sp.StateProcessorError):
            if attempt == _ATTEMPTS - 1:
                raise
            time.sleep(0.2)
    raise AssertionError


def _visible(write: Write, before: Write | None) -> str:
    if "_metadata" not in names(write.target):
        assert before is None, f"{write.target}: the savepoint that was to be replaced is gone"
        try:
            sp.arrow.operators(write.target)
        except sp.NotASnapshotError:
            return NOTHING
        raise AssertionError(f"{write.target} is read without _metadata")
    found = content(write.target)
    if found == write.expected:
        return COMPLETE
    assert before is not None
    assert found == before.expected
    return REPLACED


def content(target: str) -> dict[str, int]:
    """Check the copied state, and return the written state by key."""
    rows = [(r["key"], r["value"]) for b in sp.arrow.read_state(target, "orders", "total") for r in b.to_pylist()]
    assert len(rows) == len(dict(rows))
    assert sum(b.num_rows for b in sp.arrow.read_state(target, "catalog", "pending")) == 10
    return dict(rows)


def check_complete(write: Write) -> None:
    """The savepoint comes from a write, and the savepoint refers to every file."""
    assert content(write.target) == write.expected
    referenced = {h["path"] for h in sp.arrow.handles(write.target).to_pylist() if not h["inline"]}
    assert names(write.target) == {"_metadata"} | referenced


def check_repair(write: Write, found: str) -> None:
    """``validate --repair`` removes everything that a killed write left; a complete savepoint stays."""
    code = cli.main(["validate", write.target, "--repair"])
    assert code == (cli.NO if found == NOTHING else 0), f"{write.target}: validate ends with {code}"
    if found == NOTHING:
        assert names(write.target) == set()
    else:
        referenced = {h["path"] for h in sp.arrow.handles(write.target).to_pylist() if not h["inline"]}
        assert names(write.target) == {"_metadata"} | referenced


def check_second_write(write: Write, found: str, run: Callable[[Write], None] = Write.run) -> None:
    """The same write again: it succeeds, or refuses to replace a complete savepoint.

    Processes of Spark that outlive the killed one may make its write complete after readers found nothing.
    """
    try:
        run(write)
        assert write.overwrite or found != COMPLETE, f"{write.target} was written twice"
    except sp.OptionError:
        assert not write.overwrite
        assert visible(write) == COMPLETE
        run(replace(write, overwrite=True))
    check_complete(write)
