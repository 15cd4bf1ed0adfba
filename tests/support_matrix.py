"""The support matrix of the documentation: snapshots that the tests read, and snapshots that Flink restores in them.

``./dev generate`` writes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, Final

from tests import corpus
from tests.interop.test_native_cases import ENTRIES
from tests.interop.written_cases import CASES

BACKENDS: Final = {"hashmap": "heap", "rocksdb": "RocksDB", "forst": "ForSt"}
INTRODUCTION: Final = """\
# Support matrix

The tests prove these combinations. That version of Flink wrote each snapshot that is read. Its content is compared
with the values of the job, entry by entry. That version of Flink restored each savepoint that is written, with every entry.

`./dev generate` writes this page.
"""
READING: Final = """
Tests with a larger collection also read snapshots of Flink 1.13 and 1.15. Versions in between have the same formats.

Some checkpoints have snappy compression. Some of Flink 2.3 have merged files, and data in flight.
"""
WRITING: Final = """
Flink does not restore canonical savepoints into ForSt. Canonical savepoints are for Flink 1.13 and later, native ones for 1.15
and later, native ones for ForSt for 2.0 and later. The files have the format of RocksDB 6.20, which came with Flink 1.14.
RocksDB 8.10 of Flink 2 and its ForSt open them. A `flink_version` that can't restore the format is refused.

ForSt restores state of the asynchronous API in both versions, claimed and not, rescaled, and as state of the other API.
"""


def kind_of(content: dict[str, Any]) -> str:
    """The kind of a snapshot."""
    if "changelog" in content["variant"]:
        return "changelog"
    if "incremental" in content["variant"]:
        return "incremental checkpoint"
    return str(content["format"])


def page() -> str:
    """The page."""
    contents = [case.expected for case in corpus.own_cases()]
    read = {(c["flink_version"], BACKENDS[c["backend"]], kind_of(c)) for c in contents}
    written = {
        *((version, BACKENDS[b], "canonical") for version in CASES["bootstrapped"].versions for b in ("hashmap", "rocksdb")),
        *((version, BACKENDS[backend or ""], "native") for _, version, backend in ENTRIES),
    }
    return f"{INTRODUCTION}\n## Reading\n\n{table(read)}{READING}\n## Writing\n\n{table(written)}{WRITING}"


def table(proven: Iterable[tuple[str, str, str]]) -> str:
    """A row for each backend and kind, a column for each version."""
    found = set(proven)
    versions = sorted({version for version, _, _ in found}, key=lambda v: [int(part) for part in v.split(".")])
    kinds = ("canonical", "native", "checkpoint", "incremental checkpoint", "changelog")
    rows: list[Sequence[str]] = [("backend", "snapshot", *versions), ["---"] * (2 + len(versions))]
    for backend, kind in product(BACKENDS.values(), kinds):
        marks = ["✓" if (version, backend, kind) in found else "" for version in versions]
        if any(marks):
            rows.append((backend, kind, *marks))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
